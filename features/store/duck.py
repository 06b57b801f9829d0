"""Samples on one machine: DuckDB for the hot window, Parquet for what is older."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import duckdb
import numpy as np
from numpy.typing import NDArray

from features.store.allocations import AllocationBook
from features.store.base import Series
from features.store.cold import DAY_S, ColdFiles, day_number
from features.store.columns import cut_series, insert, one, roll_back, sample_columns
from features.store.compact import Compaction, finish_merges, merge
from features.store.duck_errors import translated
from features.store.policy import StorePolicy, ageing
from features.store.schema import columns_of, open_database
from features.store.series_ids import SeriesIds
from features.store.stat import StoreStat, size_of
from telemetry.errors import StoreError
from telemetry.ids import GpuId, JobId, SeriesKey
from telemetry.jobs import Allocation
from telemetry.samples import SampleBatch, Sighting


class DuckStore:
    """A feature store in one DuckDB file, with cold Parquet partitions beside it.

    ``append`` is one transaction, so whatever it acknowledged survives ``kill -9``. A sample that comes twice is
    stored twice and read once; ``spill`` folds repeats when it moves samples to the cold partitions. One lock
    guards the connection: threads may share a store, processes may not. After a fault that DuckDB calls fatal, such
    as a full disk at a checkpoint, the next call opens the file again.

    Args:
        path: database file, made when absent; None keeps everything in memory.
        hot_window_s: what ``tidy`` leaves in the database.
        cold_dir: where the cold partitions go; ``NAME.cold`` beside the file when None.
        max_series: samples of further series are refused and counted in ``refused``; known series go on.
        policy: what ``compact`` and ``tidy`` do with old cold days; everything is kept when None.

    Raises:
        StoreError: the file is in use, corrupt, foreign, newer than this version, or cannot be written.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        hot_window_s: float = 6 * 3600.0,
        cold_dir: Path | None = None,
        max_series: int | None = None,
        policy: StorePolicy | None = None,
    ) -> None:
        self.path = path
        self._max_series = max_series
        self._policy = policy or StorePolicy()
        self.refused: Counter[str] = Counter()
        """Metric -> samples of series beyond ``max_series``, which were not stored."""
        self.hot_window_s = hot_window_s
        self._name = "the store in memory" if path is None else str(path)
        self._cold = ColdFiles(cold_dir or (path.with_suffix(".cold") if path else None))
        self._lock = threading.RLock()
        self._connection: duckdb.DuckDBPyConnection | None = open_database(path, self._name)
        self._ids = SeriesIds(most=max_series)
        self._book = AllocationBook()
        self._row = 0
        self._broken = False
        try:
            self._load()
            self._resume()
        except BaseException:
            self._connection.close()
            raise

    @contextmanager
    def _using(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """The connection under the lock; DuckDB's errors come out as ours."""
        with self._lock:
            self._mend()
            if self._connection is None:
                raise StoreError(f"{self._name} is closed", mend="Open it again before use")
            with translated(self._name):
                try:
                    yield self._connection
                except duckdb.FatalException:
                    self._broken = self.path is not None
                    raise

    def _mend(self) -> None:
        """Open the file again after a fatal fault; DuckDB refuses every further call on the old connection.

        Raises:
            StoreError: it cannot be opened yet; the next call tries again.
        """
        if not self._broken or self._connection is None:
            return
        self._connection.close()
        self._connection = open_database(self.path, self._name)
        self._broken = False
        self._load()

    @contextmanager
    def _transaction(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """All or nothing; what the memory knows is rolled back with it."""
        with self._using() as connection:
            connection.execute("begin")
            try:
                yield connection
                connection.execute("commit")
            except BaseException:
                roll_back(connection)
                raise

    def _load(self) -> None:
        """What the memory must know of the file: series ids, the running row number, allocations."""
        with self._using() as connection:
            known = connection.execute("select metric, entity from series order by id").fetchall()
            keys = [SeriesKey(metric, entity) for metric, entity in known]
            self._ids = SeriesIds(keys or self._cold.keys(connection), self._max_series)
            if not known:
                self._save_series(connection, 0)
            (self._row,) = one(connection, "select coalesce(max(row), -1) + 1 from samples")
            self._row = max(self._row, one(connection, "select coalesce(max(next_row), 0) from spills")[0])
            self._book = self._load_book(connection)

    def _load_book(self, connection: duckdb.DuckDBPyConnection) -> AllocationBook:
        book = AllocationBook()
        book.restore(connection.execute("select gpu, job, from_s, to_s, ended_s, sharers from spans").fetchall())
        seen = connection.execute("select gpu, at_s, job, sharers from sightings order by at_s").fetchall()
        book.add(
            Sighting(GpuId.parse(gpu), at_s, JobId.parse(job) if job else None, sharers=sharers)
            for gpu, at_s, job, sharers in seen
        )
        book.unstored()
        return book

    def append(self, batches: Sequence[SampleBatch]) -> int:
        """Store batches in one transaction; gives back how many samples were written.

        Raises:
            SchemaError: a batch of a layout not seen before breaks a law of ``SampleBatch``.
            StoreError: the store cannot be written; nothing of this call is then stored.
        """
        filled = [batch for batch in batches if len(batch)]
        sightings = [batch.sightings for batch in batches if len(batch.sightings)]
        with self._lock:
            self._mend()  # first: it loads the series anew, and the lines below count on them
            first_new = len(self._ids)
            try:
                ids = [self._ids.of(batch) for batch in filled]
                keep = self._book.add_all(sightings)
                written = self._write(filled, ids, first_new, keep)
            except BaseException:
                self._forget_from(first_new, bool(sightings))
                raise
            self._row += written
            for key, count in self.left_out(filled).items():
                self.refused[key.metric] += count
            return written

    def _write(
        self, filled: list[SampleBatch], ids: list[NDArray[np.int32]], first_new: int, keep: list[Sighting]
    ) -> int:
        columns = sample_columns(filled, ids, self._row) if filled else {}
        count = int(columns["row"].shape[0]) if filled else 0
        with self._transaction() as connection:
            self._save_series(connection, first_new)
            if count:
                insert(connection, "samples", columns)
            if keep:
                rows = [(str(s.gpu), s.at_s, str(s.job) if s.job else None, s.sharers) for s in keep]
                insert(connection, "sightings", columns_of(rows, "sightings"))
        return count

    def left_out(self, batches: Sequence[SampleBatch]) -> Counter[SeriesKey]:
        """Samples of batches that were appended, by series, which the limit of series kept out."""
        found: Counter[SeriesKey] = Counter()
        if self._max_series is None or len(self._ids) < self._max_series:
            return found
        with self._lock:
            for batch in batches:
                if len(batch):
                    places, counts = np.unique(batch.series[self._ids.of(batch) < 0], return_counts=True)
                    for place, count in zip(places.tolist(), counts.tolist(), strict=True):
                        found[batch.keys[place]] += count
        return found

    def _save_series(self, connection: duckdb.DuckDBPyConnection, first_new: int) -> None:
        """Write the series that are known in memory only."""
        if len(self._ids) > first_new:
            insert(connection, "series", columns_of(self._ids.since(first_new), "series"))

    def _forget_from(self, first_new: int, book_too: bool) -> None:
        """Undo what a failed append told the memory."""
        self._ids.forget_from(first_new)
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
            ids = self._ids.by_key
            by_id = {ids[key]: key for key in keys if key in ids}
            if not by_id:
                return [Series.empty(key) for key in keys]
            wanted = {"series_id": np.fromiter(by_id, np.int32, len(by_id))}
            arrived_by = np.inf if known_by_s is None else known_by_s
            span = [as_of_s - window_s, as_of_s, arrived_by]
            connection.register("wanted", wanted)
            try:
                hot = connection.execute(_READ_HOT, span).fetchnumpy()
            finally:
                connection.unregister("wanted")
            parts = [hot, *self._cold.read(connection, by_id, as_of_s - window_s, as_of_s, arrived_by)]
        found = cut_series(parts, by_id)
        return [found.get(key, Series.empty(key)) for key in keys]

    def keys(self, metrics: Iterable[str] | None = None) -> list[SeriesKey]:
        """Every known series, optionally of some metrics only."""
        with self._lock:
            if metrics is None:
                return list(self._ids.by_key)
            chosen = set(metrics)
            return [key for key in self._ids.by_key if key.metric in chosen]

    def allocations(self, as_of_s: float, window_s: float) -> list[Allocation]:
        """Who had what inside the window, as known at ``as_of_s``."""
        with self._lock:
            return self._book.allocations(as_of_s, window_s)

    def spill(self, before_s: float) -> int:
        """Move samples older than ``before_s`` to the cold partitions; gives back how many rows left the database.

        The intent is stored first and the rows are deleted in the transaction that ends it: after a crash in
        between, opening the store writes the same files again under the same names and then deletes the rows.
        Old days are then aged as the policy says, the present being ``before_s`` plus the hot window.

        Raises:
            StoreError: a store in memory has no folder for it, or the folder cannot be written.
        """
        with self._using() as connection:
            self._cold.need_folder(self._name)
            with self._transaction():
                (number,) = one(connection, "select coalesce(max(number), 0) from spills")
                number = 1 + max(number, self._cold.newest_number())
                connection.execute("insert into spills values (?, ?, ?, false)", [number, before_s, self._row])
            moved = self._finish_spills(connection)
            if self._policy != StorePolicy():
                self.compact(before_s + self.hot_window_s, only_old=True)
            return moved

    def _resume(self) -> None:
        """Finish what a crash cut off; where that fails the rows stay hot, and reads fold what is there twice."""
        try:
            with self._using() as connection:
                finish_merges(self._cold)
                self._finish_spills(connection)
        except StoreError:
            return  # The next ``spill`` tries again and reports it.

    def _finish_spills(self, connection: duckdb.DuckDBPyConnection) -> int:
        moved = 0
        todo = connection.execute("select number, before_s, next_row from spills where not done order by number")
        for number, before_s, next_row in todo.fetchall():
            self._cold.write(connection, number, before_s, next_row)
            with self._transaction():
                moved += one(connection, "delete from samples where at_s < ? and row < ?", [before_s, next_row])[0]
                self._fold_sightings(connection, before_s)
                connection.execute("update spills set done = true where number = ?", [number])
                connection.execute("delete from spills where done and number < ?", [number])
            connection.execute("checkpoint")
        return moved

    def _fold_sightings(self, connection: duckdb.DuckDBPyConnection, before_s: float) -> None:
        """Keep the stretches instead of the old sightings that they were made of."""
        connection.execute("delete from spans")
        if rows := self._book.rows():
            insert(connection, "spans", columns_of(rows, "spans"))
        connection.execute("delete from sightings where at_s < ?", [before_s])

    def tidy(self, now_s: float) -> int:
        """Spill what is older than the hot window; for a periodic call."""
        return self.spill(now_s - self.hot_window_s)

    def compact(self, now_s: float, *, only_old: bool = False) -> Compaction:
        """Merge the files of each day and metric into one, and delete and down-sample days as the policy says.

        Args:
            now_s: the present, Unix seconds.
            only_old: touch only what the policy names.

        Raises:
            StoreError: a file cannot be read or written; what was merged before stays merged.
        """
        with self._using() as connection:
            finish_merges(self._cold)
            self._finish_spills(connection)  # a spill that is written again must not meet a merged file of its name
            before, told = self._cold.files(), len(self._cold.aside)
            bytes_before = size_of(before)
            parts = self._cold.partitions()
            plan = ageing(self._policy, {day_number(day) for day, _ in parts}, now_s)
            dropped = self.drop_cold((plan.drop[-1] + 1) * DAY_S) if plan.drop else 0
            small = set(plan.downsample)
            merged = downsampled = 0
            for (day, _), files in parts.items():
                old = day_number(day) in small
                if day_number(day) in plan.drop or (only_old and not old):
                    continue
                done = merge(connection, files, self._policy.downsample_to_s if old else None, self._cold.aside)
                merged += done
                downsampled += done and old
            after = self._cold.files()
            aside = tuple(self._cold.aside[told:])
            return Compaction(
                merged, downsampled, len(before), len(after), bytes_before, size_of(after), dropped, aside
            )

    def using(self) -> AbstractContextManager[duckdb.DuckDBPyConnection]:
        """The connection under the store's lock, for ``export`` and ``verify``, which only read."""
        return self._using()

    @property
    def cold(self) -> ColdFiles:
        """The cold partitions."""
        return self._cold

    def checkpoint(self) -> None:
        """Bring the log into the database file, so that the file alone is the whole database."""
        with self._using() as connection:
            connection.execute("checkpoint")

    def drop_cold(self, before_s: float) -> int:
        """Delete cold partitions of whole days (UTC) before ``before_s``; gives back how many files went.

        Allocations that were over by then are forgotten with the next spill.
        """
        with self._using():
            self._book.forget(before_s)
            return self._cold.drop(before_s)

    def stat(self) -> StoreStat:
        """What the store holds."""
        with self._using() as connection:
            count, oldest_s, newest_s = one(connection, "select count(*), min(at_s), max(at_s) from samples")
            files = self._cold.files()
            hot = [] if self.path is None else [self.path, self.path.with_name(self.path.name + ".wal")]
            return StoreStat(
                len(self._ids),
                count,
                oldest_s,
                newest_s,
                size_of(hot),
                len(files),
                size_of(files),
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
                        insert(connection, "sightings", columns_of(rows, "sightings"))
            finally:
                self._connection.close()
                self._connection = None


_READ_HOT = """
    select series_id, at_s, value, reason, seen_s, row
    from samples semi join wanted using (series_id)
    where at_s between ? and ? and seen_s <= ?
"""
