"""Profiling fields that stand still while their GPU works: the module behind them is stopped or held by another profiler.

DCGM then prints its last number, or 0, for ever. Such a number looks like a measurement, so it is found by what the
same GPU's power and utilisation do meanwhile, which do not come from the profiling module. Told as frozen is only what
a working module could not show:

- engine, SM or memory activity of 0, or of next to nothing, while utilisation is above 10 %;
- an engine that is always busy (exactly 1) while utilisation falls below 80 %;
- any number in between that does not change in its last digit while power or utilisation swings.

A pipe that a job does not use is rightly 0 for days, so 0 alone condemns no field; but once one of the three shows that
the module stands still, every profiling field of the device that did not move with it is frozen too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from features.store.base import Series
from features.transforms.grid import by_times
from telemetry.catalogue import BY_NAME, PROFILED, Kind, Level
from telemetry.ids import GpuId, SeriesKey
from telemetry.samples import Reason

POWER = "gpu_power_watts"
UTIL = "gpu_util_ratio"
CORE = ("gpu_gr_engine_active_ratio", "gpu_sm_active_ratio", "gpu_dram_active_ratio")
"""Activity that no kernel can leave at 0."""
WATCHED = frozenset(
    name for name in PROFILED if BY_NAME[name].level is Level.DEVICE and BY_NAME[name].kind is not Kind.COUNTER
)
"""Profiling fields of a device that have no reason to repeat a number to its last digit; a counter has."""
ALWAYS_BUSY = "gpu_gr_engine_active_ratio"

MIN_READINGS = 8
MIN_SPAN_S = 20.0
"""Shorter stands are one slow refresh of an exporter (30 s by default, of which each read repeats the same numbers)."""
MIN_MOVES = 4
"""So often must power or utilisation change meanwhile: an exporter that refreshes slowly holds all its fields alike."""
BUSY_RATIO = 0.10
BUSY_SHARE = 0.5
"""Share of the readings that have to be busy: utilisation lags behind by a second, and one spike is no proof."""
NOT_BUSY_RATIO = 0.80
FLOOR_RATIO = 1e-3
"""An idle card's activity is a few millionths (refresh, the driver's own work), printed with six decimals: such a number
repeats without being frozen, so below this a ratio is judged as 0 is."""
SWING_RATIO = 0.10
"""Power counts as swinging when it spans this share of its highest reading; utilisation when it spans this much."""


@dataclass(frozen=True, slots=True)
class Frozen:
    """One field of one device that stood still.

    Args:
        key: which series.
        from_s: first reading of the stand, Unix seconds.
        to_s: last reading of it.
        value: where it stood, catalogue unit.
        evidence: a sentence with the numbers that prove it.
    """

    key: SeriesKey
    from_s: float
    to_s: float
    value: float
    evidence: str


@dataclass(frozen=True, slots=True)
class _Stand:
    """A run of equal readings."""

    series: Series
    first: int
    last: int

    @property
    def value(self) -> float:
        return float(self.series.value[self.first])

    @property
    def from_s(self) -> float:
        return float(self.series.at_s[self.first])

    @property
    def to_s(self) -> float:
        return float(self.series.at_s[self.last])


def frozen_fields(series: Sequence[Series]) -> list[Frozen]:
    """Every stand that a working profiling module could not show, by device and metric.

    Args:
        series: profiling metrics with the power and utilisation of the same cards; others are passed over.
    """
    witnesses = {(one.key.metric, one.key.entity): one for one in series if one.key.metric in (POWER, UTIL)}
    profiled = [one for one in series if one.key.metric in WATCHED]
    proven: dict[str, list[tuple[_Stand, str]]] = {}
    for one in _suspects([one for one in profiled if one.key.metric in CORE], zeros=True) + _suspects(
        [one for one in profiled if one.key.metric not in CORE], zeros=False
    ):
        stand = _longest_stand(one)
        card = str(GpuId.parse(one.key.entity).card)
        if stand and (text := _proof(stand, witnesses.get((POWER, card)), witnesses.get((UTIL, card)))):
            proven.setdefault(one.key.entity, []).append((stand, text))
    found = [
        Frozen(stand.series.key, stand.from_s, stand.to_s, stand.value, text)
        for stands in proven.values()
        for stand, text in stands
    ]
    return sorted(found + _companions(profiled, found), key=lambda one: (one.key.entity, one.key.metric))


def _suspects(series: Sequence[Series], *, zeros: bool) -> list[Series]:
    """Series with a run of equal readings that is long enough; a cheap look at all before a close one at few.

    Args:
        series: any.
        zeros: also those that are 0 all the time.
    """
    found: list[Series] = []
    for rows in by_times(series):
        values = np.array([series[row].value for row in rows])
        if values.shape[1] < MIN_READINGS:
            continue
        same = np.zeros(values.shape, np.int32)
        np.cumsum(values[:, 1:] == values[:, :-1], axis=1, out=same[:, 1:])
        run = MIN_READINGS - 1
        long = (same[:, run:] - same[:, :-run] == run).any(axis=1)
        if not zeros:
            long &= (values != 0).any(axis=1)
        found += [series[row] for row in rows[long]]
    return found


def _companions(profiled: Sequence[Series], proven: Sequence[Frozen]) -> list[Frozen]:
    """Other profiling fields of a device that stood still while one of the three was frozen."""
    culprits = {one.key.entity: one for one in proven if one.key.metric in CORE}
    done = {one.key for one in proven}
    found: list[Frozen] = []
    for one in profiled:
        culprit = culprits.get(one.key.entity)
        if culprit is None or one.key in done or (stand := _longest_stand(one)) is None:
            continue
        from_s, to_s = max(stand.from_s, culprit.from_s), min(stand.to_s, culprit.to_s)
        if to_s - from_s >= MIN_SPAN_S:
            text = f"{one.key.metric} stood at {stand.value:g} while {culprit.key.metric} of the device was frozen"
            found.append(Frozen(one.key, from_s, to_s, stand.value, text))
    return found


def without_frozen(series: Sequence[Series], frozen: Sequence[Frozen]) -> list[Series]:
    """The same series with frozen readings missing, ``Reason.FROZEN``; the input stays as it is."""
    spans = {one.key: one for one in frozen}
    return [_blank(one, spans[one.key]) if one.key in spans else one for one in series]


def frozen_notes(frozen: Sequence[Frozen]) -> dict[str, str]:
    """Metric -> what was found, in a sentence: one device's proof and how many others are like it."""
    by_metric: dict[str, list[Frozen]] = {}
    for one in frozen:
        by_metric.setdefault(one.key.metric, []).append(one)
    return {
        metric: f"{found[0].key.entity}: {found[0].evidence}"
        + (f"; {len(found) - 1} more devices alike" if len(found) > 1 else "")
        for metric, found in by_metric.items()
    }


