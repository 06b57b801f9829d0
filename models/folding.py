"""Values at matching phase: past cycles laid over the next one, aligned so that errors of the period do not add up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.quantiles import Floats, sample_quantiles, weighted_quantiles

CYCLES = 16
"""Past cycles that speak, at most; older ones tell of another regime more often than of this one."""
SHIFT_SHARE = 0.15
"""How far a past cycle may be shifted to match the newest one, as a share of the period."""


@dataclass(frozen=True, slots=True, eq=False)
class Alignment:
    """Where the past cycles lie.

    Args:
        lag: (n_cycles,) points back at which the rows looked as they look now, ascending.
        gap: (n_cycles,) mean squared difference there, in units of the rows' variance.
    """

    lag: NDArray[np.intp]
    gap: Floats


def align_cycles(standard: Floats, period_points: float, window: int, cycles: int = CYCLES) -> Alignment:
    """Lag of each past cycle, moved a little to where all rows together match the newest points best.

    Args:
        standard: (n_rows, n_points) in standard deviations, 0 where missing.
        period_points: fractional points.
        window: newest points compared.
        cycles: how many.
    """
    n = standard.shape[1]
    reach = max(1, round(SHIFT_SHARE * period_points))
    now = standard[:, n - window :]
    lags, gaps = [], []
    expected = 0.0
    for _ in range(cycles):
        expected += period_points
        centre = round(expected)
        # A lag must leave its whole window inside the past.
        options = np.arange(max(1, centre - reach), min(centre + reach, n - window) + 1)
        if not options.size or centre > n - window:
            break
        gap = np.array([np.mean((standard[:, n - window - lag : n - lag] - now) ** 2) for lag in options])
        # A shift needs evidence: it pays a little for its distance from the expected place.
        cost = gap + 0.02 * ((options - expected) / reach) ** 2
        best = int(np.argmin(cost))
        lags.append(int(options[best]))
        gaps.append(float(gap[best]))
        # The next cycle is expected one period behind where this one was found, so drift is followed.
        expected = 0.5 * expected + 0.5 * lags[-1]
    return Alignment(np.array(lags, np.intp), np.array(gaps))


def cycle_weights(alignment: Alignment, memory_cycles: float) -> Floats:
    """(n_cycles,) how much each past cycle counts: alike and recent ones more; they add up to 1."""
    if not alignment.lag.size:
        return np.empty(0)
    age = np.arange(alignment.lag.size)
    unit = max(float(np.median(alignment.gap)), 1e-6)
    weight = np.exp(-age / memory_cycles) * np.exp(-(alignment.gap - alignment.gap.min()) / unit)
    result: Floats = weight / weight.sum()
    return result


def fold_quantiles(
    values: Floats,
    alignment: Alignment,
    weight: Floats,
    horizon: int,
    jitter_points: int = 1,
    shift: Floats | None = None,
) -> Floats:
    """Quantiles of what past cycles showed at the phase of each coming step.

    Args:
        values: (n_rows, n_points), NaN where missing.
        alignment: where the past cycles lie.
        weight: (n_cycles,) from ``cycle_weights``.
        horizon: steps ahead.
        jitter_points: neighbours on each side that also speak, because a coming burst may be that much early or late.
        shift: (n_rows, n_cycles) added to each cycle's values, for rows whose level drifts.

    Returns:
        (n_rows, horizon, n_levels); NaN where no past cycle has a value.
    """
    n_rows, n = values.shape
    lead = np.arange(1, horizon + 1)
    around = np.arange(-jitter_points, jitter_points + 1)
    kernel = (jitter_points + 1 - np.abs(around)).astype(np.float64)
    # (horizon, n_cycles, n_around)
    column = (n - 1) + lead[:, None, None] - alignment.lag[None, :, None] + around[None, None, :]
    known = (column < n) & (column >= 0)
    samples = np.where(known, values[:, np.clip(column, 0, n - 1)], np.nan)
    if shift is not None:
        samples = samples + shift[:, None, :, None]
    weights = np.broadcast_to(weight[None, :, None] * kernel, column.shape)
    flat = samples.reshape(n_rows, horizon, -1)
    return weighted_quantiles(flat, np.broadcast_to(weights.reshape(1, horizon, -1), flat.shape))


def duty_cycle(values: Floats, period_points: float, n_bins: int) -> tuple[Floats, Floats, Floats]:
    """Mean, 10 % and 90 % quantile of each row's values over one cycle.

    Bin 0 begins at the newest point's phase plus one point: bin ``b`` covers the leads from ``b`` to ``b + 1`` shares of
    ``period_points / n_bins`` ahead of the cutoff, one cycle on.

    Args:
        values: (n_rows, n_points), NaN where missing.
        period_points: fractional points of one cycle.
        n_bins: parts of the cycle.

    Returns:
        Three arrays (n_rows, n_bins); NaN where a bin has no value.
    """
    n_rows, n = values.shape
    age = np.arange(n - 1, -1, -1)  # 0 = newest
    phase = np.mod(-age - 1.0, period_points) / period_points
    bin_of = np.minimum((phase * n_bins).astype(np.intp), n_bins - 1)
    mean = np.full((n_rows, n_bins), np.nan)
    low, high = mean.copy(), mean.copy()
    for b in range(n_bins):
        part = values[:, bin_of == b]
        known = np.isfinite(part)
        count = known.sum(axis=1)
        some = count > 0
        mean[some, b] = np.where(known, part, 0.0).sum(axis=1)[some] / count[some]
        if part.shape[1]:
            ends = sample_quantiles(part, (0.1, 0.9))
            low[:, b], high[:, b] = ends[:, 0], ends[:, 1]
    return mean, low, high
