"""The last observed value with the spread that differences of the same lead had lately: every skill's denominator."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from features.frame import Context
from models.base import LEVELS, Forecaster
from models.quantiles import Floats, ahead, keep_laws, last_observed, lead_blocks, sample_quantiles
from models.saved import read_state, write_state

MIN_DIFFERENCES = 4
"""Fewer differences than this say nothing about the spread at a lead."""


class Persistence:
    """Last value plus empirical quantiles of ``x[t + h] - x[t]`` over the context, step by step."""

    name = "persistence"
    version = "1"

    def fit(self, contexts: list[Context], horizon: int) -> None:
        """Nothing to learn."""

    def predict(self, context: Context, horizon: int) -> Floats:
        """Quantile cube (n_series, horizon, n_levels).

        A lead that the context is too short to show takes the widest spread of the shorter leads; a row without any
        value is answered with its least legal value.
        """
        values = context.values
        n, t = values.shape
        base = last_observed(values, np.nan)
        base = np.where(np.isfinite(base), base, np.where(np.isfinite(context.low), context.low, 0.0))
        spread = np.full((n, horizon, len(LEVELS)), np.nan)
        for first, stop in lead_blocks(n, t, min(horizon, t - 1)):
            step = ahead(values, first, stop) - values[:, None, :]
            enough = np.isfinite(step).sum(axis=2) >= MIN_DIFFERENCES
            spread[:, first - 1 : stop - 1] = np.where(enough[..., None], sample_quantiles(step), np.nan)
        spread = _lengthen(spread, _crude_spread(values))
        return keep_laws(base[:, None, None] + spread, context.low, context.high)

    def save(self, folder: Path) -> None:
        """Write name and version."""
        write_state(folder, self.name, self.version, {})

    @classmethod
    def load(cls, folder: Path) -> Forecaster:
        """Read back what ``save`` wrote."""
        read_state(folder, cls.name, cls.version)
        return cls()


def _crude_spread(values: Floats) -> Floats:
    """(n, n_levels) quantiles of value minus last value, for rows too short to show differences; 0 without values."""
    if values.shape[1] == 0:
        return np.zeros((values.shape[0], len(LEVELS)))
    around = sample_quantiles(values - last_observed(values, np.nan)[:, None])
    result: Floats = np.where(np.isfinite(around), around, 0.0)
    return result


def _lengthen(spread: Floats, crude: Floats) -> Floats:
    """Fill leads without a spread from the lead before, and the first from ``crude``."""
    out = spread.copy()
    before = crude
    for h in range(out.shape[1]):
        known = np.isfinite(out[:, h, 0])
        out[:, h] = np.where(known[:, None], out[:, h], before)
        before = out[:, h]
    return out
