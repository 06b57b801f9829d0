"""The last observed value with the spread that differences of the same lead had lately: every skill's denominator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from features.frame import Context
from models.base import LEVELS, Forecaster
from models.leads import Leads, all_leads
from models.quantiles import Floats, keep_laws, last_observed, lead_parts, quantiles_of_sorted, sample_quantiles
from models.saved import read_state, write_state

FLOAT32_SAFE = 1e37
"""Differences of values below this fit single precision, which sorts twice as fast."""
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
        return self.predict_leads(context, horizon, all_leads(horizon))

    def predict_leads(self, context: Context, horizon: int, leads: Leads) -> Floats:
        """The same at some leads only (n_series, n_leads, n_levels)."""
        values = context.values
        n, t = values.shape
        if leads.size < horizon and t < horizon + MIN_DIFFERENCES:
            # A lead too far to be shown takes the spread of the one before it, which must be known then.
            return self.predict(context, horizon)[:, leads - 1]
        base = last_observed(values, np.nan)
        base = np.where(np.isfinite(base), base, np.where(np.isfinite(context.low), context.low, 0.0))
        spread = np.full((n, leads.size, len(LEVELS)), np.nan)
        for part in lead_parts(n, t, leads[leads < t]):
            step = _differences(values, leads[part])
            step.sort(axis=-1)
            spread[:, part] = quantiles_of_sorted(step, least=MIN_DIFFERENCES)
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


def _differences(values: Floats, leads: Leads) -> NDArray[np.floating]:
    """(n, n_leads, t) of ``x[t + lead] - x[t]``, NaN past the end; in single precision where the values allow."""
    n, t = values.shape
    # The differences are rounded, not the values, so that a small step of a large counter keeps its digits.
    safe = np.abs(values, where=np.isfinite(values), out=np.zeros_like(values)).max(initial=0.0) < FLOAT32_SAFE
    step = np.empty((n, leads.size, t), np.float32 if safe else np.float64)
    for k, lead in enumerate(leads.tolist()):
        np.subtract(values[:, lead:], values[:, : t - lead], out=step[:, k, : t - lead], casting="same_kind")
        step[:, k, t - lead :] = np.nan
    return step


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
