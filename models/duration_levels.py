"""Which level of a forecast distribution to serve so that it holds as often as it says, from the jobs that ended."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Sequence

import numpy as np

from models.duration_bins import Floats, chance_below

AGES_S: tuple[float, ...] = (0.0, 600.0, 3600.0, 6 * 3600.0, 24 * 3600.0)
"""Classes of age at the moment of asking; each has levels of its own."""
KEPT = 3000
"""Ended jobs whose place in their own forecast is remembered."""
PRIOR = 1000.0
"""Ended jobs at which half of the wanted correction is made."""


class LevelKeeper:
    """Remembers where in its forecast each duration fell (its PIT value) and corrects the levels asked for.

    If a tenth of the durations fell below level .08, then .08 is served where .1 is asked for. Feedback comes when a
    job ends, so that nothing later than the moment of asking is used.
    """

    def __init__(self) -> None:
        self._places: deque[float] = deque()
        self._sorted: list[float] = []

    def learn(self, place: float) -> None:
        """Add the place, 0..1, at which a duration fell in its forecast."""
        self._places.append(place)
        insort(self._sorted, place)
        if len(self._places) > KEPT:
            del self._sorted[bisect_left(self._sorted, self._places.popleft())]

    def served(self, levels: Sequence[float]) -> Floats:
        """(n_levels,) levels to read the distribution at where ``levels`` are meant."""
        asked = np.asarray(levels, np.float64)
        n = len(self._sorted)
        if n == 0:
            return asked
        wanted = np.asarray([self._sorted[min(int(level * n), n - 1)] for level in levels])
        trust = n / (n + PRIOR)
        result: Floats = trust * wanted + (1.0 - trust) * asked
        return result


class AgeLevels:
    """One ``LevelKeeper`` per class of age: a forecast given that a job is an hour old errs in its own way."""

    def __init__(self) -> None:
        self._keepers = tuple(LevelKeeper() for _ in AGES_S)
        self._hits: deque[bool] = deque(maxlen=KEPT)

    def learn(self, cdf: Floats, duration_s: float) -> None:
        """A job with that distribution function (n_bins + 1,) at its start ended after ``duration_s``."""
        place = float(chance_below(cdf, duration_s))
        low, high = self._keepers[0].served((0.1, 0.9))
        self._hits.append(bool(low <= place <= high))
        before = np.where(np.asarray(AGES_S) > 0, chance_below(cdf, np.asarray(AGES_S)), 0.0)
        for age_s, passed, keeper in zip(AGES_S, before, self._keepers, strict=True):
            if duration_s > age_s or age_s == 0:
                keeper.learn((place - float(passed)) / max(1.0 - float(passed), 1e-12))

    def served(self, levels: Sequence[float], age_s: float = 0.0) -> Floats:
        """(n_levels,) levels to read at where ``levels`` are meant, for a job of that age."""
        klass = int(np.searchsorted(AGES_S, max(age_s, 0.0), side="right")) - 1
        return self._keepers[klass].served(levels)

    def coverage80(self) -> float | None:
        """Share of the ended jobs that lay inside the 80 % interval as it would have been served then; None if none."""
        return sum(self._hits) / len(self._hits) if self._hits else None
