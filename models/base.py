"""The forecaster seam: a context matrix in, a quantile cube out."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from features.frame import Context

LEVELS: tuple[float, ...] = (0.025, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.975)
"""Quantile levels of every cube: nine deciles for WQL, and the two that bound the 95 % interval."""


@runtime_checkable
class Forecaster(Protocol):
    """A model.

    The contract, checked by ``models.checks``: quantiles do not cross; every value is finite and inside the
    row's bounds; constant, short, all-missing and gappy rows get an answer; the input is not changed; the same
    seed gives the same answer; a saved and loaded model answers the same.
    """

    name: str
    version: str

    def fit(self, contexts: list[Context], horizon: int) -> None:
        """Learn from past windows; a no-op for models that learn only from the context."""
        ...

    def predict(self, context: Context, horizon: int) -> NDArray[np.float64]:
        """Quantile cube (n_series, horizon, n_levels): step h is ``(h + 1) * step_s`` after the cutoff.

        Raises:
            NotFitted: the model needs ``fit`` first.
        """
        ...

    def save(self, folder: Path) -> None:
        """Write everything needed to answer the same again; never pickle."""
        ...

    @classmethod
    def load(cls, folder: Path) -> Forecaster:
        """Read back what ``save`` wrote.

        Raises:
            IncompatibleModel: another version, shape or digest.
        """
        ...
