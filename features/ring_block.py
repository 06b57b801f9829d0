"""Samples of one layout as a (time, series) circular buffer."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from features.store.base import Series
from features.store.merge import first_good
from telemetry.ids import SeriesKey
from telemetry.samples import SampleBatch

ABSENT = np.uint8(255)
"""Marks a cell for which no sample came; never leaves this file."""
FIRST_ROWS = 4
PACE_ROWS = 64
"""Rows after which the pace of a layout is known well enough to give it no more room than it will use."""

Piece = tuple[NDArray[np.int64], Series]
"""What one layout holds of a series: (n,) order of writing, and the samples."""


class Block:
    """Samples of one layout as a (time, series) circular buffer that grows up to ``max_rows``."""

    def __init__(self, keys: tuple[SeriesKey, ...], window_s: float, max_rows: int) -> None:
        self.keys = keys
        self._all = np.arange(len(keys), dtype=np.int32)
        self._whole: NDArray[np.int32] | None = None
        """The last ``series`` that had every column once, in order; a page of the same layout brings the same object."""
        self._whole_at_s = self._whole_received_s = -np.inf
        self.window_s = window_s
        self.max_rows = max_rows
        self.count = 0
        self.next_row = 0
        self._latest_s = np.full(len(keys), -np.inf)
        self._received_s = np.zeros(len(keys))
        self.newest_received_s = 0.0
        self.in_order = True
        self._last_at_s = -np.inf
        self.row_of: dict[float, int] = {}
        self.later: dict[int, NDArray[np.int64]] = {}
        """Row -> order of each cell, for the rare rows that more than one append wrote to."""
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
                self._whole_at_s = max(self._whole_at_s, at_s)
                self._whole_received_s = max(self._whole_received_s, received_s)
                return
            self.value[row] = np.nan
            self.reason[row] = ABSENT
        elif self.order[row] != order and row not in self.later:
            self.later[row] = np.full(len(self.keys), self.order[row], np.int64)
        late = self.later.get(row)
        stored = self.reason[row]
        # Backwards, so that of two samples in one reply the first is written last; good ones after missing ones.
        for wanted in (reason != 0, reason == 0):
            take = np.flatnonzero(wanted)[::-1]
            take = take[(stored[series[take]] == ABSENT) | ((reason[take] == 0) & (stored[series[take]] != 0))]
            columns = series[take]
            self.value[row, columns] = value[take]
            self.reason[row, columns] = reason[take]
            if late is not None:
                late[columns] = order
            self._latest_s[columns] = np.maximum(self._latest_s[columns], at_s)
            self._received_s[columns] = np.maximum(self._received_s[columns], received_s)

    def _is_whole(self, series: NDArray[np.int32]) -> bool:
        """Whether every column is there once, in order, as nearly every scrape is."""
        if series is self._whole:
            return True
        whole = series.shape == self._all.shape and bool((series == self._all).all())
        self._whole = series if whole else None
        return whole

    def latest_s(self, column: int) -> float:
        """Time of a column's newest sample; -inf when there is none."""
        return max(float(self._latest_s[column]), self._whole_at_s)

    def received_s(self, column: int) -> float:
        """When a column's newest sample arrived; 0 when there is none."""
        return max(float(self._received_s[column]), self._whole_received_s)

    def _new_row(self, at_s: float, received_s: float, order: int) -> int:
        size = self.at_s.shape[0]
        if self.count == size and size < self.max_rows and not self._oldest_is_over(at_s):
            self._grow(min(self._rows_to_come(at_s), self.max_rows))
            size = self.at_s.shape[0]
        row = self.next_row
        self.later.pop(row, None)
        if self.count == size:
            del self.row_of[float(self.at_s[row])]
        else:
            self.count += 1
        self.in_order = self.in_order and at_s > self._last_at_s
        self._last_at_s = at_s
        self.at_s[row] = at_s
        self.arrived_s[row] = received_s
        self.order[row] = order
        self.row_of[at_s] = row
        self.next_row = (row + 1) % size
        return row

    def _oldest_is_over(self, at_s: float) -> bool:
        return bool(self.at_s[self.next_row] < at_s - self.window_s)

    def _rows_to_come(self, at_s: float) -> int:
        """How many rows to make room for: twice as many, but no more than the window holds at the pace so far."""
        size = self.at_s.shape[0]
        span_s = at_s - float(self.at_s[: self.count].min())
        if size < PACE_ROWS or span_s <= 0:
            return 2 * size
        window_rows = math.ceil(self.window_s * self.count / span_s) + 2
        return min(2 * size, max(window_rows, size + size // 8))

    def _grow(self, size: int) -> None:
        turn = np.r_[self.next_row : self.count, 0 : self.next_row]
        for name in ("at_s", "arrived_s", "order", "value", "reason"):
            old = getattr(self, name)
            new = np.empty((size, *old.shape[1:]), old.dtype)
            new[: self.count] = old[turn]
            setattr(self, name, new)
        self.row_of = {float(at): row for row, at in enumerate(self.at_s[: self.count])}
        self.later = {new: self.later[old] for new, old in enumerate(turn.tolist()) if old in self.later}
        self.next_row = self.count

    def orders(self, rows: NDArray[np.intp], column: int) -> NDArray[np.int64]:
        """Which append wrote each of these cells."""
        orders = self.order[rows]
        for place in np.flatnonzero(np.isin(rows, list(self.later))):
            orders[place] = self.later[int(rows[place])][column]
        return orders

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


def cut(
    block: Block,
    keys: Sequence[SeriesKey],
    positions: list[int],
    columns: list[int],
    rows: NDArray[np.intp],
    parts: list[list[Piece]],
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
        if block.later:
            order = block.orders(rows, columns[i])
        if whole[i]:
            parts[position].append((order, Series(key, at_s, value[i], reason[i], newest_s)))
        else:
            there = present[i]
            if not there.any():
                continue
            series = Series(key, at_s[there], value[i][there], reason[i][there], float(arrived_s[there].max()))
            parts[position].append((order[there], series))


def join(key: SeriesKey, parts: list[Piece]) -> Series:
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
