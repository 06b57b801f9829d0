"""Who is asked about a group's period: rows that move, a few of each metric."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from features.frame import Context
from models.period_acf import acf_batch
from models.period_vote import MAX_LAG_SHARE

LEAST_POINTS = 20
"""Fewer points than this cannot hold four periods of four samples and still show noise apart."""
MOST_VOTERS = 8
"""Rows of one metric and group that are asked, evenly spread; hundreds of cards at one rhythm say what eight say."""
FLOOR_BY_UNIT: tuple[tuple[str, float], ...] = (
    ("_bytes_per_s", 1e7),
    ("_ratio", 0.005),
    ("_watts", 2.0),
    ("_celsius", 1.0),
    ("_bytes", 1e8),
)
"""Spread (one standard deviation) below which a row of this unit is idle: the chatter of a machine without work."""


@dataclass(frozen=True, slots=True, eq=False)
class Voters:
    """Rows of a group that may vote.

    Args:
        rows: (n_voters,) places in the group of those that are asked.
        acf: (n_voters, max_lag + 1) of them.
        all_rows: (n_alive,) places of all that may.
        metric: (n_alive,) number of their metric.
        asked: (n_alive,) which of them are asked.
    """

    rows: NDArray[np.intp]
    acf: NDArray[np.float32]
    all_rows: NDArray[np.intp]
    metric: NDArray[np.intp]
    asked: NDArray[np.bool_]

    def spread(self, score: NDArray[np.float64], n_rows: int) -> NDArray[np.float64]:
        """(n_rows,) the voters' scores in their places, their metric's mean for rows that were not asked, 0 elsewhere."""
        count = np.bincount(self.metric[self.asked], minlength=self.metric.max() + 1)
        mean = np.bincount(self.metric[self.asked], score, count.size) / np.maximum(count, 1)
        own = mean[self.metric]
        own[self.asked] = score
        out = np.zeros(n_rows)
        out[self.all_rows] = own
        return out


def voters_of(context: Context, index: NDArray[np.intp]) -> Voters | None:
    """Rows of a group that move and hold enough points, with the voters' autocorrelation; None when there are none."""
    values = context.values[index]
    names = [context.metric[i] for i in index]
    rows = np.flatnonzero(active_rows(values, names))
    if not rows.size:
        return None
    metric = np.unique([names[row] for row in rows], return_inverse=True)[1].astype(np.intp)
    asked = evenly_spread(metric, MOST_VOTERS)
    acf = acf_batch(values[rows[asked]], int(MAX_LAG_SHARE * context.n_points))
    good = np.isfinite(acf[:, 0])
    asked[np.flatnonzero(asked)[~good]] = False
    return Voters(rows[asked], acf[good], rows, metric, asked) if good.any() else None


def evenly_spread(label: NDArray[np.intp], most: int) -> NDArray[np.bool_]:
    """(n,) true for at most ``most`` rows of each label (n,), evenly spread over them."""
    chosen = np.zeros(label.size, bool)
    for number in np.unique(label):
        rows = np.flatnonzero(label == number)
        places = np.arange(rows.size) if rows.size <= most else np.rint(np.linspace(0, rows.size - 1, most))
        chosen[rows[places.astype(np.intp)]] = True
    return chosen


def active_rows(values: NDArray[np.float64], metrics: Sequence[str]) -> NDArray[np.bool_]:
    """Rows (n_rows,) whose spread is above the idle floor of their unit and that hold enough values."""
    known = np.isfinite(values)
    count = known.sum(axis=1)
    mean = np.where(known, values, 0.0).sum(axis=1) / np.maximum(count, 1)
    centred = np.where(known, values - mean[:, None], 0.0)
    sd = np.sqrt((centred**2).sum(axis=1) / np.maximum(count, 1))
    floor = np.array([next((f for unit, f in FLOOR_BY_UNIT if name.endswith(unit)), 0.0) for name in metrics])
    return np.asarray((sd > np.maximum(floor, 1e-9 * np.abs(mean))) & (count >= LEAST_POINTS))
