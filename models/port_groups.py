"""Which ports rise and fall together: the ports of one job, found from traffic alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from models.quantiles import Floats

ALIKE = 0.7
"""Correlation from which two ports are taken for one job's."""
LEAST_POINTS = 12
"""Fewer common points than this show no likeness."""


def standard_rows(values: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """Rows of mean 0 and variance 1, gaps as 0, and which rows move at all.

    Args:
        values: (n, t), NaN where missing.
    """
    known = np.isfinite(values)
    count = np.maximum(known.sum(axis=1, keepdims=True), 1)
    mean = np.where(known, values, 0.0).sum(axis=1, keepdims=True) / count
    centred = np.where(known, values - mean, 0.0)
    spread = np.sqrt((centred**2).sum(axis=1, keepdims=True) / count)
    moving = (spread > 1e-9 * np.maximum(np.abs(mean), 1e-12)) & (known.sum(axis=1, keepdims=True) >= LEAST_POINTS)
    result: Floats = np.where(moving, centred / np.where(moving, spread, 1.0), 0.0)
    return result, moving[:, 0]


def traffic_groups(values: Floats, alike: float = ALIKE) -> NDArray[np.int32]:
    """(n,) number of each row's group; a row like no other stands alone.

    The row with most likenesses leads a group and takes every free row that is like it, then the next one leads.

    Args:
        values: (n, t) traffic, NaN where missing.
        alike: correlation from which rows belong together.
    """
    n = values.shape[0]
    group = np.full(n, -1, np.int32)
    like = likeness(values) >= alike
    number = 0
    while True:
        free = group < 0
        friends = (like & free[None, :] & free[:, None]).sum(axis=1)
        if not friends.any() or friends.max() < 2:
            break
        leader = int(friends.argmax())
        group[like[leader] & free] = number
        number += 1
    alone = np.flatnonzero(group < 0)
    group[alone] = number + np.arange(alone.size, dtype=np.int32)
    return group


def likeness(values: Floats) -> Floats:
    """(n, n) correlation of the rows' square roots over their common points; 0 for rows that stand still."""
    standard, moving = standard_rows(np.sqrt(np.maximum(values, 0.0)))
    known = np.isfinite(values).astype(np.float64)
    common = np.maximum(known @ known.T, 1.0)
    result: Floats = np.where(moving[:, None] & moving[None, :], (standard @ standard.T) / common, 0.0)
    return result


def alike_means(values: Floats, weight: Floats) -> Floats:
    """(n, t) mean of all rows as weighted by each row, over what is known; NaN where nothing is.

    Args:
        values: (n, t), NaN where missing.
        weight: (n, n) how much each row listens to each other one.
    """
    known = np.isfinite(values)
    total = weight @ np.where(known, values, 0.0)
    count = weight @ known.astype(np.float64)
    result: Floats = np.where(count > 1e-9, total / np.maximum(count, 1e-9), np.nan)
    return result


def group_means(rows: Floats, group: NDArray[np.int32], known: NDArray[np.bool_]) -> tuple[Floats, NDArray[np.intp]]:
    """(n_groups, t) mean of each group's known values, NaN where none is known; and the place of each row's group."""
    labels, index = np.unique(group, return_inverse=True)
    order = np.argsort(index, kind="stable")
    start = np.searchsorted(index[order], np.arange(labels.size))
    total = np.add.reduceat(np.where(known, rows, 0.0)[order], start, axis=0)
    count = np.add.reduceat(known.astype(np.float64)[order], start, axis=0)
    mean: Floats = np.where(count > 0, total / np.maximum(count, 1.0), np.nan)
    return mean, index
