"""The spread of the recent past, the same at every lead: what to say of a series without memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from features.frame import Context
from models.base import LEVELS, Forecaster
from models.leads import Leads, all_leads
from models.quantiles import Floats, keep_laws, sample_quantiles
from models.saved import read_state, write_state


class RecentLevel:
    """Quantiles of the last ``window`` points at every lead.

    Args:
        window: how many points.
    """

    name = "level"
    version = "1"

    def __init__(self, window: int = 128) -> None:
        self.window = window

    def fit(self, contexts: list[Context], horizon: int) -> None:
        """Nothing to learn."""

    def predict(self, context: Context, horizon: int) -> Floats:
        """Quantile cube (n_series, horizon, n_levels); a row without points is answered with its least legal value."""
        return self.predict_leads(context, horizon, all_leads(horizon))

    def predict_leads(self, context: Context, horizon: int, leads: Leads) -> Floats:
        """The same at some leads only (n_series, n_leads, n_levels)."""
        del horizon
        recent = context.values[:, -self.window :]
        floor = np.where(np.isfinite(context.low), context.low, 0.0)
        flat = sample_quantiles(recent) if recent.shape[1] else np.full((context.n_series, len(LEVELS)), np.nan)
        older = ~np.isfinite(flat[:, 0])
        if older.any() and context.n_points:
            flat[older] = sample_quantiles(context.values[older])
        flat = np.where(np.isfinite(flat), flat, floor[:, None])
        return keep_laws(np.repeat(flat[:, None, :], leads.size, axis=1), context.low, context.high)

    def save(self, folder: Path) -> None:
        """Write the window."""
        write_state(folder, self.name, self.version, {"window": self.window})

    @classmethod
    def load(cls, folder: Path) -> Forecaster:
        """Read back what ``save`` wrote."""
        return cls(int(read_state(folder, cls.name, cls.version)["window"]))
