"""How each way of foreseeing a link did on the link's own recent past, and which one is therefore served.

Scoring is honest to time: weights, periods and climatology of a past origin come from points before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

MAX_ORIGINS = 12
SCORED_SHARE = 1 / 3
"""Origins lie in this last share of the window."""
HALF_ORIGINS = 2.0
"""An origin that many places older counts half: a job that was moved or changed is judged by what it does now."""
MIN_SCORED = 12
"""Fewer scored (origin, step) pairs prove nothing."""
MIN_CROSSINGS = 3
"""Fewer crossings than this tell no way from another: the use is scored instead, of which every sample tells."""
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
        on_use: True where too few crossings were seen, so that the use itself was scored instead of them.
        crossings: how many were seen.
        use_loss: quantile loss of the use, to be compared with another way's on the same link.
        coverage80: share of true uses inside the 80 % interval.
        coverage95: share inside the 95 % interval.
        scored: how many (origin, step) pairs.
    """

    skill: FloatArray
    on_use: NDArray[np.bool_]
    crossings: NDArray[np.int64]
    use_loss: FloatArray
    coverage80: FloatArray
    coverage95: FloatArray
    scored: NDArray[np.int64]


def origins(n_points: int, horizon: int) -> list[int]:
    """Columns at which past forecasts are made, oldest first."""
    first = max(2, int(np.ceil(n_points * (1 - SCORED_SHARE))))
    # The newest origins are scored on their near steps only; at least one step must be known.
    last = n_points - max(1, min(horizon, (n_points - first) // 6))
    if last < first:
        return []
    return sorted({int(c) for c in np.linspace(first, last, MAX_ORIGINS)})


def chance_by(scenarios: FloatArray, threshold: float, usual: FloatArray) -> FloatArray:
    """Chance of a crossing at or before each step, (n_links, horizon): scenarios counted, drawn to what is usual.

    ``usual`` is (n_links, horizon), from ``usual_by``.
    """
    crossed = np.logical_or.accumulate(scenarios > threshold, axis=2)
    n = scenarios.shape[1]
    return np.asarray((crossed.sum(axis=1) + PRIOR * usual) / (n + PRIOR), np.float64)


def recent(values: FloatArray, horizon: int) -> FloatArray:
    """The columns that climatology rests on."""
    return values[:, -CLIMATE_HORIZONS * max(horizon, MIN_SCORED) :]


def usual_above(use: FloatArray, threshold: float) -> FloatArray:
    """Share of observed samples above the threshold, (n_links,); 0.5 pseudo-counts each way."""
    seen = np.isfinite(use)
    return np.asarray(((seen & (use > threshold)).sum(axis=1) + 0.5) / (seen.sum(axis=1) + 1.0), np.float64)


def score(
    use: FloatArray, filled: FloatArray, ways: Sequence[Scenarios], threshold: float, horizon: int
) -> list[Score]:
    """Skill of each way against climatology in foreseeing when a link next crosses; in its use where it hardly ever did.

    The first is the ranked probability score of the time until the next crossing (Epstein, J. Appl. Meteorol. 8,
    1969): the squared error of the chance of a crossing by each step, summed over the steps. The second is the
    quantile loss of the use.

    Args:
        use: (n_links, n_points) NaN where missing.
        filled: the same without missing points, for quantiles of the past.
        ways: what to score.
        threshold: use that counts as congested.
        horizon: steps ahead.
    """
    n_links, n_points = use.shape
    sums = [_Sums(n_links) for _ in ways]
    base, base_use, scored = (np.zeros(n_links) for _ in range(3))
    columns = origins(n_points, horizon)
    for age, column in zip(range(len(columns) - 1, -1, -1), columns, strict=True):
        truth = use[:, column : column + horizon]
        seen = np.isfinite(truth)
        steps = truth.shape[1]
        lately = 0.5 ** (age / HALF_ORIGINS) / steps
        usual = usual_by(recent(use[:, :column], horizon), threshold, steps)
        hit = np.logical_or.accumulate(truth > threshold, axis=1)
        base += lately * _sum((usual - hit) ** 2, seen)
        base_use += lately * _sum(_pinball(truth, _levels(recent(filled[:, :column], horizon))), seen)
        scored += seen.sum(axis=1)
        for way, mine in zip(ways, sums, strict=True):
            ahead = way(column, horizon)[:, :, :steps]
            mine.crossing += lately * _sum((chance_by(ahead, threshold, usual) - hit) ** 2, seen)
            quantiles = _levels(ahead)
            mine.use += lately * _sum(_pinball(truth, quantiles), seen)
            mine.inside80 += _sum((truth >= quantiles[1]) & (truth <= quantiles[3]), seen)
            mine.inside95 += _sum((truth >= quantiles[0]) & (truth <= quantiles[4]), seen)
    crossings = _crossings(recent(use, horizon), threshold)
    return [_as_score(mine, base, base_use, scored, crossings) for mine in sums]


class _Sums:
    """Losses of one way, summed over origins and steps, each (n_links,)."""

    def __init__(self, n_links: int) -> None:
        self.crossing, self.use, self.inside80, self.inside95 = (np.zeros(n_links) for _ in range(4))


def _as_score(
    mine: _Sums, base: FloatArray, base_use: FloatArray, scored: FloatArray, crossings: NDArray[np.int64]
) -> Score:
    enough = scored >= MIN_SCORED
    on_use = crossings < MIN_CROSSINGS
    loss, against = np.where(on_use, mine.use, mine.crossing), np.where(on_use, base_use, base)
    usable = enough & (against > 1e-12)
    count = np.maximum(scored, 1.0)
    return Score(
        skill=np.where(usable, 1.0 - loss / np.where(usable, against, 1.0), np.nan),
        on_use=on_use,
        crossings=crossings,
        use_loss=mine.use,
        coverage80=np.where(enough, mine.inside80 / count, np.nan),
        coverage95=np.where(enough, mine.inside95 / count, np.nan),
        scored=scored.astype(np.int64),
    )


def _levels(values: FloatArray) -> FloatArray:
    """Quantiles at ``LEVELS`` along axis 1, (n_levels, n_links, steps); one step where ``values`` has two axes.

    By sorting: over a few dozen scenarios that is several times faster than selecting.
    """
    ranked = np.sort(values if values.ndim == 3 else values[:, :, None], axis=1)
    place = np.asarray(LEVELS) * (ranked.shape[1] - 1)
    low = place.astype(np.intp)
    high = np.minimum(low + 1, ranked.shape[1] - 1)
    part = (place - low)[:, None]
    found = (1.0 - part) * ranked[:, low] + part * ranked[:, high]
    return np.moveaxis(found, 1, 0)


def _crossings(use: FloatArray, threshold: float) -> NDArray[np.int64]:
    """How often each link rose above the threshold."""
    above = np.pad(np.asarray(use > threshold, np.bool_), ((0, 0), (1, 0)))
    return np.asarray((above[:, 1:] & ~above[:, :-1]).sum(axis=1), np.int64)


def _sum(values: NDArray[np.generic], seen: NDArray[np.bool_]) -> FloatArray:
    return np.asarray(np.where(seen, values, 0).sum(axis=1), np.float64)


def _pinball(truth: FloatArray, quantiles: FloatArray) -> FloatArray:
    """Quantile loss summed over ``LEVELS``, (n_links, horizon)."""
    level = np.asarray(LEVELS)[:, None, None]
    error = truth[None] - quantiles
    return np.asarray(np.maximum(level * error, (level - 1.0) * error).sum(axis=0))


def persistence_scenarios(filled: FloatArray, column: int, horizon: int) -> FloatArray:
    """The last use plus what followed after earlier moments, (n_links, n_scenarios, horizon).

    Never below 0 nor above what was seen: that a link stays as it is foretells nothing that it never was.
    """
    past = filled[:, :column]
    starts = np.unique(np.linspace(0, max(0, column - horizon - 1), RESIDUALS).astype(np.intp))
    place = np.minimum(starts[:, None] + np.arange(1, horizon + 1)[None, :], column - 1)
    moves = past[:, place] - past[:, starts][:, :, None]
    most = past.max(axis=1)[:, None, None]
    return np.asarray(np.clip(past[:, -1][:, None, None] + moves, 0.0, most), np.float64)


def usual_by(use: FloatArray, threshold: float, horizon: int) -> FloatArray:
    """Climatology's chance of a crossing at or before each step, (n_links, horizon).

    The share of past moments after which a crossing came that soon, among those whose next so many samples are known.
    """
    n_links, n_points = use.shape
    above = np.asarray(use > threshold, np.bool_)
    never = n_points + horizon
    at = np.where(above, np.arange(n_points), never)
    following = np.minimum.accumulate(at[:, ::-1], axis=1)[:, ::-1]
    # A moment counts as a crossing by h for all h from its wait on, as long as h samples after it are known.
    moment = np.arange(n_points - 1)
    wait = np.minimum(following[:, 1:] - moment, horizon + 1)
    known = n_points - 1 - moment
    change = np.zeros((n_links, horizon + 2))
    row = np.broadcast_to(np.arange(n_links)[:, None], wait.shape)
    met = wait <= np.minimum(known, horizon)
    np.add.at(change, (row[met], wait[met]), 1.0)
    np.add.at(change, (row[met], np.minimum(np.broadcast_to(known + 1, wait.shape)[met], horizon + 1)), -1.0)
    step = np.arange(1, horizon + 1)
    share = np.cumsum(change, axis=1)[:, 1 : horizon + 1] / np.maximum(1, n_points - step)
    # Overlapping stretches are not independent: about n of them are.
    n = n_points / step
    return np.asarray((share * n + 0.5 * usual_above(use, threshold)[:, None]) / (n + 0.5), np.float64)


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
