"""Quantiles of samples, row by row, and the laws that every quantile cube keeps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from models.base import LEVELS

Floats = NDArray[np.float64]
LEVEL_ARRAY: Floats = np.asarray(LEVELS, np.float64)
MEDIAN = LEVELS.index(0.5)
BLOCK_VALUES = 1 << 17
"""Values worked on at once where leads are taken in blocks: 1 MiB."""


def sample_quantiles(samples: Floats, levels: Sequence[float] = LEVELS) -> Floats:
    """Quantiles over the last axis, NaN samples left out: (..., n) -> (..., n_levels); NaN where no sample is left.

    Linear interpolation between order statistics at ``(n - 1) * level`` (Hyndman and Fan 1996, type 7), as numpy does.
    """
    return quantiles_of_sorted(np.sort(samples, axis=-1), levels)  # NaN goes last


def quantiles_of_sorted(ordered: NDArray[np.floating], levels: Sequence[float] = LEVELS, least: int = 1) -> Floats:
    """The same for samples in ascending order with NaN last; NaN also where fewer than ``least`` samples are left."""
    count = _finite_ahead(ordered)
    last = np.maximum(count - 1, 0)[..., None]
    place = last * np.asarray(levels, np.float64)
    below = place.astype(np.intp)
    low, high = pick(ordered, below), pick(ordered, np.minimum(below + 1, last))
    result: Floats = np.where(count[..., None] >= max(least, 1), low + (high - low) * (place - below), np.nan)
    return result


def _finite_ahead(ordered: NDArray[np.floating]) -> NDArray[np.intp]:
    """(...,) how many values of the last axis, ascending with NaN last, are finite: halving, not counting."""
    n = ordered.shape[-1]
    flat = ordered.reshape(-1, n)
    low, high = np.zeros(flat.shape[0], np.intp), np.full(flat.shape[0], n, np.intp)
    if n and np.isfinite(flat[:, -1]).all():
        return high.reshape(ordered.shape[:-1])
    rows = np.arange(flat.shape[0])
    for _ in range(n.bit_length()):
        middle = (low + high) // 2
        finite = np.isfinite(flat[rows, np.minimum(middle, n - 1)]) & (middle < high)
        low, high = np.where(finite, middle + 1, low), np.where(finite, high, middle)
    return low.reshape(ordered.shape[:-1])


def pick(values: NDArray[np.floating], index: NDArray[np.intp]) -> Floats:
    """(..., n) at (..., k) indices of the last axis -> (..., k); what ``take_along_axis`` does, with less ado."""
    n = values.shape[-1]
    rows = values.size // max(n, 1)
    flat = index.reshape(rows, -1) + (np.arange(rows) * n)[:, None]
    result: Floats = values.reshape(-1)[flat].reshape(index.shape).astype(np.float64, copy=False)
    return result


def lead_blocks(n_series: int, n_points: int, horizon: int) -> list[tuple[int, int]]:
    """Consecutive blocks (first, last + 1) of the leads 1..horizon, so that a block over all points fits the cache."""
    size = max(1, BLOCK_VALUES // max(1, n_series * n_points))
    return [(first, min(first + size, horizon + 1)) for first in range(1, horizon + 1, size)]


def ahead_at(values: Floats, leads: NDArray[np.intp]) -> Floats:
    """(n, n_leads, t): each row of (n, t) as it was at each of the leads later; NaN past its end."""
    n, t = values.shape
    padded = np.concatenate([values, np.full((n, int(leads.max(initial=0))), np.nan)], axis=1)
    shifted: Floats = np.lib.stride_tricks.sliding_window_view(padded, t, axis=1)[:, leads]
    return shifted


def lead_parts(n_series: int, n_points: int, leads: NDArray[np.intp]) -> list[slice]:
    """Consecutive slices of ``leads``, so that a part over all points fits the cache."""
    size = max(1, BLOCK_VALUES // max(1, n_series * n_points))
    return [slice(first, min(first + size, leads.size)) for first in range(0, leads.size, size)]


def weighted_quantiles(samples: Floats, weights: Floats, levels: Sequence[float] = LEVELS) -> Floats:
    """Quantiles of weighted samples over the last axis; a sample that is NaN or has no weight says nothing.

    The distribution function passes through the middle of each sample's step and is linear between, so that equal
    weights give the midpoint rule (Hyndman and Fan 1996, type 5).

    Args:
        samples: (..., n).
        weights: (..., n), not negative, any scale.
        levels: which quantiles.
    """
    known = np.isfinite(samples) & (weights > 0)
    whole = bool(known.all())
    order = np.argsort(samples if whole else np.where(known, samples, np.inf), axis=-1)
    value = pick(samples, order)
    weight = pick(weights if whole else np.where(known, weights, 0.0), order)
    position = np.cumsum(weight, axis=-1)
    total = position[..., -1:].copy()
    position -= 0.5 * weight
    with np.errstate(invalid="ignore", divide="ignore"):
        position /= total
    usable = np.full((*samples.shape[:-1], 1), samples.shape[-1]) if whole else known.sum(axis=-1)[..., None]
    level = np.asarray(levels, np.float64)
    above = np.stack([(position < one).sum(axis=-1) for one in levels], axis=-1)
    high = np.minimum(above, np.maximum(usable - 1, 0))
    low = np.maximum(high - ((above > 0) & (above < usable)), 0)
    at_low, v_low = pick(position, low), pick(value, low)
    span = pick(position, high) - at_low
    share = np.where(span > 0, (level - at_low) / np.where(span > 0, span, 1.0), 0.0)
    out: Floats = v_low + (pick(value, high) - v_low) * np.clip(share, 0.0, 1.0)
    out[~(total[..., 0] > 0)] = np.nan
    return out


def last_observed(values: Floats, default: float = 0.0) -> Floats:
    """The newest finite value of each row of (n, t); ``default`` where a row has none."""
    known = np.isfinite(values)
    if values.shape[1] == 0:
        return np.full(values.shape[0], default)
    column = values.shape[1] - 1 - np.argmax(known[:, ::-1], axis=1)
    value = values[np.arange(values.shape[0]), column]
    result: Floats = np.where(known.any(axis=1), value, default)
    return result


def fill_forward(values: Floats) -> Floats:
    """Each gap takes the value before it; a gap at the start takes the first value after it; an empty row stays NaN."""
    _, t = values.shape
    if t == 0:
        return values.copy()
    known = np.isfinite(values)
    index = np.where(known, np.arange(t), -1)
    np.maximum.accumulate(index, axis=1, out=index)
    first = np.argmax(known, axis=1)
    index = np.where(index < 0, first[:, None], index)
    result: Floats = np.take_along_axis(values, index, axis=1)
    return result


def keep_laws(cube: Floats, low: Floats, high: Floats) -> Floats:
    """The cube with quantiles sorted and clipped to each row's physical bounds.

    Args:
        cube: (n, horizon, n_levels).
        low: (n,) least legal value.
        high: (n,) greatest legal value.
    """
    ordered = np.sort(cube, axis=-1)
    result: Floats = np.clip(ordered, low[:, None, None], high[:, None, None])
    return result
