"""The chance that jobs which share a link send too much together: every job's continuations, combined at random.

Each job goes on as after one of its own look-alike moments; a combination takes one moment of every job. So jobs with
different periods meet in every way that their present phases allow, and only in those.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from models.port_matches import group_profile, nearest, unlikeness
from models.quantiles import Floats

COMBINATIONS = 200
"""Combined futures per link; the chance is known to about 3 %."""
MOMENTS = 24


def combined_chance(
    rows: Floats,
    link: NDArray[np.intp],
    capacity: Floats,
    horizon: int,
    *,
    window: int = 24,
    memory: float = 0.92,
    seed: int = 0,
) -> Floats:
    """(n_links,) chance that the sum of a link's jobs passes its capacity at any of the next points.

    Args:
        rows: (n_rows, t) traffic of each job on its link, NaN where missing.
        link: (n_rows,) number of the link that each row crosses, from 0.
        capacity: (n_links,) in the unit of the rows.
        horizon: points ahead.
        window: newest points that must look alike.
        memory: weight of a point against the weight of the point after it.
        seed: of the combinations.
    """
    n, t = rows.shape
    alone = np.arange(n, dtype=np.int32)
    profile, index = group_profile(rows, alone)
    fitting = min(max(2, min(window, (t - horizon) // 3)), t - 1)
    found = nearest(unlikeness(profile, fitting, memory), fitting, index, MOMENTS, horizon)
    ahead = np.stack([found.following(rows, lead) for lead in range(1, horizon + 1)], axis=2)  # (n, k, horizon)
    ahead = np.where(np.isfinite(ahead), ahead, np.nan_to_num(rows[:, -1])[:, None, None])
    random = np.random.default_rng(seed)
    reached = np.cumsum(found.weight, axis=1)
    drawn = random.random((n, COMBINATIONS))
    chosen = np.minimum((reached[:, None, :] < drawn[:, :, None]).sum(axis=2), reached.shape[1] - 1)
    futures = np.take_along_axis(ahead, chosen[:, :, None], axis=1)  # (n, combinations, horizon)
    together = np.zeros((capacity.size, COMBINATIONS, horizon))
    np.add.at(together, link, futures)
    over = (together > capacity[:, None, None]).any(axis=2).sum(axis=1)
    result: Floats = (over + 0.5) / (COMBINATIONS + 1.0)
    return result
