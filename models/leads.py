"""Forecasts at some leads only: a trial of candidates needs a third of the leads to tell which of them is best."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from features.frame import Context
from models.base import Forecaster
from models.quantiles import Floats

TRIED_LEADS = 16
"""About this many leads of a horizon are tried: neighbouring leads err together and tell little more."""

Leads = NDArray[np.intp]


@runtime_checkable
class ForecastsLeads(Protocol):
    """A model that can leave out leads, to save time."""

    def predict_leads(self, context: Context, horizon: int, leads: Leads) -> Floats:
        """(n_series, n_leads, n_levels): what ``predict`` says for these leads, numbered from 1, ascending."""
        ...


@runtime_checkable
class ForecastsPast(Protocol):
    """A model that can share work between several cutoffs of one context."""

    def predict_past(self, context: Context, columns: list[int], horizon: int, leads: list[Leads]) -> list[Floats]:
        """One answer for each column, with only the columns before it known; columns in descending order."""
        ...


def at_leads(model: Forecaster, context: Context, horizon: int, leads: Leads) -> Floats:
    """(n_series, n_leads, n_levels) of any model."""
    if isinstance(model, ForecastsLeads):
        return model.predict_leads(context, horizon, leads)
    return model.predict(context, int(leads[-1]))[:, leads - 1]


def at_past(model: Forecaster, context: Context, columns: list[int], horizon: int, leads: list[Leads]) -> list[Floats]:
    """Answers of any model at several past cutoffs of one context, each at leads of its own."""
    if isinstance(model, ForecastsPast):
        return model.predict_past(context, columns, horizon, leads)
    return [at_leads(model, context.until(column), horizon, some) for column, some in zip(columns, leads, strict=True)]


def all_leads(horizon: int) -> Leads:
    """(horizon,) 1, 2, ... horizon."""
    return np.arange(1, horizon + 1)


def tried_leads(horizon: int) -> Leads:
    """Evenly spread leads from 1 on, all of them up to twice ``TRIED_LEADS``."""
    return np.arange(1, horizon + 1, max(1, horizon // TRIED_LEADS))
