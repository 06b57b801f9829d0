"""Plainer rules for one member that is behind its peers, for the benchmark's table. None of them is served."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Alarms = NDArray[np.bool_]
RECENT = 10


def fixed_threshold_alarms(cost: Floats) -> Alarms:
    """(n_members, n_readings): the mean of ten readings lies a fifth above the mean of all members'."""
    recent = _recent_mean(cost)
    return _onsets(recent > 1.2 * np.mean(recent, axis=0))


def three_sigma_alarms(cost: Floats) -> Alarms:
    """The mean of ten readings lies three standard deviations over members above the mean of all members'.

    Among ten members or fewer that can never be: the largest deviation of n members is (n - 1) / sqrt(n).
    """
    recent = _recent_mean(cost)
    return _onsets(recent > np.mean(recent, axis=0) + 3.0 * np.std(recent, axis=0))


def slowest_share_alarms(cost: Floats) -> Alarms:
    """The member was the slowest of all in eight of the last ten readings."""
    worst = (cost == np.max(cost, axis=0)).astype(np.float64)
    return _onsets(_recent_mean(worst) >= 0.8)


def _recent_mean(values: Floats) -> Floats:
    """Mean of the last ten; NaN before there are ten."""
    total = np.cumsum(np.pad(values, ((0, 0), (RECENT, 0))), axis=1)
    mean: Floats = (total[:, RECENT:] - total[:, :-RECENT]) / RECENT
    mean[:, : RECENT - 1] = np.nan
    return mean


def _onsets(state: Alarms) -> Alarms:
    first = state.copy()
    first[:, 1:] &= ~state[:, :-1]
    return first
