"""How each way of foreseeing a link did on the link's own recent past, and which one is therefore served.

Scoring is honest to time: weights, periods and climatology of a past origin come from points before it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forecast.predict.ensembles import crossing

FloatArray = NDArray[np.float64]

MAX_ORIGINS = 12
SCORED_SHARE = 1 / 3
"""Origins lie in this last share of the window."""
MIN_SCORED = 12
"""Fewer scored (origin, step) pairs prove nothing."""
PRIOR = 1.0
"""Climatology counts as this many scenarios in every chance, so that no chance is 0 or 1 by luck."""
CLIMATE_HORIZONS = 5
"""Climatology looks back over this many horizons, so that a relieved link is soon no longer called hot."""
LEVELS = (0.025, 0.1, 0.5, 0.9, 0.975)

RESIDUALS = 32
"""Earlier moments whose moves stand for persistence's error."""
CLIMATOLOGY = "climatology"
PERSISTENCE = "persistence"

Scenarios = Callable[[int, int], FloatArray]
"""(column of the origin, horizon) -> scenarios (n_links, n_scenarios, horizon) from points before the column."""


@dataclass(frozen=True, slots=True, eq=False)
class Score:
    """How one way did, per link; every array is (n_links,).

    Args:
        skill: 1 - loss / loss of climatology; NaN where nothing could be scored.
        on_use: True where no crossing was seen, so that the use itself was scored instead of its crossing.
        use_loss: quantile loss of the use, to be compared with another way's on the same link.
        coverage80: share of true uses inside the 80 % interval.
        coverage95: share inside the 95 % interval.
        scored: how many (origin, step) pairs.
    """

    skill: FloatArray
    on_use: NDArray[np.bool_]
    use_loss: FloatArray
    coverage80: FloatArray
    coverage95: FloatArray
    scored: NDArray[np.int64]


