"""Occurrences of one phase of a job, and every simple rule by which the next one may be told from them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Floats = NDArray[np.float64]

RECENT = 5
"""Intervals behind a recent median: two odd ones among them move it little."""
UNITS = ("steps", "gap", "seconds")
STATISTICS = ("median", "mean", "last")


@dataclass(frozen=True, slots=True, eq=False)
class Occurrences:
    """Ended occurrences of one phase, oldest first.

    Args:
        start_s: (n,) Unix seconds.
        end_s: (n,) Unix seconds.
        step: (n,) number of the job's step at the start; NaN where unknown.
    """

    start_s: Floats
    end_s: Floats
    step: Floats

    @property
    def size(self) -> int:
        """How many."""
        return int(self.start_s.size)

    def newest(self, n: int) -> Occurrences:
        """The last ``n`` of them."""
        return Occurrences(self.start_s[-n:], self.end_s[-n:], self.step[-n:])


@dataclass(frozen=True, slots=True, eq=False)
class Rules:
    """What every rule foresaw after each occurrence, from what lay before it only.

    Args:
        unit: (n_rules,) what the rule counts: steps, seconds from end to start, seconds from start to start.
        statistic: (n_rules,) of the past counts: recent median, mean, last.
        count: (n_rules, n) what was taken for the next count, in the unit; NaN where too little is known.
        wait_s: (n_rules, n) the same as seconds after the end of the occurrence.
        length_s: (n_statistics, n) foreseen length of the next occurrence, in the order of ``STATISTICS``.
    """

    unit: tuple[str, ...]
    statistic: tuple[str, ...]
    count: Floats
    wait_s: Floats
    length_s: Floats


def rules(past: Occurrences) -> Rules:
    """Every rule after every occurrence; column k uses occurrences 0..k."""
    gap_s = past.start_s[1:] - past.end_s[:-1]
    length_s = past.end_s - past.start_s
    by = np.diff(past.step)
    by = np.where(by > 0, by, np.nan)  # a number that falls is a restart: no interval
    pace_s = np.maximum(gap_s, 0.0) / by
    pace_now_s = np.append(np.nan, _recent_median(pace_s))
    counts = {"steps": by, "gap": gap_s, "seconds": np.diff(past.start_s)}
    unit, statistic, count, wait_s = [], [], [], []
    for name in UNITS:
        for how in STATISTICS:
            told = np.append(np.nan, _statistic(how, counts[name]))
            unit.append(name)
            statistic.append(how)
            count.append(told)
            wait_s.append(told * pace_now_s if name == "steps" else told - length_s if name == "seconds" else told)
    lengths = np.stack([_statistic(how, length_s) for how in STATISTICS])
    return Rules(tuple(unit), tuple(statistic), np.stack(count), np.stack(wait_s), lengths)


def _statistic(how: str, value: Floats) -> Floats:
    """(n,) the statistic of the values up to and including each place."""
    if how == "median":
        return _recent_median(value)
    good = np.isfinite(value)
    if how == "mean":
        n = np.cumsum(good)
        total = np.cumsum(np.where(good, value, 0.0))
        return np.where(n > 0, total / np.maximum(n, 1), np.nan)
    last = np.maximum.accumulate(np.where(good, np.arange(value.size), -1))
    return np.where(last >= 0, value[last], np.nan) if value.size else value


def _recent_median(value: Floats) -> Floats:
    """(n,) median of the last ``RECENT`` known values up to each place."""
    if not value.size:
        return value
    padded = np.concatenate([np.full(RECENT - 1, np.nan), value])
    window = np.sort(sliding_window_view(padded, RECENT), axis=1)  # NaN sorts last
    n = np.isfinite(window).sum(axis=1)
    rows = np.arange(value.size)
    low, high = window[rows, np.maximum(n - 1, 0) // 2], window[rows, n // 2]
    return np.where(n > 0, np.where(n % 2 == 1, low, (low + high) / 2), np.nan)
