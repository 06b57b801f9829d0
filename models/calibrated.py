"""Any forecaster, calibrated on its own past errors inside the context."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from features.frame import Context
from models.base import Forecaster
from models.conformal import calibrate, lead_buckets
from models.quantiles import Floats, keep_laws
from models.rolling import owners, past_origins, past_truth, row_classes
from models.saved import read_state, write_state


class Calibrated:
    """A forecaster whose spread is set by what its own forecasts at past origins were followed by.

    Args:
        inner: the forecaster.
        origins: how many past origins are asked.
    """

    version = "1"

    def __init__(self, inner: Forecaster, origins: int = 8) -> None:
        self.inner = inner
        self.origins = origins
        self.name = f"{inner.name}+conformal"

    def fit(self, contexts: list[Context], horizon: int) -> None:
        """Fit the inner forecaster."""
        self.inner.fit(contexts, horizon)

    def predict(self, context: Context, horizon: int) -> Floats:
        """Quantile cube (n_series, horizon, n_levels); as the inner one says where no past origin fits."""
        cube = self.inner.predict(context, horizon)
        columns = past_origins(context.n_points, horizon, self.origins)
        if not columns:
            return cube
        past = np.stack([self.inner.predict(context.until(column), horizon) for column in columns])
        truth = past_truth(context.values, columns, horizon)
        cube = calibrate(cube, past, truth, row_classes(context), lead_buckets(horizon), owners(context))
        return keep_laws(cube, context.low, context.high)

    def save(self, folder: Path) -> None:
        """Write the inner forecaster and how it is calibrated."""
        self.inner.save(folder / "inner")
        write_state(folder, "calibrated", self.version, {"inner": self.inner.name, "origins": self.origins})

    @classmethod
    def load(cls, folder: Path) -> Forecaster:
        """Read back what ``save`` wrote."""
        from models.registry import BUILTIN

        state = read_state(folder, "calibrated", cls.version)
        return cls(BUILTIN[state["inner"]]().load(folder / "inner"), int(state["origins"]))
