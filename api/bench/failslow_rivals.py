"""Plainer rules for a job that has become slow, or for one member behind its peers; the table's rivals, never served."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Alarms = NDArray[np.bool_]
PAST = 100
RECENT = 10


def persistence_alarms(step_s: Floats) -> Alarms:
    """(n_jobs, n_steps): a step is a tenth longer than the step before."""
    alarms = np.zeros(step_s.shape, dtype=np.bool_)
    alarms[:, 1:] = step_s[:, 1:] > 1.1 * step_s[:, :-1]
    return alarms


def three_in_a_row_alarms(step_s: Floats) -> Alarms:
    """Three steps in a row are a twentieth longer than the mean of the hundred before them."""
    mean, _ = _past(step_s, gap=3)
    slow = step_s > 1.05 * mean
    alarms = np.zeros(step_s.shape, dtype=np.bool_)
    alarms[:, 2:] = slow[:, 2:] & slow[:, 1:-1] & slow[:, :-2]
    return _onsets(alarms)


def z_score_alarms(step_s: Floats) -> Alarms:
    """The mean of ten steps lies three standard errors above the mean of the hundred before them."""
    mean, deviation = _past(step_s, gap=RECENT)
    total = np.cumsum(np.pad(step_s, ((0, 0), (RECENT, 0))), axis=1)
    recent = (total[:, RECENT:] - total[:, :-RECENT]) / RECENT
    return _onsets(recent > mean + 3.0 * deviation / np.sqrt(RECENT))


def _past(step_s: Floats, *, gap: int) -> tuple[Floats, Floats]:
    """Mean and standard deviation of the hundred steps that end ``gap`` steps before each; NaN while there are fewer than 20."""
    n = step_s.shape[1]
    count = np.clip(np.arange(n) - gap + 1, 0, PAST)
    sums = [np.cumsum(np.pad(power, ((0, 0), (1, 0))), axis=1) for power in (step_s, step_s**2)]
    high = np.clip(np.arange(n) - gap + 1, 0, n)
    low = high - count
    with np.errstate(invalid="ignore", divide="ignore"):
        mean, square = ((total[:, high] - total[:, low]) / count for total in sums)
        deviation = np.sqrt(np.maximum(square - mean**2, 0.0))
    mean[:, count < 20] = np.nan
    return mean, deviation


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
    """An alarm counts once while it lasts."""
    first = state.copy()
    first[:, 1:] &= ~state[:, :-1]
    return first
