"""A trained model under watch: what it says must be finite, inside physical bounds, and of a size ever seen."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from features.frame import Context
from models.base import LEVELS, Forecaster
from models.quantiles import Floats
from telemetry.errors import IncompatibleModel

Flags = NDArray[np.bool_]
ABSURD_TIMES = 100.0
"""A quantile beyond this many times the largest value of its metric in the context is absurd."""
STRIKES = 3
"""Forecasts with absurd values after which the model is at fault; anything worse counts at once."""
SLACK = 1e-9


class Watched:
    """A forecaster whose wrong rows become NaN, where the gate takes persistence.

    Args:
        inner: the trained model.
    """

    def __init__(self, inner: Forecaster) -> None:
        self.name = inner.name
        self.version = inner.version
        self.fault = ""
        """Why it must not serve any longer; empty while nothing is wrong."""
        self._inner = inner
        self._strikes = 0

    def fit(self, contexts: list[Context], horizon: int) -> None:
        """Nothing: it comes fitted."""

    def predict(self, context: Context, horizon: int) -> Floats:
        """The inner model's cube (n_series, horizon, n_levels); NaN for rows that break a law."""
        nothing = np.full((context.n_series, horizon, len(LEVELS)), np.nan)
        if self.fault:
            return nothing
        try:
            cube = np.asarray(self._inner.predict(context, horizon), np.float64)
        except Exception as error:  # whatever it is, the others go on
            self.fault = f"it fails with {type(error).__name__}: {error}"
            return nothing
        if cube.shape != nothing.shape:
            self.fault = f"its cube has shape {cube.shape} instead of {nothing.shape}"
            return nothing
        finite: Flags = np.asarray(np.isfinite(cube).all(axis=(1, 2)))
        size = np.abs(np.where(np.isfinite(cube), cube, 0.0)).max(axis=(1, 2), initial=0.0)
        room = (SLACK * np.maximum(1.0, size))[:, None, None]
        with np.errstate(invalid="ignore"):
            outside: Flags = (
                (cube < context.low[:, None, None] - room) | (cube > context.high[:, None, None] + room)
            ).any(axis=(1, 2))
        absurd: Flags = size > ABSURD_TIMES * _largest(context)
        self._note(context, finite, outside, absurd)
        bad = ~finite | outside | absurd
        return np.where(bad[:, None, None], np.nan, cube) if bad.any() else cube

    def _note(self, context: Context, finite: Flags, outside: Flags, absurd: Flags) -> None:
        for rows, what in ((~finite, "values that are not finite"), (outside, "values outside of bounds")):
            if rows.any():
                names = ", ".join(sorted({context.metric[i] for i in np.flatnonzero(rows)})[:3])
                self.fault = self.fault or f"it gives {what} for {int(rows.sum())} of {rows.size} rows ({names})"
        if absurd.any():
            self._strikes += 1
            if self._strikes >= STRIKES:
                names = ", ".join(sorted({context.metric[i] for i in np.flatnonzero(absurd)})[:3])
                self.fault = self.fault or (
                    f"{self._strikes} forecasts hold values over {ABSURD_TIMES:g} times the largest ever seen ({names})"
                )

    def save(self, folder: Path) -> None:
        """As the inner model does."""
        self._inner.save(folder)

    @classmethod
    def load(cls, folder: Path) -> Forecaster:
        """Never: the model store brings trained models to life.

        Raises:
            IncompatibleModel: always.
        """
        raise IncompatibleModel(f"{folder} is read by the model store only")


def _largest(context: Context) -> Floats:
    """(n,) largest magnitude of each row's metric anywhere in the context; inf where nothing was seen."""
    seen = np.where(np.isfinite(context.values), np.abs(context.values), 0.0).max(axis=1, initial=0.0)
    result = np.empty(context.n_series)
    names = np.asarray(context.metric)
    for metric in set(context.metric):
        rows = names == metric
        top = float(seen[rows].max())
        result[rows] = top if top > 0 else np.inf
    return result
