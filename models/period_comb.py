"""How well each candidate period explains an autocorrelation: the comb score."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from models.period_acf import LANCZOS_A, upsample_acf

UPSAMPLE = 8
"""Points per lag of the interpolated autocorrelation."""
SHORTEST_POINTS = 2.2
"""Shortest candidate; below two points nothing can be seen at all."""
COMB_TEETH = 16
"""Multiples of the period that are looked at."""
MEMORY_TEETH = 5.0
"""A tooth this far out weighs 1/e: checkpoints and drift shift the rhythm, so that far multiples of a good period fade."""


def candidate_grid(max_lag: int, shortest: float, longest: float) -> NDArray[np.float64]:
    """Candidate periods in points: a step moves the last tooth of the comb by a quarter of a point."""
    step = 0.25 / max_lag
    if longest <= shortest:
        return np.empty(0)
    return np.exp(np.arange(np.log(shortest), np.log(longest) + step, step))


def comb_score(
    acf: NDArray[np.floating], periods: NDArray[np.float64], n_points: int, memory: float = MEMORY_TEETH
) -> NDArray[np.float64]:
    """Comb score of every row at every candidate.

    Args:
        acf: (n_rows, max_lag + 1), from ``acf_batch``.
        periods: (n_candidates,) in points, each at most ``max_lag``.
        n_points: length of the series, which gives each tooth its weight: the pairs it averages.
        memory: teeth after which the weight has fallen to 1/e; a greater memory tells the period more finely.

    Returns:
        (n_rows, n_candidates); at most 1, about 0 where nothing repeats.
    """
    fine = upsample_acf(acf, UPSAMPLE)
    max_lag = acf.shape[1] - 1
    sums = np.concatenate([np.zeros((fine.shape[0], 1)), np.cumsum(fine, axis=1)], axis=1)
    last = fine.shape[1] - 1
    total = np.zeros((fine.shape[0], periods.size))
    weight = np.zeros(periods.size)
    for tooth in range(1, COMB_TEETH + 1):
        lag = tooth * periods
        inside = lag <= max_lag
        if not inside.any():
            break
        w = tooth_weight(tooth, lag, inside, n_points, memory)
        position = np.minimum(lag * UPSAMPLE, last)
        left = np.minimum(position.astype(np.intp), last - 1)
        part = position - left
        value = fine[:, left] * (1 - part) + fine[:, left + 1] * part
        lo = np.clip(np.rint((tooth - 0.5) * periods * UPSAMPLE).astype(np.intp), 0, last)
        hi = np.clip(np.rint((tooth + 0.5) * periods * UPSAMPLE).astype(np.intp), 1, last + 1)
        around = (sums[:, hi] - sums[:, lo]) / np.maximum(hi - lo, 1)
        total += w * (value - around)
        weight += w
    return np.asarray(total / np.maximum(weight, 1e-9))


def tooth_weight(
    tooth: int, lag: NDArray[np.float64], inside: NDArray[np.bool_], n_points: int, memory: float
) -> NDArray[np.float64]:
    """(n_candidates,) weight of one tooth: the share of pairs that it averages, fading with distance."""
    return np.asarray(np.where(inside, (1 - lag / n_points) * np.exp(-(tooth - 1) / memory), 0.0))


def grid_loss(
    periods: NDArray[np.float64], max_lag: int, n_points: int, memory: float = MEMORY_TEETH
) -> NDArray[np.float64]:
    """Share of a comb score (n_candidates,) that a burst one point wide keeps when its teeth fall between the lags.

    The autocorrelation of such a burst is a triangle two lags wide; sampled at whole lags and interpolated, a tooth that
    falls between two of them reads too low. Periods of a few points at an awkward fraction lose up to two fifths.
    """
    offset = np.linspace(0, 0.5, 11)
    lags = np.arange(1, 2 * LANCZOS_A + 4)
    tent = np.maximum(0.0, 1 - np.abs(lags[None, :] - (LANCZOS_A + 2) - offset[:, None]))
    fine = upsample_acf(np.concatenate([np.zeros((offset.size, 1)), tent], axis=1), UPSAMPLE)
    at = (LANCZOS_A + 2 + offset) * UPSAMPLE
    kept = np.array([np.interp(x, np.arange(fine.shape[1]), row) for x, row in zip(at, fine, strict=True)])
    total = np.zeros(periods.size)
    weight = np.zeros(periods.size)
    for tooth in range(1, COMB_TEETH + 1):
        lag = tooth * periods
        w = tooth_weight(tooth, lag, lag <= max_lag, n_points, memory)
        total += w * np.interp(np.abs(lag - np.rint(lag)), offset, kept)
        weight += w
    return np.asarray(np.where(weight > 0, total / np.maximum(weight, 1e-9), 1.0))
