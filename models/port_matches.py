"""Moments of a group of ports that looked like now, and what followed them.

The mean of a group hides what a single port's counter adds by chance (a sample early or late), so the phase of a job's
iteration is found to a fraction of a sample: a bin that holds a third of a burst matches bins that held a third.

Source: analogue forecasting (Lorenz 1969), kernel weights as in Nadaraya-Watson regression.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.port_groups import alike_means, group_means, likeness, standard_rows
from models.quantiles import Floats, fill_forward

BANDWIDTH = 0.3
"""A match worse than the best by this share of the eighth best distance counts 1/e."""


@dataclass(frozen=True, slots=True, eq=False)
class Matches:
    """Moments that speak for each row.

    Args:
        column: (n, k) the last column of each moment.
        weight: (n, k) how much it says; rows sum to 1.
        unlikeness: (n,) distance of the best moment, in units of the group's variance.
    """

    column: NDArray[np.intp]
    weight: Floats
    unlikeness: Floats

    def following(self, values: Floats, lead: int) -> Floats:
        """(n, k) what each row showed ``lead`` points after the moments; NaN in gaps and where not yet known."""
        column = self.column + lead
        known = column < values.shape[1]
        found = values[np.arange(values.shape[0])[:, None], np.minimum(column, values.shape[1] - 1)]
        result: Floats = np.where(known, found, np.nan)
        return result

    def mean_following(self, values: Floats, lead: int, span: int) -> Floats:
        """(n, k) mean of the known ones of the ``span`` points that end ``lead`` after each moment."""
        known = np.isfinite(values)
        zero = np.zeros((values.shape[0], 1))
        total = np.hstack([zero, np.cumsum(np.where(known, values, 0.0), axis=1)])
        count = np.hstack([zero, np.cumsum(known, axis=1)])
        rows = np.arange(values.shape[0])[:, None]
        last = np.minimum(self.column + lead + 1, values.shape[1])
        first = np.minimum(self.column + lead + 1 - span, last)
        seen = count[rows, last] - count[rows, first]
        result: Floats = np.where(seen > 0, (total[rows, last] - total[rows, first]) / np.maximum(seen, 1.0), np.nan)
        return result

    def mean(self, sample: Floats) -> Floats:
        """(n,) weighted mean of what ``following`` gave; NaN where nothing is known."""
        known = np.isfinite(sample)
        weight = np.where(known, self.weight, 0.0)
        total = weight.sum(axis=1)
        mean = (weight * np.where(known, sample, 0.0)).sum(axis=1) / np.where(total > 0, total, 1.0)
        result: Floats = np.where(total > 0, mean, np.nan)
        return result

    def quantile(self, sample: Floats, level: float) -> Floats:
        """(n,) weighted quantile; NaN where nothing is known."""
        known = np.isfinite(sample)
        order = np.argsort(np.where(known, sample, np.inf), axis=1)
        ordered = np.take_along_axis(sample, order, axis=1)
        weight = np.take_along_axis(np.where(known, self.weight, 0.0), order, axis=1)
        reached = np.cumsum(weight, axis=1)
        place = (reached >= level * reached[:, -1:]).argmax(axis=1)
        result: Floats = ordered[np.arange(sample.shape[0]), place]
        return result


def group_profile(values: Floats, group: NDArray[np.int32]) -> tuple[Floats, NDArray[np.intp]]:
    """(n_groups, t) standardised mean traffic of each group without gaps, and the place of each row's group."""
    standard, _ = standard_rows(values)
    mean, index = group_means(standard, group, np.isfinite(values))
    level = standard_rows(mean)[0]
    level = np.where(np.isfinite(mean), level, np.nan)
    filled = fill_forward(level)
    return np.where(np.isfinite(filled), filled, 0.0), index


LISTENS = 0.3
"""A port listens to ports that correlate with it by more than this, by the square of it."""


def alike_profile(values: Floats, column: int | None = None) -> Floats:
    """(n, t) standardised mean of each row and the rows like it, without gaps: a soft group of its own for every row.

    Args:
        values: (n, t), NaN where missing.
        column: which rows are alike is learnt from the first ``column`` points; from all when None.
    """
    like = likeness(values[:, :column])
    weight = np.where(like > LISTENS, like, 0.0) ** 2
    np.fill_diagonal(weight, 1.0)
    standard = np.where(np.isfinite(values), standard_rows(values)[0], np.nan)
    mean = alike_means(standard, weight)
    level = np.where(np.isfinite(mean), standard_rows(mean)[0], np.nan)
    filled = fill_forward(level)
    result: Floats = np.where(np.isfinite(filled), filled, 0.0)
    return result


def unlikeness(profile: Floats, window: int, memory: float) -> Floats:
    """(n_groups, t - window + 1) how unlike the newest points each earlier stretch was; column j ends at window - 1 + j.

    Args:
        profile: (n_groups, t) of ``group_profile``.
        window: newest points that must look alike.
        memory: weight of a point against the weight of the point after it.
    """
    weight = memory ** np.arange(window)[::-1]
    weight /= weight.sum()
    now = profile[:, -window:]
    past = np.lib.stride_tricks.sliding_window_view(profile, window, axis=1)
    squares = np.lib.stride_tricks.sliding_window_view(profile**2, window, axis=1)
    cross = np.einsum("gtw,gw->gt", past, now * weight)
    result: Floats = np.maximum(squares @ weight - 2.0 * cross + (now**2 @ weight)[:, None], 0.0)
    return result


def nearest(
    distance: Floats, window: int, index: NDArray[np.intp], most: int, least_lag: int, bandwidth: float = BANDWIDTH
) -> Matches:
    """The ``most`` best moments of each row's group.

    Args:
        distance: of ``unlikeness``, with the same window.
        window: points compared.
        index: (n,) place of each row's group.
        most: moments kept.
        least_lag: moments less than this many points ago have not shown their lead yet.
        bandwidth: a match worse than the best by this share of the eighth best distance counts 1/e.
    """
    usable = distance[:, : max(1, distance.shape[1] - max(least_lag, 1))]
    k = min(most, usable.shape[1])
    best = np.argpartition(usable, k - 1, axis=1)[:, :k]
    gap = np.take_along_axis(usable, best, axis=1)
    eighth = min(8, k) - 1
    unit = np.maximum(np.partition(gap, eighth, axis=1)[:, eighth : eighth + 1], 1e-6)
    speak = np.exp(-(gap - gap.min(axis=1, keepdims=True)) / (bandwidth * unit))
    speak /= speak.sum(axis=1, keepdims=True)
    return Matches((best + window - 1)[index], speak[index], gap.min(axis=1)[index])
