"""Demand for GPUs ahead: how it will differ from now, by the way that has done best lately; persistence unless beaten.

A series of demand (GPUs or nodes in use) is walked through once. For each moment and each lead every candidate says how
far demand will move, from the past of that moment only:

- ``week``, ``days``: as it moved at this time of the week, or of the last three days and of a week ago;
- ``day_level``, ``days_level``: back towards the mean of the last day, or of the last three;
- ``queue``: what waits and fits moves in;
- ``fit``: a robust ridge regression on the above and on recent moves and extremes, fitted once a day on all before.

Once a day it is decided whether half the move of one of the last three is served: of the one that saved most of
persistence's absolute error over the past days, if it did so by two standard errors, judged by whole days of which none
counts for more than half; else nothing moves. The interval comes from the errors of what was served, at the same lead.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.base import LEVELS
from models.demand_moves import CANDIDATES, candidate_moves
from models.quantiles import fill_forward

Floats = NDArray[np.float64]
TRIED: tuple[str, ...] = ("day_level", "days_level", "fit")
"""Candidates that may be served; few, so that none wins by luck. The others serve ``fit`` as features."""
SHARE = 0.5
"""Share of a candidate's move that is served: half the way costs little where it is wrong."""
LEAST_DAYS = 10
"""Whole days of scored forecasts before anything but persistence is served."""
JUDGED_DAYS = 60
"""Days of past forecasts that a candidate is judged by."""
MARGIN = 2.0
"""Standard errors by which it must beat persistence."""
DAY_LIMIT = 0.5
"""Most that a single day counts, as a share of persistence's error that day: an outage must not decide."""
LEAST_ERRORS = 48
"""Past errors of a lead before there is an interval of its own."""
KEPT_ERRORS_DAYS = 28
"""Days of past errors that an interval rests on."""


@dataclass(frozen=True, slots=True, eq=False)
class DemandSeries:
    """Demand on a regular grid, oldest first.

    Args:
        at_s: Unix seconds of the first point.
        step_s: spacing, seconds.
        used: (n,) GPUs or nodes in use; NaN where unknown.
        waiting: (n,) GPUs asked for by jobs that wait; zeros when unknown.
        total: (n,) how many there are.
    """

    at_s: float
    step_s: float
    used: Floats
    waiting: Floats
    total: Floats

    @property
    def per_day(self) -> int:
        """Points a day."""
        return max(1, round(86400.0 / self.step_s))


@dataclass(frozen=True, slots=True, eq=False)
class DemandWalk:
    """What would have been said at each moment of a series, for one lead.

    Args:
        lead: steps ahead.
        candidates: (n, n_candidates) moves.
        moves: (n,) the move served.
        chosen: (n,) index into ``CANDIDATES`` of what was served; -1 for persistence.
        quantiles: (n, n_levels) of demand ``lead`` steps later.
    """

    lead: int
    candidates: Floats
    moves: Floats
    chosen: NDArray[np.int64]
    quantiles: Floats


def walk_demand(series: DemandSeries, lead: int) -> DemandWalk:
    """Forecasts of a series at every moment, each from what was known at that moment.

    Args:
        series: at least one known point.
        lead: steps ahead, at least 1.
    """
    used = _filled(series.used)
    filled = DemandSeries(series.at_s, series.step_s, used, np.nan_to_num(series.waiting), _filled(series.total))
    candidates = candidate_moves(filled, lead)
    truth = np.full(used.size, np.nan)
    truth[:-lead] = series.used[lead:] - used[:-lead] if lead < used.size else np.nan
    moves, chosen = _choose(candidates, truth, lead, series.per_day)
    offsets = _error_quantiles(truth - moves, lead, series.per_day)
    values = (used + moves)[:, None] + offsets
    quantiles = np.clip(np.sort(values, axis=1), 0.0, np.maximum(filled.total, used)[:, None])
    return DemandWalk(lead, candidates, moves, chosen, quantiles)


def _filled(values: Floats) -> Floats:
    """Each gap takes the value before it; one at the start the first known; zeros when nothing is known."""
    filled: Floats = np.nan_to_num(fill_forward(values[None])[0])
    return filled


def _choose(candidates: Floats, truth: Floats, lead: int, per_day: int) -> tuple[Floats, NDArray[np.int64]]:
    """The served move (n,) and whose it is, decided once a day on the days whose truth was known by then."""
    n = truth.size
    index = [CANDIDATES.index(name) for name in TRIED]
    tried = SHARE * candidates[:, index]
    saved = _by_day(np.abs(truth)[:, None] - np.abs(truth[:, None] - tried), per_day)
    plain = _by_day(np.abs(truth)[:, None], per_day)
    relative = np.where(plain > 0, saved / np.where(plain > 0, plain, 1.0), 0.0 * plain)
    relative = np.clip(relative, -DAY_LIMIT, DAY_LIMIT)
    late = -(-lead // per_day)
    moves, chosen = np.zeros(n), np.full(n, -1, np.int64)
    for day in range(LEAST_DAYS + late, relative.shape[0]):
        past = relative[max(0, day - late - JUDGED_DAYS) : day - late]
        past = past[np.isfinite(past).all(axis=1)]
        if past.shape[0] < LEAST_DAYS:
            continue
        sure = past.mean(axis=0) - MARGIN * past.std(axis=0, ddof=1) / np.sqrt(past.shape[0])
        best = int(np.argmax(sure))
        if sure[best] > 0:
            today = slice(day * per_day, min((day + 1) * per_day, n))
            moves[today] = tried[today, best]
            chosen[today] = index[best]
    return moves, chosen


def _by_day(values: Floats, per_day: int) -> Floats:
    """(n, k) -> (n_days, k) mean of each day, NaN left out; NaN for a day without any."""
    n, k = values.shape
    days = -(-n // per_day)
    padded = np.full((days * per_day, k), np.nan)
    padded[:n] = values
    cube = padded.reshape(days, per_day, k)
    count = np.isfinite(cube).sum(axis=1)
    total = np.where(np.isfinite(cube), cube, 0.0).sum(axis=1)
    result: Floats = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    return result


def _error_quantiles(error: Floats, lead: int, per_day: int) -> Floats:
    """(n, n_levels) quantiles of the errors known at each moment, renewed four times a day; zeros while too few."""
    n = error.size
    result = np.zeros((n, len(LEVELS)))
    block = max(1, per_day // 4)
    for first in range(0, n, block):
        known = error[max(0, first - lead - KEPT_ERRORS_DAYS * per_day) : max(0, first - lead + 1)]
        known = known[np.isfinite(known)]
        if known.size >= LEAST_ERRORS:
            result[first : first + block] = np.quantile(known, LEVELS)
    return result
