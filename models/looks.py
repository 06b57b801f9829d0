"""What repeats in a context, looked for once in a while: a period does not change from one round to the next."""

from __future__ import annotations

from collections import OrderedDict

from features.frame import Context
from models.period import Repeat, find_repeats
from models.rounds import COLUMNS_ALIKE, Key, Question

LASTS_POINTS = 64
"""A look serves for this many points. Folding finds the place in the cycle anew in any case, and forgives an error of the
period; the look itself rests on hundreds of points."""
MOST_LOOKS = 4096
"""Looks kept over all jobs, oldest use first out."""


class Looks:
    """Looks of earlier rounds, found again by the content that they saw."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Key, tuple[Repeat, ...]] = OrderedDict()

    def __call__(self, context: Context) -> tuple[Repeat, ...]:
        """The newest look at this context that is not too old, else one made now."""
        question = Question((), context, 0)
        oldest = max(COLUMNS_ALIKE, context.n_points - LASTS_POINTS)
        for column in range(context.n_points, oldest - 1, -1):
            key = question.at(column)
            if key is not None and key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        found = tuple(find_repeats(context))
        newest = question.at(context.n_points)
        if newest is not None:
            self._kept[newest] = found
            while len(self._kept) > MOST_LOOKS:
                self._kept.popitem(last=False)
        return found
