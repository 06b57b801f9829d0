"""Duty cycles: how a resource is used around the iteration circle.

The circle is the picture of CASSINI (Rajasekaran and others, NSDI 2024): one iteration wrapped round, so that the
demands of two jobs can be laid over each other and turned against each other.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from features.frame import Context
from forecast.predict.types import DutyCycle

MAX_BINS = 48
"""Finer bins than this hold too few samples each."""
MIN_BINS = 4
MAX_CYCLES = 12
"""Only this many recent iterations count, so that a circle follows a job that drifts."""


def bin_count(period_s: float, step_s: float) -> int:
    """Bins of a circle: about one per sample of an iteration."""
    return int(np.clip(round(period_s / step_s), MIN_BINS, MAX_BINS))


def duty_cycle(
    values: NDArray[np.float64], step_s: float, data_at_s: float, period_s: float, metric: str
) -> DutyCycle | None:
    """The circle of one series; None when fewer than two iterations or no finite values are there.

    Args:
        values: (n_points,) the last column lies at ``data_at_s``; NaN where missing.
        step_s: spacing.
        data_at_s: time of the last column, Unix seconds.
        period_s: length of the circle.
        metric: catalogue name.
    """
    keep = min(values.shape[0], int(np.floor(MAX_CYCLES * period_s / step_s)))
    if keep * step_s < 2 * period_s:
        return None
    recent = values[-keep:]
    at_s = data_at_s - step_s * np.arange(keep - 1, -1, -1, dtype=np.float64)
    origin_s = data_at_s - MAX_CYCLES * period_s
    good = np.isfinite(recent)
    if int(good.sum()) < 2 * MIN_BINS:
        return None
    bins = bin_count(period_s, step_s)
    where = np.floor(np.mod((at_s[good] - origin_s) / period_s, 1.0) * bins).astype(np.intp) % bins
    mean, low, high = _by_bin(recent[good], where, bins)
    return DutyCycle(metric, period_s, origin_s, mean, low, high)


def _by_bin(
    values: NDArray[np.float64], where: NDArray[np.intp], bins: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Mean, 10 % and 90 % quantile per bin; empty bins are bridged around the circle."""
    out = np.full((3, bins), np.nan)
    for b in np.unique(where):
        inside = values[where == b]
        out[0, b] = inside.mean()
        out[1:, b] = np.quantile(inside, (0.1, 0.9))
    return _bridge(out[0]), _bridge(out[1]), _bridge(out[2])


def _bridge(row: NDArray[np.float64]) -> NDArray[np.float64]:
    """Fill missing bins from their neighbours around the circle."""
    have = np.flatnonzero(np.isfinite(row))
    if have.size == row.size:
        return row
    bins = np.arange(row.size, dtype=np.float64)
    return np.interp(bins, have, row[have], period=row.size)


def duty_cycles(context: Context, data_at_s: float, period_s: float, points: int) -> dict[str, DutyCycle]:
    """One circle per row that can have one, by catalogue name, from the newest ``points``."""
    found = {}
    for row, metric in enumerate(context.metric):
        cycle = duty_cycle(context.values[row, -points:], context.step_s, data_at_s, period_s, metric)
        if cycle is not None:
            found[metric] = cycle
    return found


def at_times(cycle: DutyCycle, part: NDArray[np.float64], at_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """The circle read at some instants, linear between the middles of bins.

    Args:
        cycle: period and origin.
        part: (n_bins,) which of its curves, such as ``cycle.mean``.
        at_s: instants, any shape, Unix seconds.
    """
    bins = part.shape[0]
    position = np.mod((at_s - cycle.origin_s) / cycle.period_s, 1.0) * bins - 0.5
    return np.asarray(np.interp(position, np.arange(bins, dtype=np.float64), part, period=bins), np.float64)
