"""Which of several samples of one series at one instant counts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def first_good(series: NDArray[np.int64], at_s: NDArray[np.float64], reason: NDArray[np.uint8]) -> NDArray[np.intp]:
    """Positions of the samples that count: per (series, instant) the first good one, else the first.

    Args:
        series: (n,) group numbers, sorted.
        at_s: (n,) times, sorted within a group; equal ones in the order in which they were written.
        reason: (n,) 0 where the sample is good.

    Returns:
        (m,) increasing positions, one per distinct (series, instant).
    """
    n = int(at_s.shape[0])
    if n == 0:
        return np.empty(0, np.intp)
    starts_new = np.empty(n, np.bool_)
    starts_new[0] = True
    np.not_equal(series[1:], series[:-1], out=starts_new[1:])
    starts_new[1:] |= at_s[1:] != at_s[:-1]
    start = np.flatnonzero(starts_new)
    if start.shape[0] == n:
        return start
    # Rank = position for good samples, position + n for missing ones: the least rank of a run is the one that counts.
    position = np.arange(n, dtype=np.intp)
    least = np.minimum.reduceat(np.where(reason == 0, position, position + n), start)
    return np.where(least >= n, least - n, least)
