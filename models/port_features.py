"""What is known of every port at one moment: its own past, its group's, and what followed the moments that looked alike.

Traffic is given in units of the port's own mean, so that one model serves ports of any speed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.port_groups import group_means, traffic_groups
from models.port_matches import Matches, alike_profile, nearest, unlikeness
from models.quantiles import Floats

LAGS = 12
"""Newest points given as they are."""
SPANS = (3, 6, 12, 24, 60)
"""Points over which means are taken."""
WINDOWS: tuple[tuple[int, float], ...] = ((48, 0.95), (96, 0.98), (10, 0.8))
"""Points and memory of the comparisons: the rhythm, a long rhythm, and the last moments."""
MOMENTS = 48
HOT = 0.8
"""A sample from this share of a link's capacity on is hot."""


@dataclass(frozen=True, slots=True, eq=False)
class PortPast:
    """Ports up to one moment.

    Args:
        traffic: (n, t) bytes per second in both directions, NaN in gaps.
        peak: (n, t) greatest sample of each point as a ratio of capacity, NaN in gaps.
        neighbours: (n,) number of the switch that each port belongs to.
    """

    traffic: Floats
    peak: Floats
    neighbours: NDArray[np.int32]

    def until(self, column: int, points: int | None = None) -> PortPast:
        """What was known after ``column`` points, at most ``points`` of them."""
        first = 0 if points is None else max(0, column - points)
        return PortPast(self.traffic[:, first:column], self.peak[:, first:column], self.neighbours)

    def rows(self, chosen: NDArray[np.intp]) -> PortPast:
        """Some ports only."""
        return PortPast(self.traffic[chosen], self.peak[chosen], self.neighbours[chosen])


@dataclass(frozen=True, slots=True, eq=False)
class PortView:
    """Features at one moment.

    Args:
        scale: (n,) bytes per second that count as 1.
        plain: (n, f) the port's own past and its switch's.
        grouped: (n, f) its group's past.
        found: a ``Matches`` per (window, lead block), see ``at``.
        leads: the leads whose matches were found.
        traffic: (n, t) in units of ``scale``.
    """

    scale: Floats
    plain: Floats
    grouped: Floats
    found: tuple[tuple[Matches, ...], ...]
    leads: tuple[int, ...]
    traffic: Floats
    group: NDArray[np.int32]

    def moments(self, lead: int) -> tuple[Matches, ...]:
        """The matches that have shown ``lead`` further points."""
        return self.found[next(k for k, known in enumerate(self.leads) if lead <= known)]

    def expected(self, lead: int, span: int = 1) -> Floats:
        """(n, 4 per window) mean, 10 %, 50 % and 90 % of what followed; mean of ``span`` points that end at ``lead``."""
        columns = []
        for one in self.moments(lead):
            sample = one.following(self.traffic, lead) if span == 1 else one.mean_following(self.traffic, lead, span)
            columns += [one.mean(sample), *(one.quantile(sample, level) for level in (0.1, 0.5, 0.9))]
        return np.column_stack(columns)

    def share(self, event: Floats, leads: Sequence[int]) -> Floats:
        """(n, n_windows) weighted share of the moments that were followed by the event at any of the leads.

        Args:
            event: (n, t) 1 or 0, NaN where unknown.
            leads: points ahead.
        """
        columns = []
        for one in self.moments(max(leads)):
            sample = np.stack([one.following(event, lead) for lead in leads])
            known = np.isfinite(sample)
            any_seen = np.where(known, sample, 0.0).max(axis=0)
            columns.append(one.mean(np.where(known.all(axis=0) | (any_seen > 0), any_seen, np.nan)))
        return np.column_stack(columns)


def port_view(past: PortPast, leads: Sequence[int], *, grouped: bool = True) -> PortView:
    """Everything known at the end of ``past``.

    Args:
        past: the ports.
        leads: leads that will be asked for.
        grouped: False leaves out groups and matches, for a plain model.
    """
    n = past.traffic.shape[0]
    scale = mean_known(past.traffic)
    scale = np.where(scale > 0, scale, 1.0)
    traffic = past.traffic / scale[:, None]
    plain = [_lag(traffic, k) for k in range(LAGS)]
    plain += [mean_known(traffic[:, -span:]) for span in SPANS]
    plain += [_lag(past.peak, k) for k in range(6)]
    plain += [_extreme(past.peak[:, -span:]) for span in SPANS]
    plain += [np.log10(scale), *_since(past.peak)]
    switch, place = group_means(traffic, past.neighbours, np.isfinite(traffic))
    plain += [_lag(switch, k)[place] for k in range(3)]
    ends = tuple(sorted(set(leads)))
    if not grouped:
        return PortView(scale, np.column_stack(plain), np.empty((n, 0)), (), ends, traffic, past.neighbours)
    group = traffic_groups(past.traffic)
    index = np.unique(group, return_inverse=True)[1]
    size = np.bincount(index)[index].astype(np.float64)
    level, _ = group_means(traffic, group, np.isfinite(traffic))
    crest, _ = group_means(past.peak, group, np.isfinite(past.peak))
    hot, _ = group_means((past.peak >= HOT).astype(np.float64), group, np.isfinite(past.peak))
    together = [_lag(level, k)[index] for k in range(LAGS)]
    together += [_lag(crest, k)[index] for k in range(3)] + [_lag(hot, k)[index] for k in range(3)]
    together += [mean_known(hot)[index], size]
    found = _found(alike_profile(past.traffic), ends)
    together += [one.unlikeness for one in found[0]]
    return PortView(scale, np.column_stack(plain), np.column_stack(together), found, ends, traffic, group)


