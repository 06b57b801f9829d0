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
SNAP_RATIO = 0.02
"""A measured step is snapped to two digits where that changes it by at most this much: a poller that stalls now and
then still means its round number."""
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
    away. Snapped to two digits where that is within 2 %, so that 0.998 s is 1 s.
    """
    spacing_s = np.diff(at_s)
    if not (spacing_s > 0).all():
        spacing_s = np.diff(np.unique(at_s))
    if spacing_s.shape[0] == 0:
        return float("nan")
    median_s = float(np.median(spacing_s))
    usual = spacing_s[np.abs(spacing_s - median_s) <= 0.5 * median_s]
    # Two spacings far apart have a median that neither is near.
    step_s = float(usual.mean()) if usual.shape[0] else median_s
    snapped_s = float(f"{step_s:.2g}")
    return snapped_s if abs(snapped_s - step_s) <= SNAP_RATIO * step_s else step_s


def by_times(series: Sequence[Series]) -> list[NDArray[np.intp]]:
    """Positions of the series grouped by equal time arrays; what one scrape gave shares its times."""
    groups: dict[bytes, list[int]] = {}
    seen: dict[int, list[int]] = {}
    for place, one in enumerate(series):
        group = seen.get(id(one.at_s))
        if group is None:
            group = seen[id(one.at_s)] = groups.setdefault(one.at_s.tobytes(), [])
        group.append(place)
    return [np.asarray(group, np.intp) for group in groups.values()]


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
    if n_points == 0:
        return values, reason
    grid_s = grid_times(step_s, end_s, n_points)
    hold_s = HOLD_STEPS * step_s if max_fill_s is None else max_fill_s
    for rows in by_times(series):
        at_s = series[rows[0]].at_s
        slot = np.ceil((at_s - end_s) / step_s - LATE_RATIO).astype(np.int64) + n_points - 1
        inside = np.flatnonzero((slot >= 0) & (slot < n_points) & (at_s <= end_s))
        if inside.shape[0] == 0:
            continue
        part = slice(int(inside[0]), int(inside[-1]) + 1)
        _place(
            values,
            reason,
            rows,
            slot[part],
            np.array([series[row].value[part] for row in rows]),
            np.array([series[row].reason[part] for row in rows]),
        )
        _hold(values, reason, rows, slot[part], at_s[part], grid_s, hold_s)
    return values, reason


def _place(
    values: NDArray[np.float64],
    reason: NDArray[np.uint8],
    rows: NDArray[np.intp],
    slot: NDArray[np.int64],
    value: NDArray[np.float64],
    why: NDArray[np.uint8],
) -> None:
    """Write readings (n_rows, n_times) that share their slots (n_times,) into their rows; in place.

    Of repeated cells numpy keeps the last assignment, so the last reading of a slot stays; missing readings go
    first, so that a good one in the same slot wins.
    """
    if not why.any():
        if slot.shape[0] == slot[-1] - slot[0] + 1 and bool((np.diff(slot) == 1).all()):
            values[rows, slot[0] : slot[-1] + 1] = value
            reason[rows, slot[0] : slot[-1] + 1] = np.uint8(Reason.OK)
            return
        values[rows[:, None], slot] = value
        reason[rows[:, None], slot] = np.uint8(Reason.OK)
        return
    for wanted in (why != 0, why == 0):
        row, time = np.nonzero(wanted)
        values[rows[row], slot[time]] = value[row, time]
        reason[rows[row], slot[time]] = why[row, time]


def _hold(
    values: NDArray[np.float64],
    reason: NDArray[np.uint8],
    rows: NDArray[np.intp],
    slot: NDArray[np.int64],
    at_s: NDArray[np.float64],
    grid_s: NDArray[np.float64],
    max_fill_s: float,
) -> None:
    """Fill slots without a reading from the last slot that had one, if that is young enough; in place."""
    seen_s = np.full(grid_s.shape, np.nan)
    seen_s[slot] = at_s
    empty = np.isnan(seen_s)
    last = np.maximum.accumulate(np.where(empty, -1, np.arange(grid_s.shape[0])))
    with np.errstate(invalid="ignore"):
        column = np.flatnonzero(empty & (last >= 0) & (grid_s - seen_s[last] <= max_fill_s))
    if column.shape[0] == 0:
        return
    source = reason[rows[:, None], last[column]]
    values[rows[:, None], column] = values[rows[:, None], last[column]]
    reason[rows[:, None], column] = np.where(source == Reason.OK, Reason.OK, Reason.NOT_OBSERVED).astype(np.uint8)


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
