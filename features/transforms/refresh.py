"""How often a source's values really change, as opposed to how often its page is read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from features.store.base import Series
from features.transforms.grid import by_times, infer_step_s

VOTERS_PER_METRIC = 4
MIN_CHANGES = 6
SLOWER_RATIO = 1.8
"""A refresh counts as slower than the reads from here on; below, it is jitter."""
NEAR_RATIO = 0.25
REGULAR_SHARE = 0.7
DISTINCT_SHARE = 0.6
"""Held readings of a measured quantity hardly ever return to an old value; a square wave always does."""


def refresh_step_s(series: Sequence[Series]) -> float:
    """Spacing of the fastest metric's distinct readings in seconds; NaN when no series has two samples.

    A page read each second whose exporter samples every 30 s repeats each value 30 times: its step is 30 s. A
    signal that merely stays constant for a while must not be mistaken for that, so values have to change at
    regular moments and to be new nearly each time.
    """
    voters = _voters(series)
    if not voters:
        return float("nan")
    read_step_s = min(infer_step_s(voters[group[0]].at_s) for group in by_times(voters))
    held = [_held_step_s(one, read_step_s) for one in voters]
    if any(step_s == 0.0 for step_s in held):
        return read_step_s
    slow = [step_s for step_s in held if np.isfinite(step_s)]
    return min(slow, default=read_step_s)


def _voters(series: Sequence[Series]) -> list[Series]:
    chosen: list[Series] = []
    votes: dict[str, int] = {}
    for one in series:
        metric = one.key.metric
        if one.at_s.shape[0] > 1 and votes.get(metric, 0) < VOTERS_PER_METRIC:
            votes[metric] = votes.get(metric, 0) + 1
            chosen.append(one)
    return chosen


def _held_step_s(series: Series, read_step_s: float) -> float:
    """Spacing at which this series' values are renewed; 0 when at every read, NaN when it cannot tell."""
    good = series.reason == 0
    value, at_s = series.value[good], series.at_s[good]
    change = np.flatnonzero(value[1:] != value[:-1]) + 1
    if change.shape[0] < MIN_CHANGES:
        return float("nan")
    spacing_s = np.diff(at_s[change])
    median_s = float(np.median(spacing_s))
    if median_s < SLOWER_RATIO * read_step_s:
        return 0.0
    regular = np.mean(np.abs(spacing_s - median_s) <= NEAR_RATIO * median_s) >= REGULAR_SHARE
    distinct = np.unique(value[change]).shape[0] >= DISTINCT_SHARE * change.shape[0]
    return infer_step_s(at_s[change]) if regular and distinct else float("nan")
