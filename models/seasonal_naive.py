"""The value one season ago, with the spread that season-to-season differences had."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from features.frame import Context
from models.base import Forecaster
from models.persistence import Persistence
from models.quantiles import Floats, fill_forward, keep_laws, sample_quantiles
from models.saved import read_state, write_state

DAY_S = 86_400.0
SEASONS_NEEDED = 2
"""With fewer whole seasons a pattern cannot be told from chance."""


class SeasonalNaive:
    """``x[t + h - m]`` plus quantiles of ``x[t] - x[t - m]`` over the context.

    Args:
        season_s: length of the season in seconds; a day unless given.
    """

    name = "seasonal_naive"
    version = "1"

    def __init__(self, season_s: float = DAY_S) -> None:
        self.season_s = season_s

    def points_needed(self, step_s: float) -> int:
        """How many grid points a context needs before this model answers by itself."""
        return SEASONS_NEEDED * max(1, round(self.season_s / step_s))

    def fit(self, contexts: list[Context], horizon: int) -> None:
        """Nothing to learn."""

    def predict(self, context: Context, horizon: int) -> Floats:
        """Quantile cube (n_series, horizon, n_levels); a context under two seasons is answered by persistence."""
        season = max(1, round(self.season_s / context.step_s))
        if context.n_points < self.points_needed(context.step_s):
            return Persistence().predict(context, horizon)
        filled = fill_forward(context.values)
        lead = np.arange(horizon)
        base = filled[:, context.n_points - season + lead % season]
        spread = sample_quantiles(context.values[:, season:] - context.values[:, :-season])
        # Errors of repeated seasons add up as in a random walk over seasons.
        growth = np.sqrt(1.0 + lead // season)
        cube = base[:, :, None] + np.nan_to_num(spread)[:, None, :] * growth[None, :, None]
        floor = np.where(np.isfinite(context.low), context.low, 0.0)
        cube = np.where(np.isfinite(cube), cube, floor[:, None, None])
        return keep_laws(cube, context.low, context.high)

    def save(self, folder: Path) -> None:
        """Write the season."""
        write_state(folder, self.name, self.version, {"season_s": self.season_s})

    @classmethod
    def load(cls, folder: Path) -> Forecaster:
        """Read back what ``save`` wrote."""
        return cls(float(read_state(folder, cls.name, cls.version)["season_s"]))
