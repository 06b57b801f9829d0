"""How much a counter grew, when, and what a host is called; shared by the signs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from features.store.base import Series
from features.transforms.counters import growth

HOUR_S = 3600.0
MOST_GROWTH = 2.0**64


@dataclass(frozen=True, slots=True)
class Move:
    """What a counter did in the window.

    Args:
        entity: whose.
        amount: by how much it grew.
        span_s: over how long it was read.
        since_s: first reading that shows growth.
        last_s: last reading that shows growth.
        moves: readings that show growth.
    """

    entity: str
    amount: float
    span_s: float
    since_s: float
    last_s: float
    moves: int

    @property
    def per_hour(self) -> float:
        """Growth an hour, over the window that was read."""
        return self.amount / max(self.span_s, 1.0) * HOUR_S


def move_of(series: Series) -> Move | None:
    """Growth of one counter; None where it did not grow, or by more than any counter of 64 bits can."""
    grown = growth(series)
    if grown.total.shape[0] < 2 or not 0 < grown.total[-1] <= MOST_GROWTH:
        return None
    steps = np.flatnonzero(np.diff(grown.total) > 0) + 1
    at_s = grown.at_s
    return Move(
        series.key.entity,
        float(grown.total[-1]),
        float(at_s[-1] - at_s[0]),
        float(at_s[steps[0]]),
        float(at_s[steps[-1]]),
        int(steps.size),
    )


def node_of_gpu(entity: str) -> str:
    """Host of a card, by the text form of its id."""
    return entity.rpartition(":")[0]
