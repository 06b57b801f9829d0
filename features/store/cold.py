"""Cold partitions: Parquet files in ``date=YYYY-MM-DD/metric=NAME/part-NUMBER.parquet``, readable by any tool.

The files stand for themselves: they carry the entity's name, not a number of the database.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from features.store import seal
from features.store.columns import one
from telemetry.errors import StoreError
from telemetry.ids import SeriesKey

DAY_S = 86_400.0


def day_number(name: str) -> int:
    """The number of days since 1970 of ``2026-01-01``."""
    return (date.fromisoformat(name) - date(1970, 1, 1)).days


def exact_decimal(column: str) -> str:
    """SQL that turns a time in seconds into DECIMAL(18,7) such that casting it back gives the same double.

    Seven digits are finer than a double of today's Unix time (2.4e-7 s), and Parquet packs the steps between
    decimals where it would keep whole doubles. The whole and the broken part go apart: their product with 1e7
    would not fit a double's 53 bits.
    """
    whole, part = f"cast(floor({column}) as DECIMAL(18,7))", f"cast({column} - floor({column}) as DECIMAL(18,7))"
    return f"cast({whole} + {part} as DECIMAL(18,7)) as {column}"


def parquet_target(file: Path, entities: int, level: int = 3) -> str:
    """SQL of a cold file's place and form; a dictionary pays for names, not for times."""
    path = str(file).replace("'", "''")
    form = f"parquet_version v2, dictionary_size_limit {max(64, entities + 1)}"
    return f"to '{path}' (format parquet, compression zstd, compression_level {level}, {form})"


def day_name(day: int) -> str:
    """``2026-01-01`` for a number of days since 1970, UTC."""
    return datetime.fromtimestamp(day * DAY_S, UTC).strftime("%Y-%m-%d")


