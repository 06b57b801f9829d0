"""Traffic of switch ports foreseen from what followed the moments at which a port and the ports like it looked like now.

Without training: the rhythm is found in the context. Beyond ``Analog`` it (1) compares the mean of all ports that move
together, so that a counter read early or late does not hide the phase, and (2) gives back in the next bin what such a
reading shifted out of the last one: over a job's ports the shifts have an autocorrelation of -1/2, as the difference of
successive reading errors must (a moving average of order one with a unit root).
"""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np

from features.frame import Context
from models.base import LEVELS, Forecaster
from models.persistence import Persistence
from models.port_groups import alike_means, likeness
from models.port_matches import Matches, alike_profile, nearest, unlikeness
from models.quantiles import Floats, keep_laws, lead_blocks, weighted_quantiles
from models.saved import read_state, write_state

WINDOWS: tuple[tuple[int, float], ...] = ((48, 0.95), (96, 0.98))
"""Points and memory of the comparisons; both speak with equal weight."""
MOMENTS = 48
NEAR_BANDWIDTH, FAR_BANDWIDTH = 0.3, 0.7
"""The next point and means rest on the best moments, later single points on more of them."""
POINTS_NEEDED = 24
ALIKE = 0.7
"""Ports from this correlation on tell what a port would have shown without its reading errors."""
SHIFT_POINTS = 12
SHIFT_SHARE = 0.8
LEAST_TURN = -0.3
"""Only where residuals turn at least this much are they taken for reading errors."""


class PortMoments:
    """Weighted quantiles of the continuations of look-alike moments, of ports that move together."""

    name = "port_moments"
    version = "1"

    def fit(self, contexts: list[Context], horizon: int) -> None:
        """Nothing to learn."""

    def predict(self, context: Context, horizon: int) -> Floats:
        """Quantile cube (n_series, horizon, n_levels); a context under 24 points is answered by persistence."""
        cube = Persistence().predict(context, horizon)
        moving = _moving(context.values)
        t = context.n_points
        if t < POINTS_NEEDED or not moving.size:
            return cube
        values = context.values[moving]
        distances = _distances(alike_profile(values), horizon)
        said = np.empty((moving.size, horizon, len(LEVELS)))
        for start, stop in blocks(horizon):
            found = _nearest(distances, stop, NEAR_BANDWIDTH if stop == 1 else FAR_BANDWIDTH)
            weight = np.concatenate([one.weight for one in found], axis=1)
            for first, end in lead_blocks(moving.size, weight.shape[1], stop - start):
                leads = range(start + first, min(start + end, stop + 1))
                sample = np.stack(
                    [np.concatenate([one.following(values, lead) for one in found], axis=1) for lead in leads], axis=1
                )
                heard = np.broadcast_to(weight[:, None, :], sample.shape)
                said[:, leads[0] - 1 : leads[-1]] = weighted_quantiles(sample, heard)
        said[:, 0] -= shifted(values)[:, None]
        cube[moving] = np.where(np.isfinite(said), said, cube[moving])
        return keep_laws(cube, context.low, context.high)

    def predict_means(self, context: Context, spans: tuple[int, ...]) -> Floats:
        """(n_series, n_spans) median of the mean over the next points of each span."""
        horizon = max(spans)
        naive = Persistence().predict(context, 1)[:, 0, LEVELS.index(0.5)]
        out = np.repeat(naive[:, None], len(spans), axis=1)
        moving = _moving(context.values)
        if context.n_points < POINTS_NEEDED or not moving.size:
            return out
        values = context.values[moving]
        distances = _distances(alike_profile(values), horizon)
        shift = shifted(values)
        for k, span in enumerate(spans):
            found = _nearest(distances, span, NEAR_BANDWIDTH)
            middle = np.stack([one.quantile(one.mean_following(values, span, span), 0.5) for one in found])
            known = np.isfinite(middle)
            mean = np.where(known, middle, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
            out[moving, k] = np.where(known.any(axis=0), mean - shift / span, out[moving, k])
        return np.clip(out, context.low[:, None], context.high[:, None])

    def save(self, folder: Path) -> None:
        """Write name and version."""
        write_state(folder, self.name, self.version, {})

    @classmethod
    def load(cls, folder: Path) -> Forecaster:
        """Read back what ``save`` wrote."""
        read_state(folder, cls.name, cls.version)
        return cls()


def blocks(horizon: int) -> list[tuple[int, int]]:
    """Leads that share their moments, as (first - 1, last): near leads may use recent moments, far leads cannot."""
    edges = [0, *sorted({min(e, horizon) for e in (1, 2, 6, 12, 30, horizon)})]
    return [(a, b) for a, b in itertools.pairwise(edges) if b > a]


def shifted(values: Floats) -> Floats:
    """(n,) how much of each port's last point belongs to the next one, because its counter was read late.

    The residual of a port against the ports like it is the difference of two successive reading errors; the newest error
    is the sum of the residuals since a moment without one, here averaged over the last moments.
    """
    like = likeness(values)
    np.fill_diagonal(like, 0.0)
    weight = np.where(like >= ALIKE, like, 0.0)
    known = np.isfinite(values)
    mean = np.where(known, values, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    scale = np.where(mean > 0, mean, 1.0)[:, None]
    residual = (values / scale - alike_means(values / scale, weight))[:, -5 * SHIFT_POINTS :]
    seen = np.isfinite(residual)
    residual = residual - np.where(seen, residual, 0.0).sum(axis=1, keepdims=True) / np.maximum(
        seen.sum(axis=1, keepdims=True), 1
    )
    residual = np.where(seen, residual, 0.0)
    turn = (residual[:, 1:] * residual[:, :-1]).sum(axis=1) / np.maximum((residual**2).sum(axis=1), 1e-12)
    newest = residual[:, -SHIFT_POINTS:][:, ::-1]
    fading = 1.0 - np.arange(1, newest.shape[1] + 1) / (newest.shape[1] + 1.0)
    trusted = (turn < LEAST_TURN) & ((weight > 0).sum(axis=1) >= 4)
    result: Floats = np.where(trusted, SHIFT_SHARE * (newest @ fading) * scale[:, 0], 0.0)
    return result


def _moving(values: Floats) -> np.ndarray[tuple[int, ...], np.dtype[np.intp]]:
    known = np.isfinite(values)
    top = np.where(known, values, -np.inf).max(axis=1, initial=-np.inf)
    bottom = np.where(known, values, np.inf).min(axis=1, initial=np.inf)
    return np.flatnonzero(np.isfinite(top) & (top > bottom))


def _distances(profile: Floats, horizon: int) -> list[tuple[int, Floats]]:
    t = profile.shape[1]
    fitting = {min(window, max(2, (t - min(horizon, t // 2)) // 3)): memory for window, memory in WINDOWS}
    return [(window, unlikeness(profile, window, memory)) for window, memory in fitting.items()]


def _nearest(distances: list[tuple[int, Floats]], lead: int, bandwidth: float) -> list[Matches]:
    index = np.arange(distances[0][1].shape[0], dtype=np.intp)
    return [nearest(distance, window, index, MOMENTS, lead, bandwidth) for window, distance in distances]
