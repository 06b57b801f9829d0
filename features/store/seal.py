"""The digest of a cold file, kept in a hidden file beside it, and what happens to a file that is damaged.

``.part-00000001.parquet.sha256`` is written with its file in the form that ``sha256sum -c`` reads. Names that begin
with a dot are passed over by the tools that read a folder of Parquet files.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import duckdb

Answer = TypeVar("Answer")

ASIDE = ".damaged"
_HEX_DIGITS = 64


def seal_of(file: Path) -> Path:
    """Where the digest of a cold file lies."""
    return file.with_name(f".{file.name}.sha256")


def digest_of(file: Path) -> str:
    """SHA-256 of a file, in hexadecimal.

    Raises:
        OSError: it cannot be read.
    """
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def seal(file: Path, digest: str = "") -> None:
    """Write the digest of a finished file; it is worked out where it is not given."""
    place = seal_of(file)
    draft = place.with_suffix(".draft")
    draft.write_text(f"{digest or digest_of(file)}  {file.name}\n", encoding="utf-8")
    os.replace(draft, place)


def sealed_digest(file: Path) -> str:
    """The digest that was written with a file; empty where there is none that can be used.

    Files of older versions have none, and a crash of the machine may leave an empty one.
    """
    try:
        words = seal_of(file).read_text(encoding="utf-8").split()
    except (OSError, UnicodeDecodeError):
        return ""
    return words[0] if words and len(words[0]) == _HEX_DIGITS else ""


def remove(file: Path) -> None:
    """Delete a file and its digest, where they are."""
    file.unlink(missing_ok=True)
    seal_of(file).unlink(missing_ok=True)


def broken_seal(file: Path) -> str:
    """What the digest that was written with a file says against it; empty where there is none or it fits.

    Raises:
        OSError: the file cannot be read.
    """
    known = sealed_digest(file)
    return "its bytes are not those that were written (SHA-256 differs)" if known and known != digest_of(file) else ""


def damage(file: Path) -> str:
    """What is wrong with a file's bytes; empty when they are those that were written.

    A file without a digest is damaged when it cannot be read to its end as Parquet.

    Raises:
        OSError: it cannot be opened; that is no damage of the file.
        duckdb.Error: nothing can be read at all, for want of threads for example; likewise.
    """
    if sealed_digest(file):
        return broken_seal(file)
    digest_of(file)  # a disk that cannot read all of it raises OSError here
    with duckdb.connect() as connection:
        try:
            connection.execute(_WHOLE, [str(file)]).fetchall()
        except duckdb.OutOfMemoryException:
            return ""
        except duckdb.Error as error:
            return f"it cannot be read: {first_line(error)}"
    return ""


def first_line(error: BaseException) -> str:
    """The first line of an error's text, or its kind."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def set_aside(file: Path, why: str, told: list[str]) -> None:
    """Rename a damaged file so that nobody reads it, and add a sentence that names it to ``told``."""
    number, place = 1, file.with_name(file.name + ASIDE)
    while place.exists():
        number += 1
        place = file.with_name(f"{file.name}{ASIDE}-{number}")
    os.replace(file, place)
    seal_of(file).unlink(missing_ok=True)
    told.append(
        f"{file} is damaged and set aside as {place.name}; its samples are not read: {why}."
        " Bring it back from a backup, or delete it"
    )


def sound(files: Sequence[Path], told: list[str]) -> list[Path]:
    """The files that are not damaged; the others are set aside."""
    kept = []
    for file in files:
        if why := damage(file):
            set_aside(file, why, told)
        else:
            kept.append(file)
    return kept


def reading(files: Sequence[Path], told: list[str], ask: Callable[[list[str]], Answer]) -> Answer | None:
    """What ``ask`` finds in the files; where it fails on damaged ones, these are set aside and the rest is asked.

    Returns:
        The answer; None when no file is left.

    Raises:
        duckdb.Error: it fails, and no file is damaged.
        OSError: a file cannot be opened.
    """
    left = list(files)
    while left:
        try:
            return ask([str(file) for file in left])
        except duckdb.Error:
            kept = sound(left, told)
            if len(kept) == len(left):
                raise
            left = kept
    return None


# Every column is summed up, so that every page is decoded.
_WHOLE = """
    select count(*), max(entity), max(at_s), max(value), max(reason), max(seen_s), max(row)
    from read_parquet(?, hive_partitioning = false)
"""
