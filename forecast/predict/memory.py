"""How much GPU memory a job will hold, and the chance that it runs out.

Memory is a staircase. An allocator keeps what it once took, so that use stands still for minutes and then rises by a
step; a leak is a staircase of many small steps. A job is as near to its end as the peak of its use is to what the
device has, and use below an earlier peak was survived. So the peak is what is foreseen: steps of it come at the rate and
in the sizes seen lately, and the rate is only known as well as so few steps tell (a gamma distribution over a Poisson
rate with Jeffreys' prior). Besides, a step of a kind never seen may come; its size is drawn from a long-tailed prior.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from features.frame import JobFrame
from features.transforms.device_memory import USED
from forecast.predict.settings import PredictSettings
from forecast.predict.signals import signals
from forecast.predict.types import Absence, MemoryOutlook, MemoryTrend, Why

Floats = NDArray[np.float64]

LEAST_STEP_BYTES = 4 * 2**20
"""Use is told in whole MiB; a rise below this is not a step."""
SETTLES_S = 30.0
"""After its first work a job still takes memory that it keeps: optimiser state, the allocator's pools, a first
evaluation of shapes. What it takes before is no leak."""
LEAST_S = 30.0
"""Time after that in which steps are counted, at least."""
WORKS = 0.5
"""Share of its own top activity from which a job counts as working."""
LEAST_POINTS = 8
FREED_RATIO = 0.5
"""A fall by this share of what was held sets the peak back: the job, or its process, began anew."""
PRIOR_STEPS = 0.5
"""Jeffreys' prior of a rate: as if half a step had been seen."""
PRIOR_SIZE_RATIO, PRIOR_TAIL = 0.005, 2.0
"""A step of a kind never seen: Lomax sizes with a scale of half a per cent of the device and a tail of two."""
LEAK_STEPS, LEAK_PARTS = 8, 4
"""So many steps, and some in each of so many parts of the time looked at, are a leak."""
MOST_DEVICES = 8
"""Devices of a job looked at, nearest to their limit first; those of one job leak alike."""
DRAWS = 2000
ONE_BY_ONE = 32
"""Steps drawn one by one; of more, the sum is close to normal."""
FARTHEST_S = 86_400.0
"""Nothing is said of a limit farther away than a day."""


@dataclass(frozen=True, slots=True, eq=False)
class Staircase:
    """What lately happened to one device's peak.

    Args:
        used_bytes: newest reading.
        peak_bytes: highest since memory was last set free.
        steps_bytes: (n,) rises of the peak in the time looked at.
        at_ratio: (n,) when in that time, 0..1.
        span_s: how long that is.
    """

    used_bytes: float
    peak_bytes: float
    steps_bytes: Floats
    at_ratio: Floats
    span_s: float

    @property
    def slope_bytes_per_s(self) -> float:
        """Mean rise of the peak."""
        return float(self.steps_bytes.sum()) / self.span_s

    @property
    def trend(self) -> MemoryTrend:
        """Flat, steps or a leak."""
        if not self.steps_bytes.size:
            return MemoryTrend.FLAT
        parts = np.unique((self.at_ratio * LEAK_PARTS).astype(int).clip(0, LEAK_PARTS - 1)).size
        leaks = self.steps_bytes.size >= LEAK_STEPS and parts == LEAK_PARTS
        return MemoryTrend.LEAK if leaks else MemoryTrend.STEPS


def memory_outlook(frame: JobFrame, settings: PredictSettings) -> MemoryOutlook | Absence:
    """The outlook of the device that is likeliest to run out, or why none."""
    rows = [k for k, key in enumerate(frame.device_keys) if key.metric == USED]
    if not rows:
        return Absence(Why.MISSING_FIELD, f"{USED}: {frame.missing.get(USED, 'it is not collected for this job')}")
    known = [k for k in rows if frame.device_keys[k].entity in frame.usable_memory_bytes]
    if not known:
        return Absence(
            Why.NO_CAPACITY,
            f"what the {len(rows)} devices hold is collected, but not how much they have: neither their total nor what"
            " is free",
        )
    step_s, n_points = frame.devices.step_s, frame.devices.n_points
    settled = _settled(frame)
    needed = max(LEAST_POINTS, int(np.ceil(LEAST_S / step_s)))
    if n_points - settled < needed:
        return Absence(
            Why.INSUFFICIENT_HISTORY,
            f"{max(0, n_points - settled)} points lie after the job's start and {needed} are needed: memory that is being"
            " loaded looks like a leak",
            max(0, n_points - settled),
            needed,
        )
    found = []
    for k in known:
        stairs = staircase(frame.devices.values[k], step_s, settled)
        if stairs is not None:
            device = frame.device_keys[k].entity
            found.append((device, frame.usable_memory_bytes[device], stairs))
    if not found:
        return Absence(Why.NO_DATA, f"no reading of {USED} lies in the window")
    found.sort(key=lambda one: one[1] - one[2].peak_bytes - settings.memory_horizon_s * one[2].slope_bytes_per_s)
    outlooks = [_outlook(*one, settings.memory_horizon_s) for one in found[:MOST_DEVICES]]
    return max(outlooks, key=lambda one: (one.out_of_memory_probability, -one.headroom_bytes))


