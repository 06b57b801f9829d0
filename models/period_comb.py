"""How well each candidate period explains an autocorrelation: the comb score."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.period_acf import upsample_acf

UPSAMPLE = 8
"""Points per lag of the interpolated autocorrelation."""
SHORTEST_POINTS = 2.2
"""Shortest candidate; below two points nothing can be seen at all."""
LONGEST_SHARE = 0.5
"""Longest candidate as a share of the greatest lag, so that at least its double lies inside."""
COMB_TEETH = 16
"""Multiples of the period that are looked at."""


@dataclass(frozen=True, slots=True, eq=False)
class Comb:
    """Comb scores over a logarithmic grid of candidate periods.

    Args:
        period_points: (n_candidates,) ascending.
        score: (n_rows, n_candidates) share of a row's variance that repeats with the period: the mean of the
            autocorrelation at its multiples, less the mean over whole periods around them, so that a slow drift scores 0.
    """

    period_points: NDArray[np.float64]
    score: NDArray[np.float64]


def candidate_grid(max_lag: int, shortest: float, longest: float) -> NDArray[np.float64]:
    """Candidate periods in points: a step moves the last tooth of the comb by a quarter of a point."""
    step = 0.25 / max_lag
    if longest <= shortest:
        return np.empty(0)
    return np.exp(np.arange(np.log(shortest), np.log(longest) + step, step))


def comb_score(
    acf: NDArray[np.floating], periods: NDArray[np.float64], n_points: int, teeth: int = COMB_TEETH
) -> NDArray[np.float64]:
    """Comb score of every row at every candidate.

    Args:
        acf: (n_rows, max_lag + 1), from ``acf_batch``.
        periods: (n_candidates,) in points, each at most ``max_lag``.
        n_points: length of the series, which gives each tooth its weight: the pairs it averages.
        teeth: how many multiples to look at.

    Returns:
        (n_rows, n_candidates); at most 1, about 0 where nothing repeats.
    """
    fine = upsample_acf(acf, UPSAMPLE)
    max_lag = acf.shape[1] - 1
    sums = np.concatenate([np.zeros((fine.shape[0], 1)), np.cumsum(fine, axis=1)], axis=1)
    last = fine.shape[1] - 1
    total = np.zeros((fine.shape[0], periods.size))
    weight = np.zeros(periods.size)
    for tooth in range(1, teeth + 1):
        lag = tooth * periods
        inside = lag <= max_lag
        if not inside.any():
            break
        w = np.where(inside, 1 - lag / n_points, 0.0)
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


def scan(acf: NDArray[np.floating], n_points: int) -> Comb:
    """Comb scores over every candidate that the autocorrelation can carry."""
    max_lag = acf.shape[1] - 1
    periods = candidate_grid(max_lag, SHORTEST_POINTS, LONGEST_SHARE * max_lag)
    return Comb(periods, comb_score(acf, periods, n_points))