def _found(profile: Floats, ends: tuple[int, ...]) -> tuple[tuple[Matches, ...], ...]:
    """Matches per lead and window; in a past that is short fewer points must look alike."""
    t, index = profile.shape[1], np.arange(profile.shape[0], dtype=np.intp)
    per_window = []
    for window, memory in WINDOWS:
        fitting = min(max(2, min(window, (t - ends[-1]) // 3)), t - 1)
        distance = unlikeness(profile, fitting, memory)
        per_window.append([nearest(distance, fitting, index, MOMENTS, lead) for lead in ends])
    return tuple(zip(*per_window, strict=True))


def mean_known(values: Floats) -> Floats:
    """(n,) mean of each row's known values; NaN without any."""
    known = np.isfinite(values)
    count = known.sum(axis=1)
    result: Floats = np.where(count > 0, np.where(known, values, 0.0).sum(axis=1) / np.maximum(count, 1), np.nan)
    return result


def _lag(values: Floats, lag: int) -> Floats:
    if values.shape[1] <= lag:
        return np.full(values.shape[0], np.nan)
    return values[:, -1 - lag]


def _extreme(values: Floats) -> Floats:
    top = np.where(np.isfinite(values), values, -np.inf).max(axis=1, initial=-np.inf)
    result: Floats = np.where(np.isfinite(top), top, np.nan)
    return result


def _since(peak: Floats) -> list[Floats]:
    """Points since the last hot one, points of the last quiet stretch before it, and the share of hot points."""
    t = peak.shape[1]
    hot = peak >= HOT
    column = np.where(hot, np.arange(t), -1)
    last = column.max(axis=1, initial=-1)
    before = np.where(np.arange(t) < last[:, None], column, -1).max(axis=1, initial=-1)
    none = last < 0
    since = np.where(none, np.nan, t - 1.0 - last)
    gap = np.where(before < 0, np.nan, last - before)
    known = np.isfinite(peak).sum(axis=1)
    return [since, gap.astype(np.float64), hot.sum(axis=1) / np.maximum(known, 1)]


MOMENTS_COLUMNS = slice(0, len(WINDOWS))
"""Where ``event_features`` puts the share of each comparison's moments that were followed by the event."""


def event_features(
    view: PortView, event: Floats, leads: Sequence[int], usual: Floats, level: Floats
) -> tuple[Floats, Floats]:
    """What is known about an event on every port: the port's own part, and what its group and its moments say.

    Args:
        view: everything known at the moment.
        event: (n, t) 1 where a point had the event, 0 where not, NaN where unknown; same points as the view.
        leads: the event counts at any of these points ahead.
        usual: (n,) how often the answer was yes.
        level: (n,) bytes per second that define the event, or any reference level of the port.
    """
    lead = max(leads)
    height = level / view.scale
    own = [usual, height, *(_lag(event, k) for k in range(6)), mean_known(event), mean_known(event[:, -12:])]
    share = view.share(event, leads)
    expected = view.expected(lead) if len(leads) == 1 else view.expected(lead, len(leads))
    labels, index = np.unique(view.group, return_inverse=True)
    means = expected[:, ::4]
    together = [_group_mean(column, index, labels.size) for column in (*share.T, *means.T)]
    more = np.column_stack([share, expected, means - height[:, None], *together, view.grouped])
    return np.column_stack([view.plain, *own]), more


def _group_mean(column: Floats, index: NDArray[np.intp], count: int) -> Floats:
    """(n,) mean of a column over each row's group."""
    known = np.isfinite(column)
    size = np.maximum(np.bincount(index, known, count), 1.0)
    mean: Floats = (np.bincount(index, np.where(known, column, 0.0), count) / size)[index]
    return mean