def _settled(frame: JobFrame) -> int:
    """First column after the job's start; 0 for one that started before the window."""
    totals = frame.totals
    step_s = totals.step_s
    if frame.job.first_seen_s < frame.data_at_s - step_s * totals.n_points - step_s:
        return 0
    signs = signals(totals)
    works = np.flatnonzero(np.fmax(np.nan_to_num(signs.compute), np.nan_to_num(signs.network)) >= WORKS)
    if not signs.used:
        works = np.zeros(1, np.intp)
    return int(works[0] + np.ceil(SETTLES_S / step_s)) if works.size else totals.n_points


def staircase(used: Floats, step_s: float, settled: int = 0) -> Staircase | None:
    """The newer half of one device's readings (t,), NaN where missing; None when there are too few.

    The older half only tells which peak was there already.

    Args:
        used: bytes.
        step_s: spacing.
        settled: column before which nothing counts as a step.
    """
    place = np.flatnonzero(np.isfinite(used))
    if place.size < LEAST_POINTS:
        return None
    values = used[place]
    begun = _begun_anew(values)
    place, values = place[begun:], values[begun:]
    peak = np.maximum.accumulate(values)
    first = max(place[-1] - max((place[-1] - place[0]) // 2, 1), settled)
    rise = np.diff(peak)
    lately = (place[1:] > first) & (rise >= LEAST_STEP_BYTES)
    span = max(int(place[-1] - first), 1)
    return Staircase(
        used_bytes=float(values[-1]),
        peak_bytes=float(peak[-1]),
        steps_bytes=rise[lately] if rise.size else rise,
        at_ratio=(place[1:][lately] - first) / span,
        span_s=span * step_s,
    )


def _begun_anew(values: Floats) -> int:
    """Where most of what was held was set free for good; 0 where that never happened.

    A job that frees most of its memory in every iteration takes it again: freed for good is what stays free for twice as
    long as ever before.
    """
    low = values < FREED_RATIO * np.maximum.accumulate(values)
    if not low[-1]:
        return 0
    edge = np.flatnonzero(np.diff(low.astype(np.int8), prepend=0))
    lasted = np.diff(np.append(edge, low.size))[::2]  # runs of low, the last one still going on
    longest = int(lasted[:-1].max(initial=0))
    return int(edge[-1]) if lasted[-1] >= max(LEAST_POINTS, 2 * longest) else 0


def rises(stairs: Staircase, usable_bytes: float, horizon_s: float) -> Floats:
    """(DRAWS,) how much the peak may rise within the horizon, in ascending order; the same for the same staircase."""
    random = np.random.default_rng(0)
    n = stairs.steps_bytes.size
    rate = random.gamma(n + PRIOR_STEPS, 1.0 / stairs.span_s, DRAWS)
    # Of the steps to come, as many are of a kind never seen as the prior has weight beside those seen.
    strange = random.poisson(rate * horizon_s * PRIOR_STEPS / (n + PRIOR_STEPS))
    like = random.poisson(rate * horizon_s * n / (n + PRIOR_STEPS)) if n else np.zeros(DRAWS, np.int64)
    total = _sums(random, like, stairs.steps_bytes) if n else np.zeros(DRAWS)
    sizes = usable_bytes * PRIOR_SIZE_RATIO * random.pareto(PRIOR_TAIL, (DRAWS, ONE_BY_ONE))
    total += np.where(np.arange(ONE_BY_ONE) < strange[:, None], sizes, 0.0).sum(axis=1)
    return np.sort(total)


def _sums(random: np.random.Generator, count: NDArray[np.int64], sizes: Floats) -> Floats:
    """(DRAWS,) sum of as many of the sizes, drawn with replacement, as each count says."""
    drawn = random.choice(sizes, (count.size, ONE_BY_ONE))
    few = np.where(np.arange(ONE_BY_ONE) < count[:, None], drawn, 0.0).sum(axis=1)
    many = random.normal(count * sizes.mean(), np.sqrt(count) * sizes.std())
    result: Floats = np.where(count <= ONE_BY_ONE, few, np.maximum(many, 0.0))
    return result


def _outlook(device: str, usable_bytes: float, stairs: Staircase, horizon_s: float) -> MemoryOutlook:
    headroom = usable_bytes - stairs.peak_bytes
    rise = rises(stairs, usable_bytes, horizon_s)
    low, middle, high = (stairs.peak_bytes + float(np.quantile(rise, level)) for level in (0.1, 0.5, 0.9))
    slope = stairs.slope_bytes_per_s
    full_in_s = max(headroom, 0.0) / slope if slope > 0 else None
    chance = float((rise > headroom).mean())
    return MemoryOutlook(
        device=device,
        used_bytes=stairs.used_bytes,
        peak_bytes=stairs.peak_bytes,
        usable_bytes=usable_bytes,
        headroom_bytes=headroom,
        trend=stairs.trend,
        slope_bytes_per_s=slope,
        horizon_s=horizon_s,
        peak_ahead_bytes=(low, middle, high),
        out_of_memory_probability=chance,
        full_in_s=full_in_s if full_in_s is not None and full_in_s <= FARTHEST_S else None,
        reason=_sentence(stairs, usable_bytes, chance, horizon_s),
    )


def _sentence(stairs: Staircase, usable_bytes: float, chance: float, horizon_s: float) -> str:
    steps = stairs.steps_bytes
    rose = "its peak did not rise"
    if steps.size:
        rose = f"its peak rose {steps.size} times, by {steps.sum() / 2**20:.0f} MiB in all,"
    return (
        f"{stairs.peak_bytes / 1e9:.1f} of {usable_bytes / 1e9:.1f} GB were held at most; {rose} in the last"
        f" {stairs.span_s:.0f} s, which gives a chance of {chance:.1%} to run out within {horizon_s:.0f} s"
    )
