"""Whether every cold file is whole and says what its place says."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import duckdb

from features.store import seal
from features.store.cold import DAY_S, ColdFiles, day_number
from features.store.columns import one


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a check of the cold files found.

    Args:
        files: how many were read.
        samples: how many rows they hold.
        sealed: how many files have a digest; those of older versions have none until they are merged.
        problems: sentences that name the file at fault; empty when all is well.
    """

    files: int
    samples: int
    sealed: int
    problems: tuple[str, ...]


def verify_cold(connection: duckdb.DuckDBPyConnection, cold: ColdFiles) -> Verdict:
    """Read every cold file to its end.

    Each must have the bytes of its digest, where it has one, open, hold as many rows as its footer says and only times
    of its day, and no two files of a day and metric may hold a sample of one series at one moment.
    """
    problems: list[str] = []
    count = samples = sealed = 0
    for (day, _), files in cold.partitions().items():
        good = []
        for file in files:
            count += 1
            sealed += bool(seal.sealed_digest(file))
            rows, problem = _read(connection, file, day)
            samples += rows
            if problem:
                problems.append(f"{file}: {problem}")
            else:
                good.append(str(file))
        if good and (twice := one(connection, _TWICE, [good])[0]):
            problems.append(
                f"{files[0].parent}: {twice} samples are there more than once; `gpucast store compact` folds them"
            )
    if cold.folder is not None and cold.folder.is_dir():
        left = [*cold.folder.rglob("*.draft"), *cold.folder.rglob("merge.json")]
        problems += [f"{file}: left by a write that did not end; opening the store clears it" for file in sorted(left)]
    problems += [
        f"{file}: set aside as damaged, its samples are not read; bring it back from a backup, or delete it"
        for file in cold.set_aside()
    ]
    return Verdict(count, samples, sealed, tuple(problems))


def _read(connection: duckdb.DuckDBPyConnection, file: Path, day: str) -> tuple[int, str]:
    """Rows of a file, and what is wrong with it."""
    try:
        if broken := seal.broken_seal(file):
            return 0, broken
        start_s = day_number(day) * DAY_S
        (told,) = one(connection, "select num_rows from parquet_file_metadata(?)", [str(file)])
        found = one(connection, _WHOLE, [start_s, start_s + DAY_S, str(file)])
    except (duckdb.Error, ValueError, OSError) as error:
        return 0, f"cannot be read: {seal.first_line(error)}"
    rows, strange = int(found[0]), int(found[1])
    if rows != told:
        return rows, f"holds {rows} rows, and its footer says {told}"
    return rows, f"{strange} samples are not of {day}" if strange else ""


# Every column is summed up, so that every page is decoded.
_WHOLE = """
    select count(*), count(*) filter (not (cast(at_s as DOUBLE) >= $1 and cast(at_s as DOUBLE) < $2)),
        max(entity), max(value), max(reason), max(seen_s), max(row)
    from read_parquet($3, hive_partitioning = false)
"""
_TWICE = """
    select coalesce(sum(n - 1), 0) from (
        select count(*) as n from read_parquet(?, hive_partitioning = false, union_by_name = true)
        group by entity, at_s having n > 1
    )
"""
