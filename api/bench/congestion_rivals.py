"""What every forecast of congestion must beat: always yes, each port's climatology, its season, its present state."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from api.bench.congestion_data import Fabric
from api.bench.congestion_tasks import UNSEEN_S, Floats, Task, own_period


def rivals(fabric: Fabric, task: Task) -> dict[str, Floats]:
    """Rival -> (n, t) chance said at the end of each bin."""
    shape = task.truth.shape
    return {
        "always_yes": np.ones(shape),
        "climatology": climatology(fabric, task),
        "seasonal_naive": seasonal(fabric, task),
        "persistence": persistence(task),
    }


def climatology(fabric: Fabric, task: Task) -> Floats:
    """How often the port's answer was yes in the training part; of a job never seen, in its last minutes."""
    if task.unseen:
        return _recent_share(task.state, round(UNSEEN_S / fabric.step_s))
    part = task.truth[:, fabric.origins("training", task.horizon)]
    known = np.isfinite(part)
    rate = np.where(known, part, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    return np.repeat(rate[:, None], task.truth.shape[1], axis=1)


def _recent_share(state: Floats, points: int) -> Floats:
    """(n, t) share of events among the last points."""
    known = np.isfinite(state)
    total = np.pad(np.cumsum(np.where(known, state, 0.0), axis=1), ((0, 0), (points, 0)))
    count = np.pad(np.cumsum(known, axis=1), ((0, 0), (points, 0)))
    seen = count[:, points:] - count[:, :-points]
    result: Floats = (total[:, points:] - total[:, :-points]) / np.maximum(seen, 1)
    return result


def persistence(task: Task) -> Floats:
    """The last known state."""
    known = np.isfinite(task.state)
    column = np.maximum.accumulate(np.where(known, np.arange(task.state.shape[1]), 0), axis=1)
    result: Floats = np.nan_to_num(np.take_along_axis(task.state, column, axis=1))
    return result


def seasonal(fabric: Fabric, task: Task) -> Floats:
    """The state a whole number of periods before each lead; the period is the port's own.

    Of the training part; for a job never seen, of its last minutes at each moment.
    """
    n, t = task.state.shape
    filled = persistence(task)
    if not task.unseen:
        period, _ = own_period(fabric.traffic[:, fabric.first_origin : fabric.training_end])
        return seasonal_states(filled, np.repeat(period[:, None], t, axis=1), task.leads)
    points = round(UNSEEN_S / fabric.step_s)
    period = np.ones((n, t), np.intp)
    for origin in fabric.origins("middle", task.horizon).tolist() + fabric.origins("scored", task.horizon).tolist():
        period[:, origin] = own_period(fabric.traffic[:, origin + 1 - points : origin + 1])[0]
    return seasonal_states(filled, period, task.leads)


def seasonal_states(filled: Floats, period: NDArray[np.intp], leads: Iterable[int]) -> Floats:
    """(n, t) greatest state a whole number of periods before any of the leads.

    Args:
        filled: (n, t) states without gaps.
        period: (n, t) in points, as known at each.
        leads: points ahead.
    """
    n, t = filled.shape
    out = np.zeros((n, t))
    rows = np.arange(n)[:, None]
    for lead in leads:
        back = -(-lead // period) * period
        out = np.maximum(out, filled[rows, np.maximum(np.arange(t) + lead - back, 0)])
    return out
