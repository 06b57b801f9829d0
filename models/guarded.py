"""Holds a model of another package to the contract while it is tried: where it fails, persistence speaks for it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from features.frame import Context
from models.base import LEVELS, Forecaster
from models.checks import yield_checks
from models.quantiles import Floats
from telemetry.errors import IncompatibleModel

SLACK = 1e-9
"""Bounds and order are kept up to rounding, relative to the row's largest value."""


class Guarded:
    """A model of another package as a candidate of the gate.

    Args:
        inner: the model, ready to answer.
    """

    def __init__(self, inner: Forecaster) -> None:
        self.name = inner.name
        self.version = inner.version
        self.problem = ""
        """What went wrong last, in a sentence; empty while nothing does."""
        self.failures = 0
        self._inner = inner

    def fit(self, contexts: list[Context], horizon: int) -> None:
        """Nothing: a plug-in comes fitted."""

    def predict(self, context: Context, horizon: int) -> Floats:
        """The inner model's cube (n_series, horizon, n_levels); NaN for what breaks the contract, where the gate then
        takes persistence."""
        nothing = np.full((context.n_series, horizon, len(LEVELS)), np.nan)
        try:
            cube = np.asarray(self._inner.predict(context, horizon), np.float64)
        except Exception as error:  # a stranger's model may fail in any way
            return self._failed(f"{type(error).__name__}: {error}", nothing)
        if cube.shape != nothing.shape:
            return self._failed(f"its cube has shape {cube.shape} instead of {nothing.shape}", nothing)
        room = SLACK * np.maximum(1.0, np.abs(np.nan_to_num(cube)).max(axis=(1, 2), initial=0.0))[:, None, None]
        with np.errstate(invalid="ignore"):
            crossing = (np.diff(cube, axis=-1) < -room).any(axis=(1, 2))
            outside = (cube < context.low[:, None, None] - room) | (cube > context.high[:, None, None] + room)
        bad = ~np.isfinite(cube).all(axis=(1, 2)) | crossing | outside.any(axis=(1, 2))
        if bad.any():
            cube = np.where(bad[:, None, None], np.nan, cube)
            return self._failed(
                f"{int(bad.sum())} of {bad.size} rows cross, leave their bounds or are not finite", cube
            )
        return cube

    def save(self, folder: Path) -> None:
        """As the inner model does."""
        self._inner.save(folder)

    @classmethod
    def load(cls, folder: Path) -> Forecaster:
        """Never: only its own class can read back what a plug-in's model wrote.

        Raises:
            IncompatibleModel: always.
        """
        raise IncompatibleModel(f"{folder} holds a model of a plug-in, which only the plug-in itself can load")

    def _failed(self, sentence: str, cube: Floats) -> Floats:
        self.failures += 1
        self.problem = f"the model {self.name} of a plug-in failed: {sentence}"
        return cube


def broken_law(make: type[Forecaster], folder: Path) -> str:
    """Which check of the contract a plug-in's model fails, with its sentence; empty when it keeps all.

    Args:
        make: gives a model that is ready to answer.
        folder: an empty one, for the check that saves.
    """
    for name, check in yield_checks(make):
        place = folder / name
        try:
            place.mkdir()
            check(place)
        except Exception as error:
            return f"{name}: {error or type(error).__name__}"
    return ""
