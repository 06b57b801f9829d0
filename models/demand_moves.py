"""How far demand may move until a lead, in several ways, at every moment of a series, from its past only."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from models.demand import DemandSeries

Floats = NDArray[np.float64]
CANDIDATES: tuple[str, ...] = ("week", "days", "day_level", "days_level", "queue", "fit")
RIDGE = 0.3
"""Strength of the ridge penalty, in units of one standardised feature's variance."""
ROUNDS = 6
"""Rounds of reweighting towards least absolute error."""
FARTHEST = 2.5
"""Standard deviations at which a feature is cut off: an outage is no reason to extrapolate."""
LEAST_FIT_DAYS = 4
"""Days of truth before ``fit`` says anything."""


def candidate_moves(series: DemandSeries, lead: int) -> Floats:
    """(n, n_candidates) expected change of demand from each moment to ``lead`` steps later."""
    used, per_day = series.used, series.per_day
    week = _as_before(used, lead, 7 * per_day)
    days = np.stack([_as_before(used, lead, k * per_day) for k in (1, 2, 3)] + [week]).mean(axis=0)
    idle = np.maximum(series.total - used, 0.0)
    queue = np.minimum(series.waiting, idle)
    day_level, days_level = (_rolling(used, k * per_day, np.mean) - used for k in (1, 3))
    plain = np.stack([week, days, day_level, days_level, queue], axis=1)
    return np.concatenate([plain, _fit(_features(series, lead, plain, idle), used, lead, per_day)[:, None]], axis=1)


def _as_before(used: Floats, lead: int, back: int) -> Floats:
    """How demand moved over the same lead ``back`` steps ago; 0 where that is unknown."""
    move = np.zeros(used.size)
    if back >= lead and used.size > back:
        now = np.arange(back, used.size)
        move[now] = used[now - back + lead] - used[now - back]
    return move


def _rolling(values: Floats, width: int, statistic: Callable[..., Floats]) -> Floats:
    """A statistic of the last ``width`` values at each moment, fewer at the start."""
    padded = np.concatenate([np.full(width - 1, values[0]), values])
    result: Floats = statistic(np.lib.stride_tricks.sliding_window_view(padded, width), axis=1)
    return result


def _features(series: DemandSeries, lead: int, plain: Floats, idle: Floats) -> Floats:
    used, per_day, n = series.used, series.per_day, series.used.size
    hour = max(1, per_day // 24)
    columns = list(plain.T)
    for back in (1, hour, 3 * hour, 6 * hour, per_day):
        before = np.concatenate([np.full(min(back, n), used[0]), used[: max(0, n - back)]])
        columns.append(used - before)
    for width in (hour, 3 * hour, 6 * hour, per_day):
        columns.append(used - _rolling(used, width, np.min))
        columns.append(_rolling(used, width, np.max) - used)
    columns += [used - _rolling(used, 12 * hour, np.mean), idle, series.waiting]
    at_s = series.at_s + series.step_s * np.arange(n)
    for when in (at_s, at_s + lead * series.step_s):
        turn = 2.0 * np.pi * when / 86400.0
        for k in (1, 2):
            columns += [np.sin(k * turn), np.cos(k * turn)]
        # Unix time began on a Thursday.
        columns.append((((when // 86400.0) + 3) % 7 >= 5).astype(np.float64))
    return np.stack(columns, axis=1)


def _fit(features: Floats, used: Floats, lead: int, per_day: int) -> Floats:
    """(n,) moves by a regression fitted anew each day on what was known then; 0 in the first days."""
    n = used.size
    moves = np.zeros(n)
    truth = used[lead:] - used[:-lead] if lead < n else np.zeros(0)
    for first in range(0, n, per_day):
        known = first - lead
        if known < LEAST_FIT_DAYS * per_day:
            continue
        past, target = features[:known], truth[:known]
        spread = past.std(axis=0) + 1e-9 * (1.0 + np.abs(past).max(axis=0))
        scale = float(np.abs(target).mean())
        if scale <= 0:
            continue
        middle = past.mean(axis=0)
        slope = _least_absolute((past - middle) / spread, target / scale)
        today = slice(first, min(first + per_day, n))
        shown = np.clip((features[today] - middle) / spread, -FARTHEST, FARTHEST)
        moves[today] = (shown @ slope[1:] + slope[0]) * scale
    return moves


def _least_absolute(x: Floats, y: Floats) -> Floats:
    """(1 + k,) intercept and slopes of least absolute error with a ridge, by iteratively reweighted least squares."""
    n, k = x.shape
    design = np.concatenate([np.ones((n, 1)), x], axis=1)
    penalty = RIDGE * n * np.eye(k + 1)
    penalty[0, 0] = 0.0
    weight = np.ones(n)
    solution = np.zeros(k + 1)
    for _ in range(ROUNDS):
        weighted = design * weight[:, None]
        solution = np.linalg.solve(weighted.T @ design + penalty + 1e-9 * np.eye(k + 1), weighted.T @ y)
        off = np.abs(y - design @ solution)
        weight = 1.0 / np.maximum(off, 0.3 * float(np.median(off)) + 1e-6)
        weight /= weight.mean()
    return solution
