"""Link frames: what every watched port carried, on one grid."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from features.frame import Context, LinkFrame
from features.store.base import Reader, Series
from features.transforms.counters import rates_on_grid
from features.transforms.grid import by_times, infer_step_s, to_grid
from telemetry.catalogue import DERIVED_RATE
from telemetry.ids import SeriesKey

TX_COUNTER = "port_tx_bytes_total"
RX_COUNTER = "port_rx_bytes_total"
CAPACITY = "port_capacity_bytes_per_s"
STEP_VOTERS = 32
"""Ports that are asked for their spacing; more would not change the median."""
CAPACITY_WINDOW_S = 3600.0
"""Link speeds may be read more rarely than traffic."""


def known_links(reader: Reader) -> list[str]:
    """Text form of every link with a byte counter or a recorded rate, sorted."""
    return sorted({key.entity for key in reader.keys((TX_COUNTER, RX_COUNTER, *DERIVED_RATE.values()))})


def _recorded_rates(reader: Reader, counters: Sequence[Series], now_s: float, window_s: float) -> dict[int, Series]:
    """Place of a counter without samples -> the rate that a recording gives in its stead."""
    recorded = set(reader.keys(DERIVED_RATE.values()))
    if not recorded:
        return {}
    empty = [place for place, one in enumerate(counters) if not one.at_s.shape[0]]
    keys = {place: SeriesKey(DERIVED_RATE[counters[place].key.metric], counters[place].key.entity) for place in empty}
    keys = {place: key for place, key in keys.items() if key in recorded}
    return dict(zip(keys, reader.read(list(keys.values()), now_s, window_s), strict=True))


def read_capacities(reader: Reader, links: Sequence[str], as_of_s: float) -> NDArray[np.float64]:
    """(n_links,) newest link speed in bytes/s of one direction, NaN where none is known."""
    speeds = reader.read([SeriesKey(CAPACITY, link) for link in links], as_of_s, CAPACITY_WINDOW_S)
    return np.array([_last_good(speed) for speed in speeds], np.float64)


def _last_good(series: Series) -> float:
    good = series.value[(series.reason == 0) & (series.value > 0)]
    return float(good[-1]) if good.shape[0] else float("nan")


def newest_s(series: Iterable[Series]) -> float:
    """Time of the newest sample of all, -inf when there is none."""
    return max((float(one.at_s[-1]) for one in series if one.at_s.shape[0]), default=-np.inf)


def oldest_s(series: Iterable[Series]) -> float:
    """Time of the oldest sample of all, inf when there is none."""
    return min((float(one.at_s[0]) for one in series if one.at_s.shape[0]), default=np.inf)


def typical_step_s(series: Sequence[Series], voters: int = STEP_VOTERS) -> float:
    """Median spacing over some of the series, NaN when none has two samples."""
    spread = [one for one in series if one.at_s.shape[0] > 1]
    chosen = spread[:: max(1, len(spread) // voters)]
    steps = [infer_step_s(chosen[group[0]].at_s) for group in by_times(chosen)]
    return float(np.median(steps)) if steps else float("nan")


def point_count(first_s: float, end_s: float, step_s: float, max_points: int) -> int:
    """How many grid points lie between the first sample and the end, at most ``max_points``."""
    return int(min(max_points, np.floor((end_s - first_s) / step_s + 0.5) + 1))


def link_frame(
    reader: Reader,
    links: Sequence[str] | None = None,
    capacity_bytes_per_s: Mapping[str, float] | None = None,
    *,
    now_s: float,
    window_s: float,
    step_s: float | None = None,
    max_points: int = 1024,
) -> LinkFrame:
    """What the links carried up to ``now_s``; the last column stands at the newest counter reading.

    Args:
        reader: ring or store.
        links: text form of each link; every known one when None.
        capacity_bytes_per_s: link -> capacity, where the caller knows better than the exporter.
        now_s: nothing later is used.
        window_s: how far back.
        step_s: grid spacing; the counters' own when None.
        max_points: most columns.

    Returns:
        A frame with one row per link in ``tx`` and ``rx``; without any sample, zero columns and ``data_at_s`` 0.
    """
    names = tuple(known_links(reader) if links is None else links)
    capacity = read_capacities(reader, names, now_s)
    for row, name in enumerate(names):
        capacity[row] = (capacity_bytes_per_s or {}).get(name, capacity[row])
    wanted = [SeriesKey(metric, name) for metric in (TX_COUNTER, RX_COUNTER) for name in names]
    series = reader.read(wanted, now_s, window_s)
    recorded = _recorded_rates(reader, series, now_s, window_s)
    series = [recorded.get(place, one) for place, one in enumerate(series)]
    end_s = newest_s(series)
    step_s = typical_step_s(series) if step_s is None else step_s
    n_points = 0
    if np.isfinite(end_s) and step_s > 0:
        n_points = point_count(oldest_s(series), end_s, step_s, max_points)
    rates = np.full((len(series), n_points), np.nan)
    counters = [place for place in range(len(series)) if place not in recorded]
    rates[counters], _ = rates_on_grid([series[place] for place in counters], step_s, end_s, n_points)
    if recorded:
        rates[list(recorded)], _ = to_grid(list(recorded.values()), step_s, end_s, n_points)
    high = np.where(np.isnan(capacity), np.inf, capacity)
    # A counter read a moment late shows more than the wire can carry in one slot; the next slot shows less.
    rates = np.minimum(rates, np.concatenate([high, high])[:, None]) if len(names) else rates
    tx, rx = (
        Context(
            rates[part],
            step_s if step_s > 0 else 1.0,
            (DERIVED_RATE[metric],) * len(names),
            np.arange(len(names), dtype=np.int32),
            np.zeros(len(names)),
            high,
        )
        for part, metric in ((slice(0, len(names)), TX_COUNTER), (slice(len(names), None), RX_COUNTER))
    )
    received_s = max((one.received_s for one in series), default=0.0)
    return LinkFrame(end_s if np.isfinite(end_s) else 0.0, received_s, tx, rx, names, capacity)
