"""What followed the moments that looked most like now: nearest past windows of the whole job.

All rows of a job are compared at once, so that a lag is a good match when every GPU and every metric was at the same
point of the iteration. Unlike folding on a period this follows jitter, checkpoints and changes of rhythm, and it needs
no period at all.

Source: analogue forecasting (Lorenz 1969); kernel weights as in Nadaraya-Watson regression.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from features.frame import Context
from models.base import LEVELS, Forecaster
from models.quantiles import Floats, fill_forward, keep_laws, weighted_quantiles
from models.saved import read_state, write_state

OWN_SHARE = 0.5
"""How much a row's own match counts beside the match of its whole job."""
LEVEL_MEMORY = 0.0


class Analog:
    """Weighted quantiles of the continuations of the best matching past windows.

    Args:
        window: how many newest points must look alike.
        neighbours: how many past windows speak, at most.
    """

    name = "analog"
    version = "1"

    def __init__(
        self,
        window: int = 32,
        neighbours: int = 24,
        own: float = OWN_SHARE,
        decay: float = 1.0,
        bw: float = 1.0,
        level: float = 0.0,
    ) -> None:
        self.window = window
        self.neighbours = neighbours
        self.own = own
        self.decay = decay
        self.bw = bw
        self.level = level

    def fit(self, contexts: list[Context], horizon: int) -> None:
        """Nothing to learn."""

    def predict(self, context: Context, horizon: int) -> Floats:
        """Quantile cube (n_series, horizon, n_levels)."""
        floor = np.where(np.isfinite(context.low), context.low, 0.0)
        if context.n_points < 4:
            base = fill_forward(context.values)[:, -1:] if context.n_points else floor[:, None]
            base = np.where(np.isfinite(base), base, floor[:, None])
            return keep_laws(
                np.broadcast_to(base[:, :, None], (context.n_series, horizon, len(LEVELS))).copy(),
                context.low,
                context.high,
            )
        values = fill_forward(context.values)
        values = np.where(np.isfinite(values), values, floor[:, None])
        window = max(2, min(self.window, context.n_points // 4))
        distance = job_distance(values, context.group, window, self.own, self.decay)
        cube = np.empty((context.n_series, horizon, len(LEVELS)))
        t = context.n_points
        edges = [0, *sorted({max(1, horizon // 8), max(1, horizon // 3), horizon})]
        rows = np.arange(context.n_series)[:, None]
        for start, stop in zip(edges[:-1], edges[1:], strict=True):
            # A window that ended `lag` points ago has shown its next `stop` points only if lag >= stop.
            usable = (
                distance[:, stop - 1 :] if distance.shape[1] >= stop + 3 else distance[:, -min(4, distance.shape[1]) :]
            )
            first = distance.shape[1] - usable.shape[1] + 1
            k = min(self.neighbours, usable.shape[1])
            best = np.argpartition(usable, k - 1, axis=1)[:, :k]
            gap = np.take_along_axis(usable, best, axis=1)
            weight = kernel(gap, self.bw)
            lag = best + first
            lead = np.arange(start, stop)
            column = np.minimum(t - lag[:, None, :] + lead[None, :, None], t - 1)
            sample = values[rows[:, :, None], column]
            if self.level:
                now = values[:, -window:].mean(axis=1)
                csum = np.cumsum(np.pad(values, ((0, 0), (1, 0))), axis=1)
                then = (csum[rows, t - lag] - csum[rows, t - lag - window]) / window
                sample = sample + self.level * (now[:, None] - then)[:, None, :]
            cube[:, start:stop] = weighted_quantiles(sample, np.broadcast_to(weight[:, None, :], sample.shape))
        return keep_laws(cube, context.low, context.high)

    def save(self, folder: Path) -> None:
        """Write the settings."""
        write_state(folder, self.name, self.version, {"window": self.window, "neighbours": self.neighbours})

    @classmethod
    def load(cls, folder: Path) -> Forecaster:
        """Read back what ``save`` wrote."""
        state = read_state(folder, cls.name, cls.version)
        return cls(int(state["window"]), int(state["neighbours"]))


def kernel(gap: Floats, bw: float = 1.0) -> Floats:
    """(n, k) weights of matches: the best counts most, one twice as far hardly."""
    best = gap.min(axis=1, keepdims=True)
    unit = np.maximum(np.median(gap, axis=1, keepdims=True) - best, 1e-12)
    result: Floats = np.exp(-bw * (gap - best) / unit)
    return result


def job_distance(values: Floats, group: NDArray[np.int32], window: int, own: float, decay: float = 1.0) -> Floats:
    """(n, n_lags) how unlike now the row and its job looked 1, 2, ... points ago, in units of their own variance.

    Args:
        values: (n, t) without NaN.
        group: (n,) job of each row.
        window: points compared.
        own: share of the row's own distance; the rest is the mean over the job's rows.
    """
    t = values.shape[1]
    centred = values - values.mean(axis=1, keepdims=True)
    spread = np.sqrt((centred**2).mean(axis=1, keepdims=True))
    live = spread[:, 0] > 1e-9 * np.maximum(np.abs(values).max(axis=1), 1e-12)
    z = np.where(live[:, None], centred / np.where(spread > 0, spread, 1.0), 0.0)
    past = np.lib.stride_tricks.sliding_window_view(z[:, :-1], window, axis=1)  # window ending at column j+window-1
    now = z[:, -window:]
    w = decay ** np.arange(window)[::-1]
    w = w / w.sum()
    # sum w (p - q)^2 = sum w p^2 - 2 sum w p q + sum w q^2
    cross = np.einsum("ntw,nw->nt", past, now * w)
    square = np.lib.stride_tricks.sliding_window_view(z[:, :-1] ** 2, window, axis=1) @ w
    distance = np.maximum(square - 2 * cross + (now**2 @ w)[:, None], 0.0)[:, ::-1]
    jobs, index = np.unique(group, return_inverse=True)
    total = np.zeros((jobs.size, distance.shape[1]))
    np.add.at(total, index, np.where(live[:, None], distance, 0.0))
    count = np.bincount(index, live.astype(np.float64), jobs.size)
    mean = total / np.maximum(count, 1.0)[:, None]
    result: Floats = own * distance + (1 - own) * mean[index]
    assert result.shape[1] == t - window
    return result
