"""Scenarios of the near future made of whole past iterations.

A scenario repeats one past iteration, so bursts keep their length and shape; quantiles, chances and expected times
above a threshold are then counts over scenarios. Nothing here looks past the last column it is given.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from forecast.predict.alignment import align

FloatArray = NDArray[np.float64]

MAX_CYCLES = 6
"""Past iterations in use: few, so that a job that was moved or changed is followed within half a minute or so."""
SCENARIOS = 32
"""Ways in which several jobs with their own rhythm may go on together."""


def bridged(values: FloatArray) -> FloatArray:
    """Rows with missing points filled linearly in time, ends held; rows without any data become 0.

    Only for building scenarios: what is scored or shown is never filled.
    """
    out = values.copy()
    columns = np.arange(values.shape[1], dtype=np.float64)
    for row in np.flatnonzero(~np.isfinite(values).all(axis=1)):
        good = np.isfinite(values[row])
        out[row] = np.interp(columns, columns[good], values[row, good]) if good.any() else 0.0
    return out


def cycles_of(values: FloatArray, period_steps: FloatArray, horizon: int) -> FloatArray:
    """The next steps as each past iteration would have them, (n_rows, MAX_CYCLES, horizon).

    Args:
        values: (n_rows, n_points) without missing points.
        period_steps: (n_rows,) period in steps, fractional; NaN where a row has none.
        horizon: steps ahead.

    A row with fewer iterations repeats those it has; a row without a period gives its own spread: scenario c is
    constant at the (c + 1/2) / MAX_CYCLES quantile.
    """
    n_rows, n_points = values.shape
    periodic = np.isfinite(period_steps) & (2 * np.nan_to_num(period_steps, nan=np.inf) <= n_points)
    p = np.where(periodic, period_steps, 1.0)[:, None, None]
    ahead = np.arange(1, horizon + 1, dtype=np.float64)[None, None, :]
    back = np.ceil(ahead / p - 1e-9) - 1.0
    # Iterations that lie wholly inside the history whatever the step ahead.
    have = np.maximum(1, np.floor((n_points - 1) / p[:, 0, 0]) - 0).astype(np.intp)
    cycle = (np.arange(MAX_CYCLES)[None, :] % np.minimum(have, MAX_CYCLES)[:, None]) + 1
    lag = np.rint((back + cycle[:, :, None]) * p).astype(np.intp)
    place = np.clip(n_points - 1 + ahead.astype(np.intp) - lag, 0, n_points - 1)
    out = np.take_along_axis(values[:, None, :], place.reshape(n_rows, 1, -1), axis=2).reshape(place.shape)
    if not periodic.all():
        levels = (np.arange(MAX_CYCLES) + 0.5) / MAX_CYCLES
        spread = np.quantile(values[~periodic], levels, axis=1).T
        out[~periodic] = spread[:, :, None]
    return out


def continued(values: FloatArray, period_steps: FloatArray, horizon: int) -> FloatArray:
    """The next steps of rows that each go on with a rhythm of their own, (n_rows, SCENARIOS, horizon).

    A scenario repeats one past iteration of the row, begun when the newest iterations say that the next ones begin:
    early or late by what that is unsure by, and the more so the further ahead. The same every time.

    Args:
        values: (n_rows, n_points) without missing points.
        period_steps: (n_rows,) about how long an iteration is, fractional; NaN where a row has none. Such a row gives
            its own spread, as in ``cycles_of``.
        horizon: steps ahead.
    """
    n_rows, n_points = values.shape
    pick = _picks(n_rows)
    out = np.take_along_axis(
        cycles_of(values, np.full(n_rows, np.nan), horizon), (pick % MAX_CYCLES)[:, :, None], axis=1
    )
    found = align(values, period_steps)
    row = np.flatnonzero(np.isfinite(found.period))
    if row.size == 0:
        return out
    early, pace = _normal(n_rows)[:, row]
    period = np.maximum(1.0, found.period[row, None] + pace * found.period_sd[row, None])
    source = pick[row] % np.minimum(found.count[row], MAX_CYCLES)[:, None]
    lag = found.lag[row[:, None], source]
    late = early * found.phase_sd[row, None]
    ahead = np.arange(1, horizon + 1, dtype=np.float64)
    turns = np.ceil((ahead - late[:, :, None]) / period[:, :, None] - 1e-9)
    place = n_points - 1 + ahead - late[:, :, None] - turns * period[:, :, None] - lag[:, :, None]
    place = np.clip(place, 0.0, n_points - 1.0)
    low = np.minimum(place.astype(np.intp), n_points - 2)
    part = place - low
    wide = row[:, None, None]
    out[row] = (1.0 - part) * values[wide, low] + part * values[wide, low + 1]
    return out


def _picks(n_rows: int) -> NDArray[np.intp]:
    """Which past iteration each row repeats in each scenario, (n_rows, SCENARIOS).

    The picks walk through the iterations at a different stride per row: spread evenly and the same every time.
    """
    strides = np.array([1, 5, 7, 11])
    scenario = np.arange(SCENARIOS)[None, :]
    row = np.arange(n_rows)[:, None]
    return np.asarray(scenario * strides[row % strides.size] + scenario // MAX_CYCLES + row // strides.size, np.intp)


def _normal(n_rows: int) -> FloatArray:
    """Two standard normal numbers per row and scenario, (2, n_rows, SCENARIOS): each evenly spread, in its own order."""
    # Here, not above: the service imports this module for its types and would start half a second later.
    from scipy.special import ndtri

    even = ndtri((np.arange(SCENARIOS) + 0.5) / SCENARIOS)
    order = np.random.default_rng(7).permuted(np.tile(np.arange(SCENARIOS), (n_rows, 2, 1)), axis=2)
    return np.asarray(even[order.transpose(1, 0, 2)], np.float64)


def crossing(scenarios: FloatArray, threshold: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Share of scenarios above ``threshold`` per step (n_rows, horizon), share that ever cross (n_rows,), and first
    crossing step in the middle crossing scenario (n_rows,), NaN where none crosses.
    """
    above: NDArray[np.bool_] = np.asarray(scenarios > threshold, np.bool_)
    ever: NDArray[np.bool_] = np.asarray(above.any(axis=2), np.bool_)
    first = np.where(ever, above.argmax(axis=2).astype(np.float64), np.nan)
    onset = np.full(scenarios.shape[0], np.nan)
    for row in np.flatnonzero(ever.any(axis=1)):
        onset[row] = np.median(first[row, ever[row]])
    return above.mean(axis=1), ever.mean(axis=1), onset
