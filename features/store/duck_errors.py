"""DuckDB's and the file system's errors as ours: a sentence that names the file and the mend."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager

import duckdb

from telemetry.errors import StoreError, StoreFull

_HOLDER = re.compile(r"held in .*?\(PID (\d+)\)")
_CORRUPT = (
    "not a valid duckdb database",
    "corrupt",
    "checksum",
    "not read enough bytes",
    "deserializ",
    "serialization error",
    "wal file",
)
_FULL = ("no space left", "file too large", "disk quota", "could not write")
_CANNOT_WRITE = ("out of memory",)

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def translated(name: str) -> Iterator[None]:
    """Turn a foreign error about a store into a ``StoreError``.

    Args:
        name: the store's file, for the sentence.
    """
    try:
        yield
    except duckdb.Error as error:
        raise _store_error(name, str(error)) from error
    except OSError as error:
        kind = StoreFull if error.errno in _NO_ROOM else StoreError
        raise kind(f"{name}: {error.filename or ''} {error.strerror}", mend=_os_mend(error)) from error


def _store_error(name: str, text: str) -> StoreError:
    lower = text.lower()
    holder = _HOLDER.search(text)
    if "lock on file" in lower:
        who = f"process {holder.group(1)}" if holder else "another process"
        return StoreError(f"{name} is in use by {who}", mend="Stop it, or name another folder with --data-dir")
    if "newer version of duckdb" in lower or "database version" in lower:
        return StoreError(
            f"{name} was written by another DuckDB version", mend="Install the DuckDB that wrote it, or move it away"
        )
    if any(word in lower for word in (*_FULL, *_CANNOT_WRITE)):
        kind = StoreFull if any(word in lower for word in _FULL) else StoreError
        return kind(
            f"{name} cannot be written: {_first_line(text)}",
            mend="Free disk space, or name another folder with --data-dir",
        )
    if "permission denied" in lower or "read-only" in lower or "cannot open file" in lower:
        return StoreError(
            f"{name} cannot be opened: {_first_line(text)}", mend="Give this user the right to read and write it"
        )
    if any(word in lower for word in _CORRUPT):
        return StoreError(
            f"{name} is damaged or not a gpucast store: {_first_line(text)}",
            mend="Move it and its .wal file away; a new store starts empty",
        )
    return StoreError(f"{name}: {_first_line(text)}")


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0].rstrip(".") if text.strip() else "no reason given"


def _os_mend(error: OSError) -> str:
    if error.errno in _NO_ROOM:
        return "Free disk space, or name another folder"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "Give this user the right to write there, or name another folder"
    return ""
