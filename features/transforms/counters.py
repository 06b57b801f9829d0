"""Growth and rates of counters that reset, dip, glitch and pause.

The usual rule ("any drop is a restart from 0") books a counter's whole lifetime as traffic when a reading steps
back a little or is 0 once. Here a drop of less than 1 % of the high is a dip: no growth until the high is passed.
A single reading below that, followed by one at or above the high, is a glitch and is left out. Any other drop is
a reset: the counter grew by what it shows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from features.store.base import Series
from features.transforms.grid import by_times, infer_step_s
from telemetry.samples import Reason

DIP_RATIO = 0.01
MAX_GAP_STEPS = 5.0
"""A rate across a longer pause is one average, not observations; its slots stay missing."""
EDGE_RATIO = 1e-6
HOLD_SPACINGS = 1.75
"""The newest rate holds this many counter spacings past the newest reading, so that a counter read a moment
before the grid's end still has a last value."""


@dataclass(frozen=True, slots=True, eq=False)
class Growth:
    """A counter as cumulative growth since its first good reading.

    Args:
        at_s: (n,) times of the readings that count; glitches and undecided last readings are left out.
        total: (n,) growth since the first, never falling.
        resets: times of resets.
        dips: times of dips.
        glitches: times of glitches.
        undecided: True when the last reading dropped and the next one must tell reset from glitch.
    """

    at_s: NDArray[np.float64]
    total: NDArray[np.float64]
    resets: tuple[float, ...] = ()
    dips: tuple[float, ...] = ()
    glitches: tuple[float, ...] = ()
    undecided: bool = False


def growth(series: Series) -> Growth:
    """Cumulative growth of one counter; missing readings are left out."""
    good = series.reason == 0
    at_s, value = series.at_s[good], series.value[good]
    if value.shape[0] == 0 or bool((np.diff(value) >= 0).all()):
        return Growth(at_s, value - value[:1])
    return _walk(at_s, value)


def _walk(at_s: NDArray[np.float64], value: NDArray[np.float64]) -> Growth:
    """The slow way for a counter that falls somewhere: reading by reading."""
    readings = value.tolist()
    keep: list[int] = [0]
    totals: list[float] = [0.0]
    resets: list[float] = []
    dips: list[float] = []
    glitches: list[float] = []
    high, total, undecided = readings[0], 0.0, False
    for i in range(1, len(readings)):
        now = readings[i]
        if now >= high:
            total += now - high
            high = now
        elif high - now < DIP_RATIO * high:
            dips.append(float(at_s[i]))
        elif i + 1 == len(readings):
            undecided = True
            break
        elif readings[i + 1] >= high:
            glitches.append(float(at_s[i]))
            continue
        else:
            resets.append(float(at_s[i]))
            total += now
            high = now
        keep.append(i)
        totals.append(total)
    return Growth(at_s[np.asarray(keep)], np.asarray(totals), tuple(resets), tuple(dips), tuple(glitches), undecided)


def increase(series: Series) -> float:
    """Growth over all readings, long pauses included; NaN with fewer than two."""
    grown = growth(series)
    return float(grown.total[-1]) if grown.total.shape[0] > 1 else float("nan")


def rate(series: Series, max_gap_s: float | None = None) -> Series:
    """Per-second rate at each reading since the one before it; never negative.

    The first reading, a glitch, an undecided last reading, and one after a pause longer than ``max_gap_s`` (five
    typical spacings when None) have no rate: NaN with ``NO_RATE``. Missing readings keep their reason.
    """
    grown = growth(series)
    value = np.full(series.at_s.shape, np.nan)
    reason = np.where(series.reason == 0, np.uint8(Reason.NO_RATE), series.reason).astype(np.uint8)
    if grown.at_s.shape[0] > 1:
        spacing_s = np.diff(grown.at_s)
        limit_s = MAX_GAP_STEPS * infer_step_s(grown.at_s) if max_gap_s is None else max_gap_s
        near = spacing_s <= limit_s
        place = np.searchsorted(series.at_s, grown.at_s[1:][near])
        value[place] = np.diff(grown.total)[near] / spacing_s[near]
        reason[place] = np.uint8(Reason.OK)
    return Series(series.key, series.at_s, value, reason, series.received_s)


