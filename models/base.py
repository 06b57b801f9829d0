"""The forecaster seam: a context matrix in, a quantile cube out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

LEVELS: tuple[float, ...] = (0.025, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.975)
"""Quantile levels of every cube: nine deciles for WQL, and the two that bound the 95 % interval."""


@dataclass(frozen=True, slots=True, eq=False)
class Context:
    """The recent past of several series on one regular grid; the last column is the cutoff.

    Args:
        values: (n_series, n_points) in the catalogue's unit, NaN where nothing was observed.
        step_s: grid spacing in seconds.
        metric: (n_series,) catalogue name of each row.
        group: (n_series,) rows with the same number belong to one job and may vote together.
        low: (n_series,) least physical value of each row.
        high: (n_series,) greatest physical value; inf where unbounded.
    """

    values: NDArray[np.float64]
    step_s: float
    metric: tuple[str, ...]
    group: NDArray[np.int32]
    low: NDArray[np.float64]
    high: NDArray[np.float64]

    @property
    def n_series(self) -> int:
        """Rows."""
        return int(self.values.shape[0])

    @property
    def n_points(self) -> int:
        """Columns."""
        return int(self.values.shape[1])

    def until(self, column: int) -> Context:
        """The same context cut after ``column`` points: what was known then."""
        return Context(self.values[:, :column], self.step_s, self.metric, self.group, self.low, self.high)


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
