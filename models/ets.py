"""Exponential smoothing as the slow reference of the benchmark; statsmodels is imported on first use."""

from __future__ import annotations

import warnings
from pathlib import Path
from statistics import NormalDist

import numpy as np

from features.frame import Context
from models.base import LEVELS, Forecaster
from models.persistence import Persistence
from models.quantiles import Floats, fill_forward, keep_laws
from models.saved import read_state, write_state

POINTS_NEEDED = 12


class Ets:
    """ETS(A,N,N) fitted to each row by itself, with its analytic normal intervals.

    Source of the variance, sigma^2 (1 + (h - 1) alpha^2): Hyndman and Athanasopoulos, Forecasting, section 8.7.
    """

    name = "ets"
    version = "1"

    def fit(self, contexts: list[Context], horizon: int) -> None:
        """Nothing to learn: every context is fitted when it is asked about."""

    def predict(self, context: Context, horizon: int) -> Floats:
        """Quantile cube (n_series, horizon, n_levels); short, still or failing rows are answered by persistence."""
        cube = Persistence().predict(context, horizon)
        score = np.array([NormalDist().inv_cdf(level) for level in LEVELS])
        steps = np.arange(horizon)
        for i, row in enumerate(fill_forward(context.values)):
            moving = np.isfinite(row)
            if moving.sum() < POINTS_NEEDED or np.ptp(row[moving]) == 0:
                continue
            fitted = _smooth(row[moving])
            if fitted is None:
                continue
            level, alpha, sigma = fitted
            spread = sigma * np.sqrt(1.0 + steps * alpha**2)
            cube[i] = level + spread[:, None] * score[None, :]
        return keep_laws(cube, context.low, context.high)

    def save(self, folder: Path) -> None:
        """Write name and version."""
        write_state(folder, self.name, self.version, {})

    @classmethod
    def load(cls, folder: Path) -> Forecaster:
        """Read back what ``save`` wrote."""
        read_state(folder, cls.name, cls.version)
        return cls()


def _smooth(row: Floats) -> tuple[float, float, float] | None:
    """Last level, alpha and residual deviation of one row; None when the fit fails."""
    from statsmodels.tsa.holtwinters import SimpleExpSmoothing

    scale = float(np.abs(row).max()) or 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = SimpleExpSmoothing(row / scale, initialization_method="estimated").fit()
            level, alpha = float(result.forecast(1)[0]) * scale, float(result.params["smoothing_level"])
            sigma = float(np.sqrt(np.mean(np.asarray(result.resid) ** 2))) * scale
        except (ValueError, ArithmeticError, np.linalg.LinAlgError):
            return None
    return (level, alpha, sigma) if np.isfinite([level, alpha, sigma]).all() else None
