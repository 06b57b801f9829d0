"""The last minutes of every series in memory, for the service loop; answers as the store does."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from features.store.allocations import AllocationBook
from features.store.base import Series
from features.store.merge import first_good
from telemetry.ids import SeriesKey
from telemetry.jobs import Allocation
from telemetry.samples import SampleBatch, Sighting, validate_batch

ABSENT = np.uint8(255)
"""Marks a cell for which no sample came; never leaves this file."""
FIRST_ROWS = 4
EVICT_EVERY = 256
"""Appends between two looks for layouts that fell out of the window."""


class _Block:
    """Samples of one layout as a (time, series) circular buffer that grows up to ``max_rows``."""

    def __init__(self, keys: tuple[SeriesKey, ...], window_s: float, max_rows: int) -> None:
        self.keys = keys
        self.window_s = window_s
        self.max_rows = max_rows
        self.count = 0
        self.next_row = 0
        self.latest_s = np.full(len(keys), -np.inf)
        self.received_s = np.zeros(len(keys))
        self.newest_received_s = 0.0
        self.in_order = True
        self.row_of: dict[float, int] = {}
        rows = min(FIRST_ROWS, max_rows)
        self.at_s = np.empty(rows)
        self.arrived_s = np.empty(rows)
        self.order = np.empty(rows, np.int64)
        self.value = np.empty((rows, len(keys)))
        self.reason = np.empty((rows, len(keys)), np.uint8)

    def append(self, batch: SampleBatch, order: int) -> None:
        """Store a batch of this layout."""
        at_s = batch.at_s
        if at_s[0] == at_s[-1] and bool((at_s == at_s[0]).all()):
            self._put(float(at_s[0]), batch.series, batch.value, batch.reason, batch.received_s, order)
        else:
            by_time = np.argsort(at_s, kind="stable")
            edges = np.flatnonzero(np.diff(at_s[by_time])) + 1
            for rows in np.split(by_time, edges):
                self._put(
                    float(at_s[rows[0]]),
                    batch.series[rows],
                    batch.value[rows],
                    batch.reason[rows],
                    batch.received_s,
                    order,
                )
        self.newest_received_s = max(self.newest_received_s, batch.received_s)

    def _put(
        self,
        at_s: float,
        series: NDArray[np.int32],
        value: NDArray[np.float64],
        reason: NDArray[np.uint8],
        received_s: float,
        order: int,
    ) -> None:
        row = self.row_of.get(at_s)
        if row is None:
            row = self._new_row(at_s, received_s, order)
            if self._is_whole(series):
                self.value[row] = value
                self.reason[row] = reason
                np.maximum(self.latest_s, at_s, out=self.latest_s)
                np.maximum(self.received_s, received_s, out=self.received_s)
                return
        stored = self.reason[row]
        # Backwards, so that of two samples in one reply the first is written last; good ones after missing ones.
        for wanted in (reason != 0, reason == 0):
            take = np.flatnonzero(wanted)[::-1]
            take = take[(stored[series[take]] == ABSENT) | ((reason[take] == 0) & (stored[series[take]] != 0))]
            columns = series[take]
            self.value[row, columns] = value[take]
            self.reason[row, columns] = reason[take]
            self.latest_s[columns] = np.maximum(self.latest_s[columns], at_s)
            self.received_s[columns] = np.maximum(self.received_s[columns], received_s)

    def _is_whole(self, series: NDArray[np.int32]) -> bool:
        """Whether every column is there once, in order, as nearly every scrape is."""
        n = len(self.keys)
        return series.shape[0] == n and bool((series == np.arange(n)).all())

    def _new_row(self, at_s: float, received_s: float, order: int) -> int:
        size = self.at_s.shape[0]
        if self.count == size and size < self.max_rows and not self._oldest_is_over(at_s):
            self._grow(min(2 * size, self.max_rows))
            size = self.at_s.shape[0]
        row = self.next_row
        if self.count == size:
            del self.row_of[float(self.at_s[row])]
        else:
            self.count += 1
        previous = self.at_s[row - 1] if self.count > 1 else -np.inf
        self.in_order = self.in_order and bool(at_s > previous)
        self.at_s[row] = at_s
        self.arrived_s[row] = received_s
        self.order[row] = order
        self.value[row] = np.nan
        self.reason[row] = ABSENT
        self.row_of[at_s] = row
        self.next_row = (row + 1) % size
        return row

    def _oldest_is_over(self, at_s: float) -> bool:
        return bool(self.at_s[self.next_row] < at_s - self.window_s)

    def _grow(self, size: int) -> None:
        turn = np.r_[self.next_row : self.count, 0 : self.next_row]
        for name in ("at_s", "arrived_s", "order", "value", "reason"):
            old = getattr(self, name)
            new = np.empty((size, *old.shape[1:]), old.dtype)
            new[: self.count] = old[turn]
            setattr(self, name, new)
        self.row_of = {float(at): row for row, at in enumerate(self.at_s[: self.count])}
        self.next_row = self.count

    def rows(self, as_of_s: float, window_s: float) -> NDArray[np.intp]:
        """Rows inside the window, in time order."""
        size = self.at_s.shape[0]
        turn = np.arange(self.count, dtype=np.intp)
        if self.count == size:
            turn = (turn + self.next_row) % size
        at_s = self.at_s[turn]
        if not self.in_order:
            by_time = np.argsort(at_s, kind="stable")
            turn, at_s = turn[by_time], at_s[by_time]
        first = np.searchsorted(at_s, as_of_s - window_s, side="left")
        last = np.searchsorted(at_s, as_of_s, side="right")
        return turn[first:last]


class Ring:
    """The recent past in memory, bounded.

    ``read`` gives the same answer as ``DuckStore.read`` for whatever still is inside the ring. One lock guards
    it, so that the loop may append while a forecast reads.

    Args:
        window_s: how far back reads must reach.
        max_samples_per_target: most instants kept per layout; the oldest go first.
    """

    def __init__(self, window_s: float, max_samples_per_target: int = 4096) -> None:
        self.window_s = window_s
        self._max_rows = max(1, max_samples_per_target)
        self._blocks: dict[tuple[SeriesKey, ...], _Block] = {}
        self._by_identity: dict[int, _Block] = {}
        self._places: dict[SeriesKey, list[tuple[_Block, int]]] = {}
        self._by_metric: dict[str, dict[SeriesKey, None]] = {}
        self._book = AllocationBook()
        self._seen_s = -np.inf
        self._appends = 0
        self._lock = threading.Lock()

    def append(self, batch: SampleBatch) -> None:
        """Take in a batch.

        Raises:
            SchemaError: a batch of a layout not seen before breaks a law of ``SampleBatch``.
        """
        with self._lock:
            self._appends += 1
            if len(batch):
                self._block(batch).append(batch, self._appends)
            self._note(batch.sightings)
            if self._appends % EVICT_EVERY == 0:
                self._evict()

    def _note(self, sightings: Sequence[Sighting]) -> None:
        if sightings:
            self._book.add(sightings)
            self._seen_s = max(self._seen_s, max(sighting.at_s for sighting in sightings))

    def _block(self, batch: SampleBatch) -> _Block:
        known = self._by_identity.get(id(batch.keys))
        if known is not None:
            return known
        validate_batch(batch)
        block = self._blocks.get(batch.keys)
        if block is None:
            block = _Block(batch.keys, self.window_s, self._max_rows)
            self._blocks[batch.keys] = block
            for column, key in enumerate(batch.keys):
                self._places.setdefault(key, []).append((block, column))
                self._by_metric.setdefault(key.metric, {})[key] = None
        if block.keys is batch.keys:
            # Only the tuple that the block holds alive: another one's id may be used again by a stranger.
            self._by_identity[id(batch.keys)] = block
        return block

    def _evict(self) -> None:
        newest_s = max((block.newest_received_s for block in self._blocks.values()), default=0.0)
        for keys, block in list(self._blocks.items()):
            if block.newest_received_s >= newest_s - self.window_s:
                continue
            del self._blocks[keys]
            del self._by_identity[id(block.keys)]
            for key in keys:
                self._places[key] = [place for place in self._places[key] if place[0] is not block]
                if not self._places[key]:
                    del self._places[key]
                    del self._by_metric[key.metric][key]
        self._book.forget(self._seen_s - self.window_s)

    def read(self, keys: Sequence[SeriesKey], as_of_s: float, window_s: float) -> list[Series]:
        """The series as known at ``as_of_s``, in the order asked; an unknown key gives an empty series."""
        with self._lock:
            wanted: dict[int, tuple[_Block, list[int], list[int]]] = {}
            for position, key in enumerate(keys):
                for block, column in self._places.get(key, ()):
                    _, positions, columns = wanted.setdefault(id(block), (block, [], []))
                    positions.append(position)
                    columns.append(column)
            parts: list[list[tuple[NDArray[np.int64], Series]]] = [[] for _ in keys]
            for block, positions, columns in wanted.values():
                _cut(block, keys, positions, columns, block.rows(as_of_s, window_s), parts)
        return [_join(key, part) for key, part in zip(keys, parts, strict=True)]

    def keys(self, metrics: Iterable[str] | None = None) -> list[SeriesKey]:
        """Every series in the ring, optionally of some metrics only."""
        with self._lock:
            if metrics is None:
                return list(self._places)
            return [key for metric in dict.fromkeys(metrics) for key in self._by_metric.get(metric, ())]

    def allocations(self, as_of_s: float, window_s: float) -> list[Allocation]:
        """Who had what inside the window, as known at ``as_of_s``."""
        with self._lock:
            return self._book.allocations(as_of_s, window_s)

    def received_s(self, key: SeriesKey) -> float | None:
        """When the newest sample of a series arrived, in this machine's clock; None when there is none."""
        with self._lock:
            return max((float(b.received_s[c]) for b, c in self._places.get(key, ())), default=None)

    def latest_s(self, key: SeriesKey) -> float | None:
        """Time of the newest sample of a series, in the source's clock; None when there is none."""
        with self._lock:
            latest = max((float(b.latest_s[c]) for b, c in self._places.get(key, ())), default=-np.inf)
        return None if latest == -np.inf else latest


