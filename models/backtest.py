"""Scoring of forecasts made at rolling origins: sums per series, from which every figure is a ratio."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from features.frame import Context
from models.base import Forecaster
from models.metrics import HIGH80, HIGH95, LOW80, LOW95, inside, quantile_loss
from models.quantiles import MEDIAN, Floats
from telemetry.errors import LeakError

FIELDS: tuple[str, ...] = ("loss", "error", "truth", "in80", "in95", "count", "scaled_error", "scaled_count")
"""Columns of a score: summed quantile loss, absolute error, absolute truth, hits, pairs; MASE's sum and windows."""


def score_window(cube: Floats, truth: Floats, past: Floats) -> Floats:
    """(n, n_fields) sums over the leads of one window; missing truths are left out.

    Args:
        cube: (n, horizon, n_levels).
        truth: (n, horizon).
        past: (n, n_points) the context, for MASE's scale.
    """
    known = np.isfinite(truth)

    def total(values: Floats) -> Floats:
        result: Floats = np.where(known, values, 0.0).sum(axis=1)
        return result

    error = total(np.abs(truth - cube[..., MEDIAN]))
    count = known.sum(axis=1).astype(np.float64)
    step = np.abs(np.diff(past, axis=1))
    seen = np.isfinite(step)
    scale = np.where(seen, step, 0.0).sum(axis=1) / np.maximum(seen.sum(axis=1), 1)
    fair = (scale > 0) & (count > 0)
    scaled = np.where(fair, error / np.maximum(count, 1.0) / np.where(scale > 0, scale, 1.0), 0.0)
    columns = [
        total(quantile_loss(cube, truth)),
        error,
        total(np.abs(truth)),
        total(inside(cube, truth, LOW80, HIGH80)),
        total(inside(cube, truth, LOW95, HIGH95)),
        count,
        scaled,
        fair.astype(np.float64),
    ]
    return np.stack(columns, axis=1)


def roll(model: Forecaster, context: Context, horizon: int, cutoffs: Sequence[int]) -> Floats:
    """(n, n_fields) sums over forecasts made at each cutoff; the model sees the columns before it only.

    Raises:
        LeakError: a cutoff outside the context.
    """
    sums = np.zeros((context.n_series, len(FIELDS)))
    for cutoff in cutoffs:
        if not 0 < cutoff < context.n_points:
            raise LeakError(f"cutoff {cutoff} lies outside the {context.n_points} points of the context")
        past = context.until(cutoff)
        truth = context.values[:, cutoff : cutoff + horizon]
        cube = model.predict(past, horizon)[:, : truth.shape[1]]
        sums += score_window(cube, truth, past.values)
    return sums
