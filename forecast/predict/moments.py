"""Links foreseen from what followed the moments at which they and the links like them looked as they look now.

Needs neither a job nor a period; by ``models.port_matches``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from forecast.predict.ensembles import SCENARIOS
from forecast.predict.outlooks import persistence_scenarios
from models.port_matches import alike_profile, nearest, unlikeness

FloatArray = NDArray[np.float64]

WINDOW, MEMORY = 48, 0.95
"""Points compared, and the weight of a point against the weight of the point after it."""
MOMENTS = 48
LEAST_MOMENTS = 8
"""Where fewer moments have shown the whole horizon, they foretell nothing that persistence does not."""


def moments_profile(filled: FloatArray, column: int) -> FloatArray:
    """(n_links, n_points) what each link is compared by; which links are alike is known from before ``column``.

    Args:
        filled: (n_links, n_points) use without missing points.
        column: points known when likenesses are taken.
    """
    return alike_profile(filled, column)


def moment_scenarios(filled: FloatArray, profile: FloatArray, column: int, horizon: int) -> FloatArray:
    """(n_links, SCENARIOS, horizon) what followed the look-alike moments before ``column``, each as often as it is alike.

    Args:
        filled: (n_links, n_points) use without missing points.
        profile: of ``moments_profile``.
        column: points known.
        horizon: steps ahead.
    """
    window = min(WINDOW, (column - horizon) // 3)
    if window < 2 or column - horizon - window < LEAST_MOMENTS:
        return persistence_scenarios(filled, column, horizon)
    index = np.arange(filled.shape[0], dtype=np.intp)
    past = profile[:, :column]
    found = nearest(unlikeness(past, window, MEMORY), window, index, MOMENTS, horizon)
    reached = np.cumsum(found.weight, axis=1)
    level = (np.arange(SCENARIOS) + 0.5) / SCENARIOS
    chosen = np.minimum((reached[:, None, :] < level[None, :, None]).sum(axis=2), found.column.shape[1] - 1)
    start = np.take_along_axis(found.column, chosen, axis=1)
    place = np.minimum(start[:, :, None] + np.arange(1, horizon + 1), column - 1)
    return np.asarray(filled[index[:, None, None], place], np.float64)
