"""What the gate gives: a forecast with what is known about its worth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.quantiles import Floats

OK = "ok"
INSUFFICIENT_HISTORY = "insufficient_history"


@dataclass(frozen=True, slots=True, eq=False)
class ServedForecast:
    """Forecasts of several series with what is known about their worth.

    Args:
        values: (n, horizon, n_levels) quantiles at ``LEVELS``, catalogue unit; always finite and inside bounds.
        model: (n,) names of the models inside, largest weight first, joined by ``+``; ``persistence`` when nothing
            beat it; ``constant`` for a row that never moved.
        version: (n,) of the models inside, same order.
        skill: (n,) 1 - WQL / WQL of persistence at past origins inside the context, shrunk towards 0; 0 for persistence.
        coverage80: (n,) share of truths inside the 80 % interval there; NaN when none was scored.
        coverage95: (n,) share inside the 95 % interval.
        scored: (n,) how many (origin, step) pairs that rests on.
        status: (n,) ``ok`` or ``insufficient_history``.
        points_present: (n,) points seen.
        points_needed: (n,) points needed before a model can be scored and chosen.
        reason: (n,) why this model, a sentence with the numbers used.
    """

    values: Floats
    model: tuple[str, ...]
    version: tuple[str, ...]
    skill: Floats
    coverage80: Floats
    coverage95: Floats
    scored: NDArray[np.int64]
    status: tuple[str, ...]
    points_present: NDArray[np.int64]
    points_needed: NDArray[np.int64]
    reason: tuple[str, ...]
