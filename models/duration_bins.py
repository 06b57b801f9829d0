"""How long something lasts, as a histogram over logarithmic bins: from a second to half a year, four bins an octave.

Durations of jobs spread over five powers of ten, and being wrong by a factor matters more than by a minute. Between the
edges of a bin the distribution is uniform in the logarithm. Everything here is a pure function of arrays.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
PER_OCTAVE = 4
OCTAVES = 24
"""2^24 s are 194 days."""
N_BINS = PER_OCTAVE * OCTAVES
FAR = 1e-3
"""Share of every distribution spread evenly over all bins: nothing is impossible, and a job older than all history
still has a future (one that grows with its age)."""
EDGES_LOG2: Floats = np.arange(N_BINS + 1) / PER_OCTAVE
_STEP = np.arange(N_BINS)
KERNEL: Floats = np.exp(-0.5 * (_STEP[:, None] - _STEP[None]) ** 2)
KERNEL /= KERNEL.sum(axis=1, keepdims=True)
"""(n_bins, n_bins) what one duration says about its neighbours: a bell one bin (a quarter octave) wide."""
PLATEAU = 0.005
"""Share of the greatest chance that may be given up to lie nearer to the median."""
_REACH: Floats = np.exp2(np.arange(0, OCTAVES, 0.125))
"""Candidates for a remaining time, seconds."""


def bin_of(duration_s: Floats | float) -> NDArray[np.intp]:
    """Number of the bin that a duration falls in; shorter than a second counts as a second."""
    log2 = np.log2(np.maximum(duration_s, 1.0))
    result: NDArray[np.intp] = np.minimum((log2 * PER_OCTAVE).astype(np.intp), N_BINS - 1)
    return result


def cumulated(histogram: Floats) -> Floats:
    """(..., n_bins) weights of any scale -> (..., n_bins + 1) distribution function at the bins' edges."""
    total = histogram.sum(axis=-1, keepdims=True)
    share = np.where(total > 0, histogram / np.where(total > 0, total, 1.0), 1.0 / N_BINS)
    steps = np.cumsum((1.0 - FAR) * share + FAR / N_BINS, axis=-1)
    result: Floats = np.concatenate([np.zeros_like(steps[..., :1]), steps / steps[..., -1:]], axis=-1)
    return result


def chance_below(cdf: Floats, duration_s: Floats | float) -> Floats:
    """Chance that a duration is at most so long; ``cdf`` (n_bins + 1,), any shape of durations."""
    result: Floats = np.interp(np.log2(np.maximum(duration_s, 1.0)), EDGES_LOG2, cdf)
    return result


def durations_at(cdf: Floats, level: Floats | float) -> Floats:
    """The duration, seconds, at which a distribution function (n_bins + 1,) passes each level."""
    result: Floats = np.exp2(np.interp(level, cdf, EDGES_LOG2))
    return result


def remaining_at(cdf: Floats, age_s: float, level: Floats | float) -> Floats:
    """Seconds still to go at each level, given that the job has lasted ``age_s``."""
    before = float(chance_below(cdf, age_s)) if age_s > 0 else 0.0
    total = durations_at(cdf, before + np.asarray(level) * (1.0 - before))
    result: Floats = np.maximum(total - age_s, 0.0)
    return result


def likeliest_remaining(cdf: Floats, age_s: float = 0.0) -> float:
    """The remaining time that has most chance within a factor of two of it, seconds.

    The median minimises the error in the logarithm; this point maximises how often one is right within a factor of two.
    The factor is taken a little narrower and a little wider and averaged, so that the bins' edges do not decide.
    """
    mass = np.zeros(_REACH.size)
    for factor in (2.0**0.9, 2.0**1.1):
        mass += chance_below(cdf, age_s + factor * _REACH) - chance_below(cdf, age_s + _REACH / factor)
    near = np.flatnonzero(mass >= (1.0 - PLATEAU) * float(mass.max()))
    # Where many are nearly as good, a narrow distribution for one, the one nearest to the median.
    middle = float(remaining_at(cdf, age_s, 0.5))
    return float(_REACH[near[np.argmin(np.abs(np.log2(_REACH[near] / max(middle, 1.0))))]])


def cut_at(histogram: Floats, limit_s: float | None) -> Floats:
    """The histogram when nothing outlasts ``limit_s``: what would, ends there. None or infinite: unchanged."""
    if limit_s is None or not np.isfinite(limit_s) or limit_s <= 0:
        return histogram
    last = int(bin_of(limit_s))
    result = histogram.copy()
    result[..., last] += result[..., last + 1 :].sum(axis=-1)
    result[..., last + 1 :] = 0.0
    return result


def bell_at(duration_s: float, octaves: float) -> Floats:
    """(n_bins,) a bell in the logarithm about one duration, ``octaves`` wide (one standard deviation)."""
    middle = EDGES_LOG2[:-1] + 0.5 / PER_OCTAVE
    width = max(octaves, 0.5 / PER_OCTAVE)
    bell: Floats = np.exp(-0.5 * ((middle - np.log2(max(duration_s, 1.0))) / width) ** 2)
    total = bell.sum()
    result: Floats = bell / total if total > 0 else np.asarray(KERNEL[bin_of(duration_s)], np.float64)
    return result
