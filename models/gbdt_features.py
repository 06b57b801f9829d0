"""What the gradient-boosted model sees: lags, rolling statistics, neighbours and what look-alike moments led to.

Everything is read from the grid, so a lag over a gap is missing instead of being a neighbour's value, and everything is
a difference from the last value in units of the row's local variation, so that one model serves rows of any size.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from features.frame import Context
from models.analog import Analog
from models.metrics import HIGH80, LOW80
from models.quantiles import MEDIAN, Floats, last_observed

LAGS: tuple[int, ...] = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24)
MEANS: tuple[int, ...] = (4, 8, 16, 32, 64, 128)
SPREADS: tuple[int, ...] = (8, 32, 128)
VARIATION_POINTS = 64
"""Local variation is measured over this many newest points."""
FARTHEST = 30.0
"""Targets and features are cut at this many units of local variation."""


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """Features of every row at one cutoff.

    Args:
        rows: (n, n_features) what does not depend on the lead.
        looks: (n, n_anchors, 3) low, median and high of the look-alike forecast at each anchor lead.
        base: (n,) last value.
        scale: (n,) local variation, 0 for a row that stands still.
    """

    rows: Floats
    looks: Floats
    base: Floats
    scale: Floats

    def at(self, anchor: int, lead: int) -> Floats:
        """(n, n_features + 4) the features for one anchor."""
        lead_column = np.full((self.rows.shape[0], 1), float(lead))
        return np.hstack([self.rows, self.looks[:, anchor], lead_column])


def snapshot(context: Context, anchors: list[int], horizon: int, metric_code: NDArray[np.float64]) -> Snapshot:
    """Features at the end of the context.

    Args:
        context: what is known at the cutoff.
        anchors: leads at which the model answers.
        horizon: furthest lead, at least the last anchor.
        metric_code: (n,) number of each row's metric; NaN when the model never saw it.
    """
    values = context.values
    base = last_observed(values, np.nan)
    scale = local_variation(values, base)
    unit = np.where(scale > 0, scale, 1.0)

    def relative(column: Floats) -> Floats:
        result: Floats = np.clip((column - base) / unit, -FARTHEST, FARTHEST)
        return result

    columns = [relative(_lag(values, lag)) for lag in LAGS]
    columns += [relative(_mean(values, points)) for points in MEANS]
    columns += [_spread(values, points) / unit for points in SPREADS]
    recent = values[:, -SPREADS[1] :]
    columns += [relative(_extreme(recent, -1)), relative(_extreme(recent, 1))]
    columns += [relative(context.low), relative(np.minimum(context.high, 1e300))]
    columns += [metric_code, *_neighbours(columns[0], columns[3], columns[len(LAGS) + 3], context.group)]
    look = Analog().predict(context, horizon)[:, [a - 1 for a in anchors]][:, :, [LOW80, MEDIAN, HIGH80]]
    looks = np.clip((look - base[:, None, None]) / unit[:, None, None], -FARTHEST, FARTHEST)
    return Snapshot(np.column_stack(columns), looks, base, scale)


def local_variation(values: Floats, base: Floats) -> Floats:
    """(n,) mean absolute step of the newest points, not under a tenth of their spread; 0 where they stand still."""
    recent = values[:, -VARIATION_POINTS:]
    step = np.abs(np.diff(recent, axis=1))
    known = np.isfinite(step)
    mean = np.where(known, step, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    spread = np.nan_to_num(_spread(values, VARIATION_POINTS))
    scale = np.maximum(mean, 0.1 * spread)
    result: Floats = np.where(np.isfinite(base) & (scale > 1e-9 * np.abs(np.nan_to_num(base))), scale, 0.0)
    return result


def _lag(values: Floats, lag: int) -> Floats:
    """(n,) the value ``lag`` points before the last column; NaN before the start or in a gap."""
    if values.shape[1] <= lag:
        return np.full(values.shape[0], np.nan)
    return values[:, -1 - lag]


def _mean(values: Floats, points: int) -> Floats:
    recent = values[:, -points:]
    known = np.isfinite(recent)
    count = known.sum(axis=1)
    result: Floats = np.where(count > 0, np.where(known, recent, 0.0).sum(axis=1) / np.maximum(count, 1), np.nan)
    return result


def _spread(values: Floats, points: int) -> Floats:
    recent = values[:, -points:]
    mean = _mean(values, points)
    gap = np.where(np.isfinite(recent), recent - mean[:, None], 0.0)
    count = np.isfinite(recent).sum(axis=1)
    result: Floats = np.where(count > 1, np.sqrt((gap**2).sum(axis=1) / np.maximum(count, 1)), np.nan)
    return result


def _extreme(recent: Floats, sign: int) -> Floats:
    best = np.where(np.isfinite(recent), sign * recent, -np.inf).max(axis=1, initial=-np.inf)
    result: Floats = np.where(np.isfinite(best), sign * best, np.nan)
    return result


def _neighbours(step: Floats, earlier: Floats, mean: Floats, group: NDArray[np.int32]) -> list[Floats]:
    """Mean over each row's group of how its rows moved lately, in each row's own units."""
    index = np.unique(group, return_inverse=True)[1]
    size = np.bincount(index).astype(np.float64)
    return [(np.bincount(index, np.nan_to_num(column)) / size)[index] for column in (step, earlier, mean)]
