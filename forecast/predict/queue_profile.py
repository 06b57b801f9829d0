"""How many GPUs are free from now on, as jobs end and others are given a place."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class FreeProfile:
    """A step function of free GPUs over seconds from now.

    Args:
        free: free now.
        ends: (seconds from now, GPUs) of the jobs that run.
        total: never more than this are free: lists may count a job's GPUs twice.
    """

    def __init__(self, free: int, ends: Iterable[tuple[float, int]], total: int) -> None:
        ordered = sorted((max(at_s, 0.0), count) for at_s, count in ends)
        self._at_s: Floats = np.array([0.0, *(at_s for at_s, _ in ordered)])
        self._free: Floats = np.minimum(np.cumsum([float(free), *(count for _, count in ordered)]), float(total))

    def place(self, count: int, lasts_s: float) -> float:
        """Take GPUs at the first moment from which on they stay free so long; that moment, inf when there is none."""
        short = np.flatnonzero(self._free < count)
        fits = np.flatnonzero(self._free >= count)
        if fits.size == 0:
            return float("inf")
        following = np.searchsorted(short, fits)
        until = np.full(fits.size, np.inf)
        has = following < short.size
        until[has] = self._at_s[short[following[has]]]
        good = np.flatnonzero(until - self._at_s[fits] >= lasts_s)
        if good.size == 0:
            return float("inf")
        start_s = float(self._at_s[fits[good[0]]])
        self._take(start_s, start_s + lasts_s, count)
        return start_s

    def _take(self, from_s: float, to_s: float, count: int) -> None:
        for at_s in (from_s, to_s):
            place = int(np.searchsorted(self._at_s, at_s))
            if place == self._at_s.size or self._at_s[place] != at_s:
                # np.insert does the same, with checks that cost more than the copy.
                self._at_s = np.concatenate((self._at_s[:place], (at_s,), self._at_s[place:]))
                self._free = np.concatenate((self._free[:place], self._free[place - 1 :]))
        held = (self._at_s >= from_s) & (self._at_s < to_s)
        self._free[held] -= count
