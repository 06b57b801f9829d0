"""Scores of quantile forecasts: pinball loss, quantile loss, coverage, and their bootstrap intervals."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from models.base import LEVELS
from models.quantiles import LEVEL_ARRAY, Floats

DECILES = slice(1, 10)
"""Where .1 to .9 lie in ``LEVELS``; WQL rests on these."""
LOW80, HIGH80 = LEVELS.index(0.1), LEVELS.index(0.9)
LOW95, HIGH95 = LEVELS.index(0.025), LEVELS.index(0.975)


def pinball(cube: Floats, truth: Floats, levels: Floats = LEVEL_ARRAY) -> Floats:
    """Pinball loss (..., n_levels) of quantiles (..., n_levels) against truths (...); NaN where the truth is NaN."""
    error = truth[..., None] - cube
    return np.maximum(levels * error, (levels - 1.0) * error)


def quantile_loss(cube: Floats, truth: Floats) -> Floats:
    """Twice the mean pinball loss over .1 to .9: an approximation of the CRPS, in the unit of the data. (...)."""
    result: Floats = 2.0 * pinball(cube[..., DECILES], truth, LEVEL_ARRAY[DECILES]).mean(axis=-1)
    return result


def inside(cube: Floats, truth: Floats, low: int, high: int) -> Floats:
    """1 where the truth lies inside [level low, level high], else 0; NaN where the truth is missing."""
    # An interval of width 0 on a constant series covers the constant, up to rounding.
    slack = 1e-9 * np.maximum(1.0, np.abs(truth))
    hit = (truth >= cube[..., low] - slack) & (truth <= cube[..., high] + slack)
    result: Floats = np.where(np.isfinite(truth), hit.astype(np.float64), np.nan)
    return result


def geometric_mean(ratio: Floats) -> float:
    """Geometric mean of positive ratios, NaN left out; a ratio of 0 counts as 1e-3 so that it cannot decide alone."""
    known = ratio[np.isfinite(ratio)]
    return float(np.exp(np.log(np.maximum(known, 1e-3)).mean())) if known.size else float("nan")


def bootstrap_interval(
    rows: Floats,
    statistic: Callable[[Floats], float],
    *,
    blocks: NDArray[np.intp] | None = None,
    draws: int = 300,
    seed: int = 0,
) -> tuple[float, float]:
    """95 % interval of ``statistic`` when whole series (or whole blocks of them) are drawn with replacement.

    Args:
        rows: (n_series, ...) what the statistic rests on, a row per series.
        statistic: from drawn rows to one number.
        blocks: (n_series,) series with the same number are drawn together; None draws series one by one.
        draws: how many resamples.
        seed: of the draws.
    """
    if rows.shape[0] == 0:
        return float("nan"), float("nan")
    labels = np.arange(rows.shape[0]) if blocks is None else np.unique(blocks, return_inverse=True)[1]
    members = [np.flatnonzero(labels == label) for label in range(int(labels.max()) + 1)]
    random = np.random.default_rng(seed)
    results = np.empty(draws)
    for draw in range(draws):
        chosen = random.integers(0, len(members), len(members))
        results[draw] = statistic(rows[np.concatenate([members[c] for c in chosen])])
    known = results[np.isfinite(results)]
    if known.size == 0:
        return float("nan"), float("nan")
    return float(np.quantile(known, 0.025)), float(np.quantile(known, 0.975))
