"""Quiet or busy: a series that stands still is forecast from earlier moments at which it stood still."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from features.frame import Context
from models.base import Forecaster
from models.leads import Leads, all_leads
from models.level import RecentLevel
from models.quantiles import Floats, ahead_at, fill_forward, keep_laws, lead_parts, sample_quantiles
from models.saved import read_state, write_state

QUIET_POINTS = 8
"""A series is quiet when this many newest points are equal."""
PRECEDENTS_NEEDED = 8
"""Fewer earlier quiet moments than this say nothing about how long quiet lasts."""


class Regime:
    """Recent level for busy rows; for quiet ones the last value plus what quiet moments were followed by.

    Args:
        window: points behind the level of busy rows.
    """

    name = "regime"
    version = "1"

    def __init__(self, window: int = 32) -> None:
        self.window = window

    def fit(self, contexts: list[Context], horizon: int) -> None:
        """Nothing to learn."""

    def predict(self, context: Context, horizon: int) -> Floats:
        """Quantile cube (n_series, horizon, n_levels)."""
        return self.predict_leads(context, horizon, all_leads(horizon))

    def predict_leads(self, context: Context, horizon: int, leads: Leads) -> Floats:
        """The same at some leads only (n_series, n_leads, n_levels)."""
        cube = RecentLevel(self.window).predict_leads(context, horizon, leads)
        values = fill_forward(context.values)
        if context.n_points <= QUIET_POINTS:
            return cube
        quiet = quiet_moments(values)
        rows = np.flatnonzero(quiet[:, -1] & np.isfinite(values[:, -1]))
        shown = leads[leads < context.n_points] if rows.size else leads[:0]
        for part in lead_parts(rows.size, context.n_points, shown):
            change = ahead_at(values[rows], leads[part]) - values[rows][:, None, :]
            change = np.where(quiet[rows][:, None, :], change, np.nan)
            enough = np.isfinite(change).sum(axis=2) >= PRECEDENTS_NEEDED
            said = values[rows, -1:, None] + sample_quantiles(change)
            cube[rows, part] = np.where(enough[..., None], said, cube[rows, part])
        return keep_laws(cube, context.low, context.high)

    def save(self, folder: Path) -> None:
        """Write the window."""
        write_state(folder, self.name, self.version, {"window": self.window})

    @classmethod
    def load(cls, folder: Path) -> Forecaster:
        """Read back what ``save`` wrote."""
        return cls(int(read_state(folder, cls.name, cls.version)["window"]))


def quiet_moments(values: Floats) -> NDArray[np.bool_]:
    """(n, t) whether each point and the ``QUIET_POINTS - 1`` before it are equal."""
    moved = np.ones(values.shape, bool)
    moved[:, 1:] = np.diff(values, axis=1) != 0
    total = np.cumsum(moved, axis=1)
    still = np.zeros(values.shape, bool)
    if values.shape[1] < QUIET_POINTS:
        return still
    k = QUIET_POINTS - 1
    still[:, k:] = total[:, k:] == total[:, : values.shape[1] - k]
    return still
