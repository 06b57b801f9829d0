"""From samples to regular grids, with gaps kept as gaps.

Grid point ``j`` of ``n_points`` stands at ``end_s - (n_points - 1 - j) * step_s``. Whatever has no observation near
it is NaN with a reason; nothing is ever shifted as if rows were neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from features.store.base import Series
from telemetry.samples import Reason

LATE_RATIO = 0.25
"""A reading may come this share of a step after its grid point and still belong to it (scrape jitter)."""
SNAP_RATIO = 0.01
"""A measured step is snapped to two digits where that changes it by at most this much."""
HOLD_STEPS = 1.75
"""An empty slot is filled from a reading at most this many steps old: one jittered slot, never two."""
LOOKBACK_S = 300.0
"""Prometheus repeats a last value for five minutes."""


@dataclass(frozen=True, slots=True)
class GridGap:
    """A stretch of missing grid points.

    Args:
        first: index of its first point.
        count: how many points.
        start_s: time of its first point.
        end_s: time of its last point.
    """

    first: int
    count: int
    start_s: float
    end_s: float


def grid_times(step_s: float, end_s: float, n_points: int) -> NDArray[np.float64]:
    """(n_points,) times of the grid points; the last is exactly ``end_s``."""
    return np.asarray(end_s - np.arange(n_points - 1, -1, -1) * step_s, np.float64)


def infer_step_s(at_s: NDArray[np.float64]) -> float:
    """Typical spacing of distinct observations in seconds, NaN with fewer than two.

    The mean of the spacings within half of the median: the median ignores gaps, the mean then averages jitter
    away. Snapped to two digits where that is within 1 %, so that 0.998 s is 1 s.
    """
    spacing_s = np.diff(np.unique(at_s))
    if spacing_s.shape[0] == 0:
        return float("nan")
    median_s = float(np.median(spacing_s))
    usual = spacing_s[np.abs(spacing_s - median_s) <= 0.5 * median_s]
    step_s = float(usual.mean())
    snapped_s = float(f"{step_s:.2g}")
    return snapped_s if abs(snapped_s - step_s) <= SNAP_RATIO * step_s else step_s


def to_grid(
    series: Sequence[Series], step_s: float, end_s: float, n_points: int, max_fill_s: float | None = None
) -> tuple[NDArray[np.float64], NDArray[np.uint8]]:
    """Put gauges on a grid: the last good reading of each slot.

    A slot reaches from a quarter step after the previous point to a quarter step after its own, but never past
    ``end_s``. A slot without any reading takes the value before it when that is at most ``max_fill_s`` older than
    the grid point; longer gaps, and readings that were missing, stay NaN.

    Args:
        series: as read from a store.
        step_s: grid spacing.
        end_s: time of the last point.
        n_points: how many points.
        max_fill_s: longest hold; 1.75 steps when None.

    Returns:
        values (n_series, n_points) and reason codes of the same shape, 0 where there is a value.
    """
    values = np.full((len(series), n_points), np.nan)
    reason = np.full((len(series), n_points), np.uint8(Reason.NOT_OBSERVED))
    if not series or n_points == 0:
        return values, reason
    seen_s = np.full(values.shape, -np.inf)
    count = np.array([one.at_s.shape[0] for one in series])
    row = np.repeat(np.arange(len(series)), count)
    at_s = np.concatenate([one.at_s for one in series])
    why = np.concatenate([one.reason for one in series])
    value = np.concatenate([one.value for one in series])
    slot = np.ceil((at_s - end_s) / step_s - LATE_RATIO).astype(np.int64) + n_points - 1
    inside = (slot >= 0) & (slot < n_points) & (at_s <= end_s)
    # Missing readings first: of repeated cells numpy keeps the last assignment, and a good reading must win.
    for wanted in (inside & (why != 0), inside & (why == 0)):
        cell = (row[wanted], slot[wanted])
        values[cell] = value[wanted]
        reason[cell] = why[wanted]
        seen_s[cell] = at_s[wanted]
    _hold(
        values,
        reason,
        seen_s,
        grid_times(step_s, end_s, n_points),
        HOLD_STEPS * step_s if max_fill_s is None else max_fill_s,
    )
    return values, reason


def _hold(
    values: NDArray[np.float64],
    reason: NDArray[np.uint8],
    seen_s: NDArray[np.float64],
    grid_s: NDArray[np.float64],
    max_fill_s: float,
) -> None:
    """Fill slots without a reading from the last slot that had one, if that is young enough; in place."""
    empty = reason == Reason.NOT_OBSERVED
    if max_fill_s <= 0 or not empty.any():
        return
    n_points = values.shape[1]
    last = np.maximum.accumulate(np.where(empty, -1, np.arange(n_points)), axis=1)
    row, column = np.nonzero(empty & (last >= 0))
    source = last[row, column]
    take = (grid_s[column] - seen_s[row, source] <= max_fill_s) & (reason[row, source] == Reason.OK)
    row, column, source = row[take], column[take], source[take]
    values[row, column] = values[row, source]
    reason[row, column] = np.uint8(Reason.OK)


def gaps(values: NDArray[np.float64], step_s: float, end_s: float) -> list[GridGap]:
    """Stretches of missing points of one row (n_points,), oldest first."""
    missing = np.isnan(values)
    edges = np.flatnonzero(np.diff(np.r_[False, missing, False]))
    times_s = grid_times(step_s, end_s, values.shape[0])
    return [
        GridGap(int(first), int(stop - first), float(times_s[first]), float(times_s[stop - 1]))
        for first, stop in zip(edges[0::2], edges[1::2], strict=True)
    ]


def drop_stale_runs(
    values: NDArray[np.float64],
    reason: NDArray[np.uint8],
    step_s: float,
    lookback_s: float = LOOKBACK_S,
    min_gap: int = 2,
) -> tuple[NDArray[np.float64], NDArray[np.uint8]]:
    """Take out values that a lookback repeated: of a run of equal values right before a gap, all but the first.

    Only repeats no more than ``lookback_s`` after the run's first reading count as repeated by the source, and
    only gaps of at least ``min_gap`` points. For sources that look back (Prometheus); a scraped page does not.

    Args:
        values: (n_series, n_points).
        reason: same shape.
        step_s: grid spacing.
        lookback_s: how long the source repeats.
        min_gap: shortest gap, in points.

    Returns:
        new values and reason, ``STALE`` where taken out.
    """
    values, reason = values.copy(), reason.copy()
    most = int(lookback_s / step_s + 1e-9)
    for row in range(values.shape[0]):
        for gap in gaps(values[row], step_s, 0.0):
            if gap.count < min_gap or gap.first == 0:
                continue
            first = gap.first - 1
            while first > 0 and values[row, first - 1] == values[row, gap.first - 1]:
                first -= 1
            start = max(first + 1, gap.first - most)
            values[row, start : gap.first] = np.nan
            reason[row, start : gap.first] = np.uint8(Reason.STALE)
    return values, reason


def lag(values: NDArray[np.float64], points: int) -> NDArray[np.float64]:
    """The value ``points`` grid points earlier; NaN where that is missing or before the grid."""
    shifted = np.full(values.shape, np.nan)
    if points < values.shape[-1]:
        shifted[..., points:] = values[..., : values.shape[-1] - points]
    return shifted


def difference(values: NDArray[np.float64], points: int = 1) -> NDArray[np.float64]:
    """Change since ``points`` grid points earlier; NaN where either end is missing."""
    return np.asarray(values - lag(values, points), np.float64)


def rolling_mean(values: NDArray[np.float64], points: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Mean over the last ``points`` grid points, this one included, and how many values it rests on.

    NaN where the window holds no value. Never sees past its own point.
    """
    good = ~np.isnan(values)
    total = np.cumsum(np.where(good, values, 0.0), axis=-1)
    count = np.cumsum(good, axis=-1, dtype=np.int64)
    if points < values.shape[-1]:
        head = values.shape[-1] - points
        before, before_count = total[..., :head].copy(), count[..., :head].copy()
        total[..., points:] -= before
        count[..., points:] -= before_count
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(count > 0, total / count, np.nan), count
