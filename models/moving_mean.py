"""The mean of the newest points, with the spread that truths had around it lately."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from features.frame import Context
from models.base import Forecaster
from models.quantiles import Floats, fill_forward, keep_laws, sample_quantiles
from models.saved import read_state, write_state


class MovingMean:
    """Mean of the last ``window`` points plus empirical quantiles of its own past errors at a few leads.

    Args:
        window: how many points to average.
    """

    name = "moving_mean"
    version = "1"

    def __init__(self, window: int = 10) -> None:
        self.window = window

    def fit(self, contexts: list[Context], horizon: int) -> None:
        """Nothing to learn."""

    def predict(self, context: Context, horizon: int) -> Floats:
        """Quantile cube (n_series, horizon, n_levels)."""
        values = context.values
        n, t = values.shape
        mean = trailing_mean(values, self.window)
        floor = np.where(np.isfinite(context.low), context.low, 0.0)
        base = np.where(np.isfinite(mean[:, -1:]), mean[:, -1:], floor[:, None]) if t else floor[:, None]
        anchors = anchor_steps(horizon)
        cube = np.zeros((n, len(anchors), 11))
        for k, h in enumerate(anchors):
            if h < t:
                error = sample_quantiles(values[:, h:] - mean[:, :-h])
                cube[:, k] = np.where(np.isfinite(error), error, cube[:, max(k - 1, 0)])
            elif k:
                cube[:, k] = cube[:, k - 1]
        spread = between_anchors(cube, anchors, horizon)
        return keep_laws(base[:, :, None] + spread, context.low, context.high)

    def save(self, folder: Path) -> None:
        """Write the window."""
        write_state(folder, self.name, self.version, {"window": self.window})

    @classmethod
    def load(cls, folder: Path) -> Forecaster:
        """Read back what ``save`` wrote."""
        return cls(int(read_state(folder, cls.name, cls.version)["window"]))


def trailing_mean(values: Floats, window: int) -> Floats:
    """(n, t) mean of the newest ``window`` points up to each column, gaps left out; NaN before the first value.

    A window without any point repeats the mean before it.
    """
    known = np.isfinite(values)
    total = np.cumsum(np.where(known, values, 0.0), axis=1)
    count = np.cumsum(known, axis=1).astype(np.float64)
    total[:, window:] -= total[:, :-window].copy()
    count[:, window:] -= count[:, :-window].copy()
    mean = np.where(count > 0, total / np.maximum(count, 1.0), np.nan)
    filled = fill_forward(mean)
    started = np.maximum.accumulate(known, axis=1) if values.shape[1] else known
    result: Floats = np.where(started, filled, np.nan)
    return result


def anchor_steps(horizon: int, most: int = 8) -> list[int]:
    """A few leads, close together near the cutoff and sparse far from it; always 1 and the horizon."""
    if horizon <= most:
        return list(range(1, horizon + 1))
    spaced = np.unique(np.round(np.geomspace(1, horizon, most)).astype(int))
    return [int(step) for step in spaced]


def between_anchors(cube: Floats, anchors: list[int], horizon: int) -> Floats:
    """Linear interpolation over leads: (n, n_anchors, k) -> (n, horizon, k)."""
    steps = np.arange(1, horizon + 1, dtype=np.float64)
    position = np.interp(steps, anchors, np.arange(len(anchors), dtype=np.float64))
    below = np.floor(position).astype(np.intp)
    above = np.minimum(below + 1, len(anchors) - 1)
    share = (position - below)[None, :, None]
    result: Floats = cube[:, below] * (1 - share) + cube[:, above] * share
    return result