def origins(n_points: int, horizon: int) -> list[int]:
    """Columns at which past forecasts are made, oldest first."""
    first = max(2, int(np.ceil(n_points * (1 - SCORED_SHARE))))
    # The newest origins are scored on their near steps only; at least one step must be known.
    last = n_points - max(1, min(horizon, (n_points - first) // 2))
    if last < first:
        return []
    return sorted({int(c) for c in np.linspace(first, last, MAX_ORIGINS)})


def chance(scenarios: FloatArray, threshold: float, usual: FloatArray) -> FloatArray:
    """Chance above ``threshold`` per step (n_links, horizon): scenarios counted, drawn to what is usual."""
    above, _, _ = crossing(scenarios, threshold)
    n = scenarios.shape[1]
    return np.asarray((above * n + PRIOR * usual[:, None]) / (n + PRIOR), np.float64)


def recent(values: FloatArray, horizon: int) -> FloatArray:
    """The columns that climatology rests on."""
    return values[:, -CLIMATE_HORIZONS * max(horizon, MIN_SCORED) :]


def usual_above(use: FloatArray, threshold: float) -> FloatArray:
    """Share of observed samples above the threshold, (n_links,); 0.5 pseudo-counts each way."""
    seen = np.isfinite(use)
    return np.asarray(((seen & (use > threshold)).sum(axis=1) + 0.5) / (seen.sum(axis=1) + 1.0), np.float64)


def score(use: FloatArray, filled: FloatArray, scenarios: Scenarios, threshold: float, horizon: int) -> Score:
    """Brier skill of crossing chances against climatology; skill on use where the link never crossed.

    Args:
        use: (n_links, n_points) NaN where missing.
        filled: the same without missing points, for quantiles of the past.
        scenarios: the way to score.
        threshold: use that counts as congested.
        horizon: steps ahead.
    """
    n_links, n_points = use.shape
    own, base, own_use, base_use = (np.zeros(n_links) for _ in range(4))
    inside80, inside95, scored, events = (np.zeros(n_links) for _ in range(4))
    for column in origins(n_points, horizon):
        truth = use[:, column : column + horizon]
        seen = np.isfinite(truth)
        steps = truth.shape[1]
        past = recent(use[:, :column], horizon)
        ahead = scenarios(column, horizon)[:, :, :steps]
        usual = usual_above(past, threshold)
        hit = truth > threshold
        own += _sum((chance(ahead, threshold, usual) - hit) ** 2, seen)
        base += _sum((usual[:, None] - hit) ** 2, seen)
        quantiles = np.quantile(ahead, LEVELS, axis=1)
        plain = np.quantile(recent(filled[:, :column], horizon), LEVELS, axis=1)[:, :, None] * np.ones((1, 1, steps))
        own_use += _sum(_pinball(truth, quantiles), seen)
        base_use += _sum(_pinball(truth, plain), seen)
        inside80 += _sum((truth >= quantiles[1]) & (truth <= quantiles[3]), seen)
        inside95 += _sum((truth >= quantiles[0]) & (truth <= quantiles[4]), seen)
        events += _sum(hit, seen)
        scored += seen.sum(axis=1)
    return _as_score(own, base, own_use, base_use, inside80, inside95, scored, events)


def _as_score(
    own: FloatArray,
    base: FloatArray,
    own_use: FloatArray,
    base_use: FloatArray,
    inside80: FloatArray,
    inside95: FloatArray,
    scored: FloatArray,
    events: FloatArray,
) -> Score:
    enough = scored >= MIN_SCORED
    on_use = events == 0
    loss, against = np.where(on_use, own_use, own), np.where(on_use, base_use, base)
    usable = enough & (against > 1e-12)
    skill = np.where(usable, 1.0 - loss / np.where(usable, against, 1.0), np.nan)
    count = np.maximum(scored, 1.0)
    return Score(
        skill,
        on_use,
        own_use,
        np.where(enough, inside80 / count, np.nan),
        np.where(enough, inside95 / count, np.nan),
        scored.astype(np.int64),
    )


def _sum(values: NDArray[np.generic], seen: NDArray[np.bool_]) -> FloatArray:
    return np.asarray(np.where(seen, values, 0).sum(axis=1), np.float64)


def _pinball(truth: FloatArray, quantiles: FloatArray) -> FloatArray:
    """Quantile loss summed over ``LEVELS``, (n_links, horizon)."""
    level = np.asarray(LEVELS)[:, None, None]
    error = truth[None] - quantiles
    return np.asarray(np.maximum(level * error, (level - 1.0) * error).sum(axis=0))


def persistence_scenarios(filled: FloatArray, column: int, horizon: int) -> FloatArray:
    """The last use plus what followed after earlier moments, (n_links, n_scenarios, horizon), never below 0."""
    past = filled[:, :column]
    starts = np.unique(np.linspace(0, max(0, column - horizon - 1), RESIDUALS).astype(np.intp))
    place = np.minimum(starts[:, None] + np.arange(1, horizon + 1)[None, :], column - 1)
    moves = past[:, place] - past[:, starts][:, :, None]
    return np.asarray(np.maximum(past[:, -1][:, None, None] + moves, 0.0), np.float64)


def usual_ever(use: FloatArray, threshold: float, horizon: int) -> tuple[FloatArray, FloatArray]:
    """Over the recent windows of ``horizon`` samples: share with a sample above, and mean samples above, (n_links,)."""
    use = recent(use, horizon)
    n_points = use.shape[1]
    horizon = min(horizon, n_points)
    hits = np.cumsum(np.pad((use > threshold).astype(np.float64), ((0, 0), (1, 0))), axis=1)
    windows = hits[:, horizon:] - hits[:, :-horizon]
    n = windows.shape[1] / horizon
    ever = (windows > 0).mean(axis=1)
    # Overlapping windows are not independent: about n of them are.
    return (ever * n + 0.5 * usual_above(use, threshold)) / (n + 0.5), windows.mean(axis=1)