class ColdFiles:
    """The folder of cold partitions of one store.

    Args:
        folder: where they lie; None when the store has no place for them.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.aside: list[str] = []
        """Sentences about damaged files that were set aside since this was made."""

    def partitions(self) -> dict[tuple[str, str], list[Path]]:
        """(date, metric) -> its finished files, both sorted."""
        found: dict[tuple[str, str], list[Path]] = {}
        for file in self.files():
            place = file.parent.parent.name.removeprefix("date="), file.parent.name.removeprefix("metric=")
            found.setdefault(place, []).append(file)
        return found

    def need_folder(self, name: str) -> None:
        """Make the folder.

        Raises:
            StoreError: there is none, or it cannot be made.
        """
        if self.folder is None:
            raise StoreError(f"{name} has no folder for cold partitions", mend="Open it with a cold_dir")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(
                f"the folder {self.folder} for cold partitions cannot be made ({error.strerror})",
                mend="Make it, or open the store with another cold_dir",
            ) from error

    def files(self) -> list[Path]:
        """Every finished file, sorted."""
        if self.folder is None or not self.folder.is_dir():
            return []
        return sorted(self.folder.glob("date=*/metric=*/part-[0-9]*.parquet"))

    def keys(self, connection: duckdb.DuckDBPyConnection) -> list[SeriesKey]:
        """Every series in the files; for a new database beside old files."""
        found = seal.reading(self.files(), self.aside, lambda files: connection.execute(_KEYS, [files]).fetchall())
        return [SeriesKey(*row) for row in found or []]

    def set_aside(self) -> list[Path]:
        """Damaged files that were set aside and not yet dealt with, sorted."""
        if self.folder is None or not self.folder.is_dir():
            return []
        return sorted(self.folder.glob(f"date=*/metric=*/part-*{seal.ASIDE}*"))

    def newest_number(self) -> int:
        """Greatest spill number of any file, 0 without files; a new database beside old files goes on after it."""
        return max((int(file.stem.removeprefix("part-")) for file in self.files()), default=0)

    def write(self, connection: duckdb.DuckDBPyConnection, number: int, before_s: float, next_row: int) -> None:
        """Write the samples of one spill, repeats folded; each file appears whole under its name or not at all.

        The same spill written again gives the same files.
        """
        self.need_folder("the store")
        groups = connection.execute(_GROUPS, [before_s, next_row]).fetchall()
        for day, metric in groups:
            file = self.partition(day, metric) / f"part-{number:08d}.parquet"
            file.parent.mkdir(parents=True, exist_ok=True)
            draft = file.with_suffix(".draft")
            (entities,) = one(connection, _ENTITIES, [metric])
            connection.execute(
                _COPY.format(target=parquet_target(draft, entities)),
                [before_s, next_row, day * DAY_S, (day + 1) * DAY_S, metric],
            )
            sync(draft)
            os.replace(draft, file)
            seal.seal(file)
            sync(file.parent)

    def read(
        self,
        connection: duckdb.DuckDBPyConnection,
        by_id: Mapping[int, SeriesKey],
        from_s: float,
        to_s: float,
        known_by_s: float,
    ) -> Iterator[dict[str, Any]]:
        """Columns of the wanted series inside a span, one part per metric, unsorted."""
        for metric in sorted({key.metric for key in by_id.values()}):
            files = self._touched(metric, from_s, to_s)
            if not files:
                continue
            mine = {number: key.entity for number, key in by_id.items() if key.metric == metric}
            wanted = {
                "series_id": np.fromiter(mine, np.int32, len(mine)),
                "entity": np.array(list(mine.values()), object),
            }
            connection.register("wanted_cold", wanted)
            try:
                part = seal.reading(
                    files,
                    self.aside,
                    lambda names: connection.execute(_READ, [names, from_s, to_s, known_by_s]).fetchnumpy(),
                )
            finally:
                connection.unregister("wanted_cold")
            if part is not None:
                yield part

    def drop(self, before_s: float) -> int:
        """Delete partitions of whole days before ``before_s``; gives back how many files went."""
        first_kept = day_name(int(before_s // DAY_S))
        gone = 0
        for file in self.files():
            if file.parent.parent.name < f"date={first_kept}":
                seal.remove(file)
                gone += 1
        for file in self.set_aside():
            if file.parent.parent.name < f"date={first_kept}":
                file.unlink()
        if self.folder is not None:
            for folder in [*self.folder.glob("date=*/metric=*"), *self.folder.glob("date=*")]:
                if not any(folder.iterdir()):
                    folder.rmdir()
        return gone

    def partition(self, day: int, metric: str) -> Path:
        """The folder of one day and metric."""
        assert self.folder is not None
        return self.folder / f"date={day_name(day)}" / f"metric={metric}"

    def _touched(self, metric: str, from_s: float, to_s: float) -> list[Path]:
        if self.folder is None or not self.folder.is_dir():
            return []
        first, last = (day_name(int(min(max(at_s, 0.0), 4e10) // DAY_S)) for at_s in (from_s, to_s))
        days = [day for day in self.folder.glob("date=*") if first <= day.name[5:] <= last]
        return sorted(file for day in days for file in day.glob(f"metric={metric}/part-*.parquet"))


def sync(path: Path) -> None:
    """Make a file or folder durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


_GROUPS = """
    select distinct cast(floor(at_s / 86400) as INTEGER), metric
    from samples join series on series.id = samples.series_id
    where at_s < ? and row < ?
    order by all
"""
_ENTITIES = "select count(*) from series where metric = ?"
_COPY = f"""
    copy (
        select entity, {exact_decimal("at_s")}, value, reason, {exact_decimal("seen_s")}, row from (
            select distinct on (series_id, at_s) *
            from samples join series on series.id = samples.series_id
            where at_s < $1 and row < $2 and at_s >= $3 and at_s < $4 and metric = $5
            order by series_id, at_s, reason <> 0, row
        ) order by at_s, entity
    ) {{target}}
"""
_KEYS = """
    select distinct metric, entity from read_parquet(?, hive_partitioning = true) order by all
"""
_READ = """
    select series_id, cast(at_s as DOUBLE) as at_s, value, reason, cast(seen_s as DOUBLE) as seen_s, row
    from read_parquet(?, hive_partitioning = false, union_by_name = true) join wanted_cold using (entity)
    where cast(at_s as DOUBLE) between ? and ? and cast(seen_s as DOUBLE) <= ?
"""
