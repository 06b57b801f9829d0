"""The mean traffic of the next minutes: asked of a model directly where that beat persistence on the row's own past."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from features.frame import Context
from models.base import LEVELS, Forecaster
from models.port_groups import traffic_groups
from models.quantiles import Floats, last_observed

ORIGINS = 3
"""Past moments at which both are asked."""
FEW = 4
"""Groups of fewer rows are judged as one: three moments of one row say little."""
KNOWN_SHARE = 0.5
"""A mean over fewer of its points is not scored."""


class MeanForecaster(Protocol):
    """A model that answers means directly."""

    def predict_means(self, context: Context, spans: tuple[int, ...]) -> Floats:
        """(n_series, n_spans) the mean over the next points of each span."""
        ...


def true_means(values: Floats, spans: tuple[int, ...]) -> Floats:
    """(n, n_spans) mean over the first points of each span; NaN where under half of them is known."""
    out = np.full((values.shape[0], len(spans)), np.nan)
    for k, span in enumerate(spans):
        known = np.isfinite(values[:, :span])
        count = known.sum(axis=1)
        mean = np.where(known, values[:, :span], 0.0).sum(axis=1) / np.maximum(count, 1)
        out[:, k] = np.where(count >= KNOWN_SHARE * span, mean, np.nan)
    return out


def asked_means(model: Forecaster, context: Context, spans: tuple[int, ...], cube: Floats | None = None) -> Floats:
    """(n, n_spans) a model's means: its own where it has some, else the mean of its medians.

    Args:
        model: any forecaster.
        context: what is known.
        spans: points ahead.
        cube: its forecast, where it was asked already.
    """
    direct = getattr(model, "predict_means", None)
    if direct is not None:
        answer: Floats = direct(context, spans)
        return answer
    said = model.predict(context, max(spans)) if cube is None else cube
    middle = said[:, :, LEVELS.index(0.5)]
    return np.stack([middle[:, :span].mean(axis=1) for span in spans], axis=1)


def _judged_together(values: Floats) -> NDArray[np.intp]:
    """(n,) number of the rows with which each is judged: its group, and all rows that stand alone or nearly so as one."""
    index = np.unique(traffic_groups(values), return_inverse=True)[1]
    few = np.bincount(index)[index] < FEW
    return np.unique(np.where(few, -1, index), return_inverse=True)[1].astype(np.intp)


def gated_means(model: MeanForecaster, context: Context, spans: tuple[int, ...]) -> Floats:
    """(n, n_spans) the model's means where they beat the last value on the past of the row's group, else that value.

    Rows that move together are judged together; a context too short to judge gives the last value.
    """
    longest = max(spans)
    last = last_observed(context.values)
    out = np.repeat(last[:, None], len(spans), axis=1)
    columns = [context.n_points - longest * (k + 1) for k in range(ORIGINS)]
    columns = [column for column in columns if column >= longest]
    if not columns:
        return out
    index = _judged_together(context.values)
    loss = np.zeros((2, index.max() + 1, len(spans)))
    for column in columns:
        truth = true_means(context.values[:, column:], spans)
        known = np.isfinite(truth)
        naive = last_observed(context.values[:, :column])[:, None]
        for place, said in enumerate((model.predict_means(context.until(column), spans), naive)):
            np.add.at(loss[place], index, np.where(known, np.abs(said - truth), 0.0))
    better = (loss[0] < loss[1])[index]
    result: Floats = np.where(better, model.predict_means(context, spans), out)
    return result