def rates_on_grid(
    series: Sequence[Series], step_s: float, end_s: float, n_points: int, max_gap_s: float | None = None
) -> tuple[NDArray[np.float64], NDArray[np.uint8]]:
    """Average rate of each grid slot, from the counter interpolated at the slot's edges.

    Slot ``j`` ends at its grid point and is ``step_s`` long. A counter read more rarely than the grid gives equal
    rates to the slots in between; one pause longer than ``max_gap_s`` (five grid steps or five of the counter's
    own spacings, whichever is longer) leaves its slots missing. Slots past the newest reading hold the newest
    rate for at most 1.75 of the counter's spacings.

    Returns:
        values (n_series, n_points) per second, never negative, and reason codes.
    """
    values = np.full((len(series), n_points), np.nan)
    reason = np.full((len(series), n_points), np.uint8(Reason.NO_RATE))
    if n_points == 0:
        return values, reason
    edges_s = end_s - np.arange(n_points, -1, -1, dtype=np.float64) * step_s
    for rows, at_s, total in _growths([_until(one, end_s) for one in series]):
        if at_s.shape[0] > 1:
            values[rows] = _slot_rates(at_s, total, edges_s, step_s, max_gap_s)
    for row, one in enumerate(series):
        if one.reason.shape[0] and bool((one.reason != 0).all()):
            reason[row] = one.reason[-1]
    reason[~np.isnan(values)] = np.uint8(Reason.OK)
    return values, reason


def _until(series: Series, end_s: float) -> Series:
    if series.at_s.shape[0] == 0 or series.at_s[-1] <= end_s:
        return series
    count = int(np.searchsorted(series.at_s, end_s, side="right"))
    return Series(series.key, series.at_s[:count], series.value[:count], series.reason[:count], series.received_s)


def _growths(
    series: Sequence[Series],
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.float64], NDArray[np.float64]]]:
    """Growth of many counters: (rows, times, totals (n_rows, n_times)), together where times are shared."""
    for rows in by_times(series):
        at_s = series[rows[0]].at_s
        value = np.array([series[row].value for row in rows])
        plain = ~(np.diff(value, axis=1) < 0).any(axis=1) & ~np.isnan(value).any(axis=1)
        if plain.any():
            yield rows[plain], at_s, value[plain] - value[plain, :1]
        for row in rows[~plain]:
            grown = growth(series[row])
            yield np.array([row]), grown.at_s, grown.total[None, :]


def _slot_rates(
    at_s: NDArray[np.float64],
    total: NDArray[np.float64],
    edges_s: NDArray[np.float64],
    step_s: float,
    max_gap_s: float | None,
) -> NDArray[np.float64]:
    """(n_rows, n_points) average rate between neighbouring edges, of growth ``total`` (n_rows, n_times)."""
    spacing_s = infer_step_s(at_s)
    limit_s = MAX_GAP_STEPS * max(step_s, spacing_s) if max_gap_s is None else max_gap_s
    after = np.clip(np.searchsorted(at_s, edges_s, side="left"), 1, at_s.shape[0] - 1)
    before_s, pause_s = at_s[after - 1], at_s[after] - at_s[after - 1]
    part = (edges_s - before_s) / pause_s
    # Epoch seconds in a float64 are good to 0.2 us: an edge that near to a reading stands on it.
    near = EDGE_RATIO * step_s / pause_s
    part = np.where(np.abs(part) <= near, 0.0, np.where(np.abs(part - 1) <= near, 1.0, part))
    known = (part >= 0) & (part <= 1) & ~((pause_s > limit_s) & (part > 0) & (part < 1))
    at_edge = total[:, after - 1] + part * (total[:, after] - total[:, after - 1])
    rates = np.maximum(np.diff(at_edge, axis=1) / step_s, 0.0)
    # Both edges may be readings and still have a long pause between them.
    paused = np.r_[0, np.cumsum(np.diff(at_s) > limit_s)]
    spans = paused[after[1:] - (part[1:] < 1)] > paused[after[:-1] - (part[:-1] < 1)]
    rates[:, ~(known[1:] & known[:-1]) | spans] = np.nan
    _hold_newest(rates, at_s, total, edges_s, HOLD_SPACINGS * spacing_s, limit_s)
    return rates


def _hold_newest(
    rates: NDArray[np.float64],
    at_s: NDArray[np.float64],
    total: NDArray[np.float64],
    edges_s: NDArray[np.float64],
    hold_s: float,
    limit_s: float,
) -> None:
    """Fill slots that end after the newest reading, while it is young; in place."""
    pause_s = at_s[-1] - at_s[-2]
    late_s = edges_s[1:] - at_s[-1]
    young = (late_s > EDGE_RATIO * hold_s) & (late_s <= hold_s)
    if pause_s <= limit_s and young.any():
        rates[:, young] = ((total[:, -1] - total[:, -2]) / pause_s)[:, None]
