"""Samples on one machine: DuckDB for the hot window, Parquet for what is older."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from features.store.allocations import AllocationBook
from features.store.base import Series
from features.store.cold import ColdFiles
from features.store.duck_errors import translated
from features.store.merge import first_good
from features.store.schema import columns_of, open_database
from telemetry.errors import StoreError
from telemetry.ids import GpuId, JobId, SeriesKey
from telemetry.jobs import Allocation
from telemetry.samples import SampleBatch, Sighting, validate_batch

KEPT_LAYOUTS = 8192
"""Layouts whose series ids are remembered by identity; about one per target."""


@dataclass(frozen=True, slots=True)
class StoreStat:
    """What a store holds.

    Args:
        series: how many series.
        hot_samples: rows in the hot window, repeats included.
        oldest_s: time of the oldest hot sample; None when empty.
        newest_s: time of the newest hot sample; None when empty.
        hot_bytes: size of the database and its log; 0 in memory.
        cold_files: Parquet files.
        cold_bytes: their size.
    """

    series: int
    hot_samples: int
    oldest_s: float | None
    newest_s: float | None
    hot_bytes: int
    cold_files: int
    cold_bytes: int


class DuckStore:
    """A feature store in one DuckDB file, with cold Parquet partitions beside it.

    ``append`` is one transaction, so whatever it acknowledged survives ``kill -9``. A sample that comes twice is
    stored twice and read once; ``spill`` folds repeats when it moves samples to the cold partitions. One lock
    guards the connection: threads may share a store, processes may not.

    Args:
        path: database file, made when absent; None keeps everything in memory.
        hot_window_s: what ``tidy`` leaves in the database.
        cold_dir: where the cold partitions go; ``NAME.cold`` beside the file when None.

    Raises:
        StoreError: the file is in use, corrupt, foreign, newer than this version, or cannot be written.
    """

    def __init__(self, path: Path | None, *, hot_window_s: float = 6 * 3600.0, cold_dir: Path | None = None) -> None:
        self.path = path
        self.hot_window_s = hot_window_s
        self._name = "the store in memory" if path is None else str(path)
        self._cold = ColdFiles(cold_dir or (path.with_suffix(".cold") if path else None))
        self._lock = threading.RLock()
        self._connection: duckdb.DuckDBPyConnection | None = open_database(path, self._name)
        self._ids: dict[SeriesKey, int] = {}
        self._layouts: dict[int, tuple[tuple[SeriesKey, ...], NDArray[np.int32]]] = {}
        self._book = AllocationBook()
        self._row = 0
        with self._using():
            self._load()

    @contextmanager
    def _using(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """The connection under the lock; DuckDB's errors come out as ours."""
        with self._lock:
            if self._connection is None:
                raise StoreError(f"{self._name} is closed", mend="Open it again before use")
            with translated(self._name):
                yield self._connection

    @contextmanager
    def _transaction(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """All or nothing; what the memory knows is rolled back with it."""
        with self._using() as connection:
            connection.execute("begin")
            try:
                yield connection
                connection.execute("commit")
            except BaseException:
                _quietly_roll_back(connection)
                raise

    def _load(self) -> None:
        """What the memory must know of the file: series ids, the running row number, allocations."""
        with self._using() as connection:
            known = connection.execute("select id, metric, entity from series order by id").fetchall()
            self._ids = {SeriesKey(metric, entity): number for number, metric, entity in known}
            self._layouts = {}
            (self._row,) = _one(connection, "select coalesce(max(row), -1) + 1 from samples")
            self._row = max(self._row, _one(connection, "select coalesce(max(next_row), 0) from spills")[0])
            self._book = AllocationBook()
            seen = connection.execute("select gpu, at_s, job, sharers from sightings order by at_s").fetchall()
            self._book.add(
                Sighting(GpuId.parse(gpu), at_s, JobId.parse(job) if job else None, sharers=sharers)
                for gpu, at_s, job, sharers in seen
            )
            self._book.unstored()
            self._finish_spills(connection)

    def append(self, batches: Sequence[SampleBatch]) -> int:
        """Store batches in one transaction; gives back how many samples were written.

        Raises:
            SchemaError: a batch of a layout not seen before breaks a law of ``SampleBatch``.
            StoreError: the store cannot be written; nothing of this call is then stored.
        """
        filled = [batch for batch in batches if len(batch)]
        sightings = [sighting for batch in batches for sighting in batch.sightings]
        with self._lock:
            first_new = len(self._ids)
            try:
                ids = [self._series_ids(batch)[batch.series] for batch in filled]
                keep = self._book.add(sightings)
                written = self._write(filled, ids, first_new, keep)
            except BaseException:
                self._forget_from(first_new, bool(sightings))
                raise
            self._row += written
            return written

    def _write(
        self, filled: list[SampleBatch], ids: list[NDArray[np.int32]], first_new: int, keep: list[Sighting]
    ) -> int:
        count = sum(len(batch) for batch in filled)
        with self._transaction() as connection:
            if len(self._ids) > first_new:
                new = list(self._ids.items())[first_new:]
                _insert(connection, "series", columns_of([(number, k.metric, k.entity) for k, number in new], "series"))
            if count:
                _insert(connection, "samples", _sample_columns(filled, ids, self._row))
            if keep:
                rows = [(str(s.gpu), s.at_s, str(s.job) if s.job else None, s.sharers) for s in keep]
                _insert(connection, "sightings", columns_of(rows, "sightings"))
        return count

    def _series_ids(self, batch: SampleBatch) -> NDArray[np.int32]:
        """(n_keys,) series ids of a batch's layout, remembered by the identity of its key tuple."""
        known = self._layouts.get(id(batch.keys))
        if known is not None:
            return known[1]
        validate_batch(batch)
        ids = np.fromiter((self._ids.setdefault(k, len(self._ids)) for k in batch.keys), np.int32, len(batch.keys))
        if len(self._layouts) >= KEPT_LAYOUTS:
            self._layouts.clear()
        self._layouts[id(batch.keys)] = (batch.keys, ids)
        return ids

    def _forget_from(self, first_new: int, book_too: bool) -> None:
        """Undo what a failed append told the memory."""
        for key in list(self._ids)[first_new:]:
            del self._ids[key]
        self._layouts.clear()
        if book_too and self._connection is not None:
            try:
                self._load()
            except StoreError:
                return  # The failed append is already being reported; the next call reports this one.

    def read(
        self, keys: Sequence[SeriesKey], as_of_s: float, window_s: float, known_by_s: float | None = None
    ) -> list[Series]:
        """The series as known at ``as_of_s``, in the order asked; an unknown key gives an empty series.

        Args:
            keys: which series.
            as_of_s: nothing later is given back.
            window_s: how far back.
            known_by_s: leave out what arrived at this machine later than this; everything counts when None.

        Raises:
            StoreError: a file cannot be read.
        """
        with self._using() as connection:
            asked = {self._ids[key]: place for place, key in enumerate(keys) if key in self._ids}
            if not asked:
                return [Series.empty(key) for key in keys]
            by_id = {number: key for key, number in ((key, self._ids[key]) for key in keys if key in self._ids)}
            wanted = {"series_id": np.fromiter(by_id, np.int32, len(by_id))}
            arrived_by = np.inf if known_by_s is None else known_by_s
            span = [as_of_s - window_s, as_of_s, arrived_by]
            connection.register("wanted", wanted)
            try:
                hot = connection.execute(_READ_HOT, span).fetchnumpy()
            finally:
                connection.unregister("wanted")
            parts = [hot, *self._cold.read(connection, by_id, as_of_s - window_s, as_of_s, arrived_by)]
        found = _cut(parts, by_id)
        return [found.get(key, Series.empty(key)) for key in keys]

    def keys(self, metrics: Iterable[str] | None = None) -> list[SeriesKey]:
        """Every known series, optionally of some metrics only."""
        with self._lock:
            if metrics is None:
                return list(self._ids)
            chosen = set(metrics)
            return [key for key in self._ids if key.metric in chosen]

    def allocations(self, as_of_s: float, window_s: float) -> list[Allocation]:
        """Who had what inside the window, as known at ``as_of_s``."""
        with self._lock:
            return self._book.allocations(as_of_s, window_s)

    def spill(self, before_s: float) -> int:
        """Move samples older than ``before_s`` to the cold partitions; gives back how many rows left the database.

        The intent is stored first and the rows are deleted in the transaction that ends it: after a crash in
        between, opening the store writes the same files again under the same names and then deletes the rows.

        Raises:
            StoreError: a store in memory has no folder for it, or the folder cannot be written.
        """
        with self._using() as connection:
            self._cold.need_folder(self._name)
            with self._transaction():
                (number,) = _one(connection, "select coalesce(max(number), 0) from spills")
                number = 1 + max(number, self._cold.newest_number())
                connection.execute("insert into spills values (?, ?, ?, false)", [number, before_s, self._row])
            return self._finish_spills(connection)

    def _finish_spills(self, connection: duckdb.DuckDBPyConnection) -> int:
        moved = 0
        todo = connection.execute("select number, before_s, next_row from spills where not done order by number")
        for number, before_s, next_row in todo.fetchall():
            self._cold.write(connection, number, before_s, next_row)
            with self._transaction():
                moved += _one(connection, "delete from samples where at_s < ? and row < ?", [before_s, next_row])[0]
                connection.execute("update spills set done = true where number = ?", [number])
                connection.execute("delete from spills where done and number < ?", [number])
            connection.execute("checkpoint")
        return moved

    def tidy(self, now_s: float) -> int:
        """Spill what is older than the hot window; for a periodic call."""
        return self.spill(now_s - self.hot_window_s)

    def drop_cold(self, before_s: float) -> int:
        """Delete cold partitions of whole days (UTC) before ``before_s``; gives back how many files went."""
        with self._using():
            return self._cold.drop(before_s)

    def stat(self) -> StoreStat:
        """What the store holds."""
        with self._using() as connection:
            count, oldest_s, newest_s = _one(connection, "select count(*), min(at_s), max(at_s) from samples")
            files = self._cold.files()
            log = None if self.path is None else self.path.with_name(self.path.name + ".wal")
            hot = [file for file in (self.path, log) if file is not None and file.exists()]
            return StoreStat(
                len(self._ids),
                count,
                oldest_s,
                newest_s,
                sum(file.stat().st_size for file in hot),
                len(files),
                sum(file.stat().st_size for file in files),
            )

    def close(self) -> None:
        """Flush and release the files; closing twice is fine."""
        with self._lock:
            if self._connection is None:
                return
            try:
                rows = [(str(s.gpu), s.at_s, str(s.job), s.sharers) for s in self._book.unstored()]
                if rows:
                    with self._transaction() as connection:
                        _insert(connection, "sightings", columns_of(rows, "sightings"))
            finally:
                self._connection.close()
                self._connection = None


_READ_HOT = """
    select series_id, at_s, value, reason, seen_s, row
    from samples semi join wanted using (series_id)
    where at_s between ? and ? and seen_s <= ?
"""


def _one(connection: duckdb.DuckDBPyConnection, query: str, values: Sequence[Any] = ()) -> tuple[Any, ...]:
    """The only row of a query."""
    # All of it: a result that is not fetched to its end keeps the connection busy.
    rows: list[tuple[Any, ...]] = connection.execute(query, list(values)).fetchall()
    return rows[0]


def _quietly_roll_back(connection: duckdb.DuckDBPyConnection) -> None:
    try:
        connection.execute("rollback")
    except duckdb.Error:
        return  # After a fatal error DuckDB has already dropped the transaction; the first error is reported.


def _insert(connection: duckdb.DuckDBPyConnection, table: str, columns: dict[str, NDArray[Any]]) -> None:
    """Insert column arrays; DuckDB scans the arrays where they lie."""
    connection.register("incoming", columns)
    try:
        connection.execute(f"insert into {table} by name select * from incoming")
    finally:
        connection.unregister("incoming")


def _sample_columns(filled: list[SampleBatch], ids: list[NDArray[np.int32]], row: int) -> dict[str, NDArray[Any]]:
    series_id = np.concatenate(ids)
    received_s = np.array([batch.received_s for batch in filled])
    return {
        "series_id": series_id,
        "at_s": np.concatenate([batch.at_s for batch in filled]),
        "value": np.concatenate([batch.value for batch in filled]),
        "reason": np.concatenate([batch.reason for batch in filled]),
        "seen_s": np.repeat(received_s, [len(batch) for batch in filled]),
        "row": np.arange(row, row + series_id.shape[0], dtype=np.int64),
    }


def _cut(parts: list[dict[str, Any]], by_id: dict[int, SeriesKey]) -> dict[SeriesKey, Series]:
    """Sort what the files gave, fold repeats, and cut it into series."""

    def column(name: str) -> NDArray[Any]:
        return np.concatenate([part[name] for part in parts])

    series_id, at_s, reason = column("series_id"), column("at_s"), column("reason")
    # DuckDB gives NULLs back as a mask.
    value = np.concatenate([np.ma.filled(part["value"], np.nan) for part in parts])
    order = np.lexsort((column("row"), at_s, series_id))
    order = order[first_good(series_id[order].astype(np.int64), at_s[order], reason[order])]
    series_id, at_s, value, reason = series_id[order], at_s[order], value[order], reason[order]
    seen_s = column("seen_s")[order]
    found: dict[SeriesKey, Series] = {}
    if series_id.shape[0] == 0:
        return found
    edges = np.r_[0, np.flatnonzero(np.diff(series_id)) + 1, series_id.shape[0]]
    newest_s = np.maximum.reduceat(seen_s, edges[:-1])
    for i, (start, stop) in enumerate(pairwise(edges.tolist())):
        key = by_id[int(series_id[start])]
        part = slice(start, stop)
        found[key] = Series(key, at_s[part], value[part], reason[part].astype(np.uint8), float(newest_s[i]))
    return found