def _blank(series: Series, span: Frozen) -> Series:
    inside = (series.at_s >= span.from_s) & (series.at_s <= span.to_s) & (series.reason == 0)
    value = np.where(inside, np.nan, series.value)
    reason = np.where(inside, np.uint8(Reason.FROZEN), series.reason).astype(np.uint8)
    return Series(series.key, series.at_s, value, reason, series.received_s)


def _longest_stand(series: Series) -> _Stand | None:
    """The longest run of equal good readings that is long enough to tell; None when there is none."""
    good = np.flatnonzero(series.reason == 0)
    if good.shape[0] < MIN_READINGS:
        return None
    value = series.value[good]
    edges = np.flatnonzero(value[1:] != value[:-1]) + 1
    if edges.shape[0] == good.shape[0] - 1:  # every reading differs: the usual case
        return None
    starts = np.concatenate([[0], edges])
    ends = np.concatenate([edges, [good.shape[0]]]) - 1
    longest = int(np.argmax(ends - starts))
    first, last = int(good[starts[longest]]), int(good[ends[longest]])
    enough = ends[longest] - starts[longest] + 1 >= MIN_READINGS
    return _Stand(series, first, last) if enough and series.at_s[last] - series.at_s[first] >= MIN_SPAN_S else None


def _proof(stand: _Stand, power: Series | None, util: Series | None) -> str:
    """Why a working module could not have shown this stand; empty when it could."""
    metric = stand.series.key.metric
    busy, watts = _during(util, stand), _during(power, stand)
    head = f"{metric} stood at {stand.value:g} for {stand.to_s - stand.from_s:.0f} s"
    if stand.value == 0.0 or (metric.endswith("_ratio") and stand.value < FLOOR_RATIO):
        share = float((busy > BUSY_RATIO).mean()) if busy.shape[0] >= MIN_READINGS else 0.0
        if metric in CORE and share >= BUSY_SHARE:
            return f"{head} while {UTIL} was {busy.mean():.2f} on average"
        return ""
    if stand.value == 1.0:
        idle = float((busy < NOT_BUSY_RATIO).mean()) if busy.shape[0] >= MIN_READINGS else 0.0
        if metric == ALWAYS_BUSY and idle >= BUSY_SHARE:
            return f"{head} while {UTIL} was {busy.mean():.2f} on average"
        return ""
    if _moves(watts) and np.ptp(watts) >= SWING_RATIO * watts.max():
        return f"{head} while {POWER} moved between {watts.min():.0f} and {watts.max():.0f}"
    if _moves(busy) and np.ptp(busy) >= SWING_RATIO:
        return f"{head} while {UTIL} moved between {busy.min():.2f} and {busy.max():.2f}"
    return ""


def _during(witness: Series | None, stand: _Stand) -> NDArray[np.float64]:
    """Good readings of a witness while the field stood."""
    if witness is None:
        return np.empty(0)
    first, last = np.searchsorted(witness.at_s, [stand.from_s, stand.to_s + 1e-6])
    value = witness.value[first:last]
    chosen: NDArray[np.float64] = value[witness.reason[first:last] == 0]
    return chosen


def _moves(value: NDArray[np.float64]) -> bool:
    return value.shape[0] > MIN_MOVES and int((value[1:] != value[:-1]).sum()) >= MIN_MOVES
