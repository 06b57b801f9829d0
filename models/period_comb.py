"""How well each candidate period explains an autocorrelation: the comb score."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from models.period_acf import LANCZOS_A, upsample_acf

UPSAMPLE = 8
"""Points per lag of the interpolated autocorrelation."""
SHORTEST_POINTS = 2.2
"""Shortest candidate; below two points nothing can be seen at all."""
COMB_TEETH = 16
"""Multiples of the period that are looked at."""
CHUNK_VALUES = 1 << 16
"""Values of the autocorrelation read at once."""
MEMORY_TEETH = 5.0
"""A tooth this far out weighs 1/e: checkpoints and drift shift the rhythm, so that far multiples of a good period fade."""


def candidate_grid(max_lag: int, shortest: float, longest: float) -> NDArray[np.float64]:
    """Candidate periods in points: a step moves the last tooth of the comb by a quarter of a point."""
    step = 0.25 / max_lag
    if longest <= shortest:
        return np.empty(0)
    return np.exp(np.arange(np.log(shortest), np.log(longest) + step, step))


@dataclass(frozen=True, slots=True, eq=False)
class FineAcf:
    """Autocorrelation read between the lags.

    Args:
        coarse: (n_rows, max_lag + 1) as measured.
        fine: (n_rows, max_lag * UPSAMPLE + 1) interpolated.
        sums: (n_rows, max_lag * UPSAMPLE + 2) running sums of ``fine``, from 0.
    """

    coarse: NDArray[np.floating]
    fine: NDArray[np.float64]
    sums: NDArray[np.float64]

    @classmethod
    def of(cls, acf: NDArray[np.floating]) -> FineAcf:
        """From what ``acf_batch`` gives."""
        fine = upsample_acf(acf, UPSAMPLE)
        sums = np.zeros((fine.shape[0], fine.shape[1] + 1))
        np.cumsum(fine, axis=1, out=sums[:, 1:])
        return cls(acf, fine, sums)

    @property
    def max_lag(self) -> int:
        """The greatest lag in points."""
        return int(self.coarse.shape[1]) - 1

    def rows(self, who: NDArray[np.bool_]) -> FineAcf:
        """Some rows only."""
        return FineAcf(self.coarse[who], self.fine[who], self.sums[who])

    def pooled(self) -> FineAcf:
        """One row: the mean of all. Interpolation is linear in the rows."""
        return FineAcf(
            self.coarse.mean(axis=0, keepdims=True),
            self.fine.mean(axis=0, keepdims=True),
            self.sums.mean(axis=0, keepdims=True),
        )


def comb_score(
    acf: FineAcf, periods: NDArray[np.float64], n_points: int, memory: float = MEMORY_TEETH
) -> NDArray[np.float64]:
    """Share of each row's variance that repeats with each candidate period.

    It is the mean of the autocorrelation at the candidate's multiples, less its mean over whole periods around them, so
    that a slow drift scores 0.

    Args:
        acf: of the rows.
        periods: (n_candidates,) in points, each at most the greatest lag.
        n_points: length of the series, which gives each tooth its weight: the pairs it averages.
        memory: teeth after which the weight has fallen to 1/e; a greater memory tells the period more finely.

    Returns:
        (n_rows, n_candidates); at most 1, about 0 where nothing repeats.
    """
    fine, sums, last = acf.fine, acf.sums, acf.fine.shape[1] - 1
    if not periods.size:
        return np.zeros((fine.shape[0], 0))
    tooth = _teeth(periods, acf.max_lag)
    lag = tooth * periods
    weight = tooth_weight(tooth, lag, lag <= acf.max_lag, n_points, memory)
    position = np.minimum(lag * UPSAMPLE, last)
    left = np.minimum(position.astype(np.intp), last - 1)
    lo = np.minimum(np.rint((tooth - 0.5) * periods * UPSAMPLE).astype(np.intp), last)
    hi = np.clip(np.rint((tooth + 0.5) * periods * UPSAMPLE).astype(np.intp), 1, last + 1)
    weight /= np.maximum(weight.sum(axis=0), 1e-9)
    right_part = weight * (position - left)
    around = weight / np.maximum(hi - lo, 1)
    out = np.empty((fine.shape[0], periods.size))
    # A chunk of rows, all candidates and teeth at once, stays in the processor's cache.
    chunk = max(1, CHUNK_VALUES // lag.size)
    for start in range(0, fine.shape[0], chunk):
        f, c = fine[start : start + chunk], sums[start : start + chunk]
        value = f[:, left] * (weight - right_part)
        value += f[:, left + 1] * right_part
        value -= (c[:, hi] - c[:, lo]) * around
        value.sum(axis=1, out=out[start : start + chunk])
    return out


def _teeth(periods: NDArray[np.float64], max_lag: int) -> NDArray[np.float64]:
    """(n_teeth, 1) numbers of the teeth that lie inside the greatest lag for the shortest candidate."""
    most = min(COMB_TEETH, max(1, int(max_lag / float(periods.min()))))
    return np.arange(1.0, most + 1.0)[:, None]


def tooth_weight(
    tooth: NDArray[np.float64], lag: NDArray[np.float64], inside: NDArray[np.bool_], n_points: int, memory: float
) -> NDArray[np.float64]:
    """(n_teeth, n_candidates) weight of each tooth: the share of pairs that it averages, fading with distance."""
    return np.asarray(np.where(inside, (1 - lag / n_points) * np.exp(-(tooth - 1) / memory), 0.0))


def grid_loss(
    periods: NDArray[np.float64], max_lag: int, n_points: int, memory: float = MEMORY_TEETH
) -> NDArray[np.float64]:
    """Share of a comb score (n_candidates,) that a burst one point wide keeps when its teeth fall between the lags.

    The autocorrelation of such a burst is a triangle two lags wide; sampled at whole lags and interpolated, a tooth that
    falls between two of them reads too low. Periods of a few points at an awkward fraction lose up to two fifths.
    """
    offset, kept = _kept_between_lags()
    tooth = _teeth(periods, max_lag)
    lag = tooth * periods
    weight = tooth_weight(tooth, lag, lag <= max_lag, n_points, memory)
    total = (weight * np.interp(np.abs(lag - np.rint(lag)), offset, kept)).sum(axis=0)
    sum_of_weights = weight.sum(axis=0)
    return np.asarray(np.where(sum_of_weights > 0, total / np.maximum(sum_of_weights, 1e-9), 1.0))


@lru_cache(maxsize=1)
def _kept_between_lags() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Offsets from a whole lag, 0 to a half, and what interpolation keeps of a triangle's tip there."""
    offset = np.linspace(0, 0.5, 11)
    tip = LANCZOS_A + 3
    lags = np.arange(2 * LANCZOS_A + 7)
    tents = np.maximum(0.0, 1 - np.abs(lags[None, :] - tip - offset[:, None]))
    fine = upsample_acf(tents, UPSAMPLE)
    grid = np.arange(fine.shape[1])
    return offset, np.array([np.interp((tip + o) * UPSAMPLE, grid, row) for o, row in zip(offset, fine, strict=True)])
