"""Scenarios of the near future made of whole past iterations.

A scenario repeats one past iteration, so bursts keep their length and shape; quantiles, chances and expected times
above a threshold are then counts over scenarios. Nothing here looks past the last column it is given.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

MAX_CYCLES = 6
"""Past iterations in use: few, so that a job that was moved or changed is followed within half a minute or so."""
SCENARIOS = 32
"""Combinations of iterations when several jobs with their own rhythm share a link."""


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


def mixed(cycles: FloatArray) -> FloatArray:
    """Scenarios in which every row picks its own past iteration, (n_rows, SCENARIOS, horizon).

    The picks walk through the iterations at a different stride per row: spread evenly and the same every time.
    """
    n_rows, n_cycles, _ = cycles.shape
    strides = np.array([1, 5, 7, 11])
    scenario = np.arange(SCENARIOS)
    pick = np.empty((n_rows, SCENARIOS), np.intp)
    for row in range(n_rows):
        start = row // strides.size
        pick[row] = (scenario * strides[row % strides.size] + scenario // n_cycles + start) % n_cycles
    return np.take_along_axis(cycles, pick[:, :, None], axis=1)


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
