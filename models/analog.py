"""What followed the moments that looked most like now: nearest past windows of the whole job.

All rows of a job are compared at once, so that a lag is a good match when every GPU and every metric was at the same
point of the iteration. Unlike folding on a period this follows jitter, checkpoints and changes of rhythm, and it needs
no period at all.

Source: analogue forecasting (Lorenz 1969); kernel weights as in Nadaraya-Watson regression.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from features.frame import Context
from models.base import LEVELS, Forecaster
from models.leads import Leads, all_leads
from models.quantiles import Floats, fill_forward, keep_laws, last_observed, weighted_quantiles
from models.saved import read_state, write_state

MEMORY = 0.93
"""Weight of a point in the comparison against the weight of the point after it: about 14 points decide."""
OWN_SHARE = 0.5
"""How much a row's own match counts beside the mean match of its job."""
BANDWIDTH = 0.6
"""A match worse than the best by this share of the eighth best distance counts 1/e."""
WINDOWS_NEEDED = 10
"""The context must hold this many windows, or shorter ones are compared."""
POINTS_NEEDED = 8
"""Fewer points than this hold no past window worth comparing."""


class Analog:
    """Weighted quantiles of the continuations of the best matching past windows.

    Args:
        window: how many newest points must look alike.
        neighbours: how many past windows speak, at most.
    """

    name = "analog"
    version = "1"

    def __init__(self, window: int = 48, neighbours: int = 40) -> None:
        self.window = window
        self.neighbours = neighbours

    def fit(self, contexts: list[Context], horizon: int) -> None:
        """Nothing to learn."""

    def predict(self, context: Context, horizon: int) -> Floats:
        """Quantile cube (n_series, horizon, n_levels); a context under 8 points is answered by its last values."""
        return self.predict_leads(context, horizon, all_leads(horizon))

    def predict_leads(self, context: Context, horizon: int, leads: Leads) -> Floats:
        """The same at some leads only (n_series, n_leads, n_levels)."""
        floor = np.where(np.isfinite(context.low), context.low, 0.0)
        values = fill_forward(context.values)
        values = np.where(np.isfinite(values), values, floor[:, None])
        cube = np.empty((context.n_series, leads.size, len(LEVELS)))
        if context.n_points < POINTS_NEEDED:
            cube[:] = last_observed(values)[:, None, None] if context.n_points else floor[:, None, None]
            return keep_laws(cube, context.low, context.high)
        window = max(2, min(self.window, context.n_points // WINDOWS_NEEDED))
        distance = job_distance(values, context.group, window)
        edges = [0, *sorted({max(1, horizon // 8), max(1, horizon // 3), horizon})]
        for start, stop in pairwise(edges):
            asked = (leads > start) & (leads <= stop)
            if not asked.any():
                continue
            lag, weight = self._matches(distance, stop)
            sample = continuations(values, lag, leads[asked] - 1)
            cube[:, asked] = weighted_quantiles(sample, np.broadcast_to(weight[:, None, :], sample.shape))
        return keep_laws(cube, context.low, context.high)

    def _matches(self, distance: Floats, leads: int) -> tuple[NDArray[np.intp], Floats]:
        """(n, k) lags of the best matches that have already shown ``leads`` further points, and their weights."""
        # A context too short to show so many points gives its oldest windows; their unknown part repeats the newest value.
        first = min(leads, max(1, distance.shape[1] - 3))
        usable = distance[:, first - 1 :]
        k = min(self.neighbours, usable.shape[1])
        best = np.argpartition(usable, k - 1, axis=1)[:, :k]
        return best + first, kernel(np.take_along_axis(usable, best, axis=1))

    def save(self, folder: Path) -> None:
        """Write the settings."""
        write_state(folder, self.name, self.version, {"window": self.window, "neighbours": self.neighbours})

    @classmethod
    def load(cls, folder: Path) -> Forecaster:
        """Read back what ``save`` wrote."""
        state = read_state(folder, cls.name, cls.version)
        return cls(int(state["window"]), int(state["neighbours"]))


def continuations(values: Floats, lag: NDArray[np.intp], lead: NDArray[np.intp]) -> Floats:
    """(n, n_leads, k) what came ``lead + 1`` points after the moments ``lag`` points ago."""
    t = values.shape[1]
    column = np.minimum(t - lag[:, None, :] + lead[None, :, None], t - 1)
    result: Floats = values[np.arange(values.shape[0])[:, None, None], column]
    return result


def kernel(distance: Floats) -> Floats:
    """(n, k) weights of matches. Where only few windows match, few speak; where all match alike, all do."""
    best = distance.min(axis=1, keepdims=True)
    eighth = min(8, distance.shape[1]) - 1
    unit = np.maximum(np.partition(distance, eighth, axis=1)[:, eighth : eighth + 1], 1e-6)
    result: Floats = np.exp(-(distance - best) / (BANDWIDTH * unit))
    return result


def job_distance(values: Floats, group: NDArray[np.int32], window: int) -> Floats:
    """(n, n_lags) how unlike now the row and its job looked 1, 2, ... points ago, in units of their own variance.

    Args:
        values: (n, t) without NaN.
        group: (n,) job of each row.
        window: points compared.
    """
    centred = values - values.mean(axis=1, keepdims=True)
    spread = np.sqrt((centred**2).mean(axis=1))
    live = spread > 1e-9 * np.maximum(np.abs(values).max(axis=1), 1e-12)
    standard = np.where(live[:, None], centred / np.where(live, spread, 1.0)[:, None], 0.0)
    weight = MEMORY ** np.arange(window)[::-1]
    weight /= weight.sum()
    now = standard[:, -window:]
    # Weighted squared distance to every earlier window, multiplied out so that no window is copied.
    windows: Floats = np.lib.stride_tricks.sliding_window_view(standard[:, :-1], window, axis=1)
    squares = np.lib.stride_tricks.sliding_window_view(standard[:, :-1] ** 2, window, axis=1)
    cross = np.einsum("ntw,nw->nt", windows, now * weight)
    distance = np.maximum(squares @ weight - 2.0 * cross + (now**2 @ weight)[:, None], 0.0)[:, ::-1]
    jobs, index = np.unique(group, return_inverse=True)
    total = np.zeros((jobs.size, distance.shape[1]))
    np.add.at(total, index, np.where(live[:, None], distance, 0.0))
    mean = total / np.maximum(np.bincount(index, live, jobs.size), 1.0)[:, None]
    result: Floats = OWN_SHARE * distance + (1.0 - OWN_SHARE) * mean[index]
    return result