def _cut(
    block: _Block,
    keys: Sequence[SeriesKey],
    positions: list[int],
    columns: list[int],
    rows: NDArray[np.intp],
    parts: list[list[tuple[NDArray[np.int64], Series]]],
) -> None:
    """Cut the asked columns out of a block, all at once; whole columns share one time array."""
    if rows.shape[0] == 0:
        return
    at_s = block.at_s[rows]
    arrived_s = block.arrived_s[rows]
    cells = np.ix_(rows, np.asarray(columns, np.intp))
    value = np.ascontiguousarray(block.value[cells].T)
    reason = np.ascontiguousarray(block.reason[cells].T)
    present = reason != ABSENT
    whole = present.all(axis=1)
    newest_s = float(arrived_s.max())
    order = block.order[rows]
    for i, position in enumerate(positions):
        key = keys[position]
        if whole[i]:
            parts[position].append((order, Series(key, at_s, value[i], reason[i], newest_s)))
        else:
            there = present[i]
            if not there.any():
                continue
            series = Series(key, at_s[there], value[i][there], reason[i][there], float(arrived_s[there].max()))
            parts[position].append((order[there], series))


def _join(key: SeriesKey, parts: list[tuple[NDArray[np.int64], Series]]) -> Series:
    """One series from what several layouts hold of it; of equal instants the first written good one counts."""
    if not parts:
        return Series.empty(key)
    if len(parts) == 1:
        return parts[0][1]
    at_s = np.concatenate([series.at_s for _, series in parts])
    by_time = np.lexsort((np.concatenate([order for order, _ in parts]), at_s))
    at_s = at_s[by_time]
    reason = np.concatenate([series.reason for _, series in parts])[by_time]
    keep = first_good(np.zeros(at_s.shape[0], np.int64), at_s, reason)
    value = np.concatenate([series.value for _, series in parts])[by_time]
    return Series(key, at_s[keep], value[keep], reason[keep], max(series.received_s for _, series in parts))
