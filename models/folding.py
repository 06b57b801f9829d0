"""Values at matching phase: what followed the past moments that lie whole cycles back and looked like now."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from models.base import LEVELS
from models.quantiles import Floats, fill_forward, sample_quantiles, weighted_quantiles

MOMENTS = 32
"""Past moments that speak for a row, at most."""
REACH_SHARE = 0.15
"""How far from a whole number of cycles a moment may lie, as a share of the period: iterations are never equally long."""
OWN_SHARE = 0.5
"""Weight of a row's own likeness; the rest is the likeness of all rows of its job, which are at the same phase."""
STRAY_COST = 0.05
"""Cost of lying ``REACH_SHARE`` away from a whole number of cycles, in units of the row's variance."""
LEAST_WINDOW, GREATEST_WINDOW = 16, 64
"""Bounds of the number of newest points that must look alike."""


def fold_quantiles(
    values: Floats,
    period_points: float,
    horizon: int,
    levels: Sequence[float] = LEVELS,
    row_weight: Floats | None = None,
    leads: NDArray[np.intp] | None = None,
) -> Floats:
    """Quantiles of what each row showed at the phase of the coming steps, cycles ago.

    The offset of every past cycle is found anew by its likeness to the newest points, so that neither an error of the
    period nor uneven iterations add up over cycles.

    Args:
        values: (n_rows, n_points), NaN where missing; all rows of one job.
        period_points: fractional points of one cycle.
        horizon: steps ahead.
        levels: which quantiles.
        row_weight: (n_rows,) how much each row says about the phase of the job; equal when None.
        leads: which leads, numbered from 1 and ascending; all when None.

    Returns:
        (n_rows, n_leads, n_levels); NaN for rows without values and where the past holds fewer than two cycles.
    """
    n_rows, n = values.shape
    filled = fill_forward(values)
    leads = np.arange(1, horizon + 1) if leads is None else leads
    out = np.full((n_rows, leads.size, len(levels)), np.nan)
    window = int(np.clip(round(period_points), LEAST_WINDOW, GREATEST_WINDOW))
    window = min(window, n // 4)
    if window < 2 or not n_rows:
        return out
    cost = _unlikeness(filled, window, np.ones(n_rows) if row_weight is None else row_weight)
    lag = np.arange(1, cost.shape[1] + 1)
    cycle = np.maximum(np.rint(lag / period_points), 1.0)
    # Uneven iterations add up like a random walk. Half a point off is no stray but the grid.
    reach = np.maximum(1.0, REACH_SHARE * period_points * np.sqrt(cycle))
    stray = np.abs(lag - cycle * period_points) / reach
    coherent = stray <= 1.0
    cost = cost + STRAY_COST * stray**2
    rows = np.arange(n_rows)[:, None, None]
    for start, stop in lead_blocks(horizon):
        asked = (leads > start) & (leads <= stop)
        if not asked.any():
            continue
        # A moment ``lag`` points ago has shown its next ``stop`` points only if lag >= stop.
        usable = np.flatnonzero(coherent & (lag >= stop))
        if usable.size < 2:
            usable = np.flatnonzero(coherent)
        if usable.size < 2:
            continue
        chosen, weight = _nearest(cost[:, usable], MOMENTS)
        column = n - lag[usable[chosen]][:, None, :] + (leads[asked] - 1)[None, :, None]
        known = column < n
        sample = np.where(known, filled[rows, np.minimum(column, n - 1)], np.nan)
        out[:, asked] = weighted_quantiles(sample, np.broadcast_to(weight[:, None, :], sample.shape), levels)
    return out


def lead_blocks(horizon: int) -> list[tuple[int, int]]:
    """Blocks of leads that share their moments: near leads may use recent moments which far leads cannot."""
    edges = [0, *sorted({max(1, horizon // 8), max(1, horizon // 3), horizon})]
    return list(pairwise(edges))


def _unlikeness(filled: Floats, window: int, row_weight: Floats) -> Floats:
    """(n_rows, n_lags) mean squared difference between the newest ``window`` points and those 1, 2, ... points back."""
    mean = filled.mean(axis=1, keepdims=True)
    centred = filled - mean
    sd = np.sqrt((centred**2).mean(axis=1, keepdims=True))
    live = np.isfinite(sd) & (sd > 1e-9 * np.maximum(np.abs(mean), 1e-300))
    z = np.where(live, centred / np.where(live, sd, 1.0), 0.0)
    past = np.lib.stride_tricks.sliding_window_view(z[:, :-1], window, axis=1)
    now = z[:, -window:]
    square = np.cumsum(np.pad(z**2, ((0, 0), (1, 0))), axis=1)
    energy = square[:, window:-1] - square[:, : -window - 1]
    cross = np.einsum("ntw,nw->nt", past, now)
    gap = np.maximum((energy - 2 * cross + (now**2).sum(axis=1, keepdims=True)) / window, 0.0)[:, ::-1]
    weight = np.where(live[:, 0], row_weight, 0.0)
    job = weight @ gap / max(float(weight.sum()), 1e-12)
    result: Floats = OWN_SHARE * gap + (1 - OWN_SHARE) * job
    return result


def _nearest(cost: Floats, most: int) -> tuple[NDArray[np.intp], Floats]:
    """The cheapest columns of each row (n_rows, k) and their weights: one twice as unlike as the eighth hardly counts."""
    k = min(most, cost.shape[1])
    chosen = np.argpartition(cost, k - 1, axis=1)[:, :k]
    gap = np.take_along_axis(cost, chosen, axis=1)
    eighth = min(8, k) - 1
    unit = np.maximum(np.partition(gap, eighth, axis=1)[:, eighth : eighth + 1], 1e-6)
    return chosen, np.exp(-(gap - gap.min(axis=1, keepdims=True)) / unit)


def duty_cycle(values: Floats, period_points: float, n_bins: int) -> tuple[Floats, Floats, Floats]:
    """Mean, 10 % and 90 % quantile of each row's values over one cycle, from all past cycles.

    Bin 0 begins with the first point after the cutoff; bin ``b`` covers the leads from ``b`` to ``b + 1`` times
    ``period_points / n_bins`` points, this cycle and every later one.

    Args:
        values: (n_rows, n_points), NaN where missing.
        period_points: fractional points of one cycle.
        n_bins: parts of the cycle.

    Returns:
        Three arrays (n_rows, n_bins); NaN where a bin has no value.
    """
    n_rows, n = values.shape
    lead = np.arange(-n, 0) + 0.5  # the middle of each point, counted from the cutoff
    phase = np.mod(lead, period_points) / period_points
    bin_of = np.minimum((phase * n_bins).astype(np.intp), n_bins - 1)
    mean = np.full((n_rows, n_bins), np.nan)
    low, high = mean.copy(), mean.copy()
    for b in range(n_bins):
        part = values[:, bin_of == b]
        if not part.shape[1]:
            continue
        known = np.isfinite(part)
        count = known.sum(axis=1)
        total = np.where(known, part, 0.0).sum(axis=1)
        mean[:, b] = np.where(count > 0, total / np.maximum(count, 1), np.nan)
        ends = sample_quantiles(part, (0.1, 0.9))
        low[:, b], high[:, b] = ends[:, 0], ends[:, 1]
    return mean, low, high
