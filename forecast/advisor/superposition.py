"""Two jobs laid over each other on one circle, and turned against each other.

The unified circle is CASSINI's (Rajasekaran and others, NSDI 2024): its length is a common multiple of both periods.
Here it is walked in time instead, so that periods which are known only within an interval drift apart as they would.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forecast.predict.duty import at_times
from forecast.predict.types import DutyCycle, JobForecast, Period

FloatArray = NDArray[np.float64]

SCENARIOS = 64
POINTS_PER_PERIOD = 40
MAX_POINTS = 1200
OFFSETS = 32
"""Offsets tried per period."""
SATURATED_RATIO = 0.85
"""A modelled use above this means that the link may have slowed the jobs, so that alone they would send faster.
Mean circles blur the edges of bursts, so a full link reads a little less than 1."""
MOST_SPEEDUP = 2.0
"""Two jobs that share a full link evenly send at most twice as fast alone."""
BLUR_PERIODS = 0.08
"""Bursts are widened by this share of a period when offsets of equal overload are compared: room for drift."""
Z90 = 1.2816
Z95 = 1.6449


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """One of the jobs that meet on a link.

    Args:
        job: its forecast.
        period: its period.
        circle: its fabric use around the iteration.
        weight: link use (a ratio of capacity) per byte per second that the job sends.
    """

    job: JobForecast
    period: Period
    circle: DutyCycle
    weight: float


@dataclass(frozen=True, slots=True, eq=False)
class Superposition:
    """Everything needed to walk a link forward under an offset.

    Args:
        moved: the job that would pause.
        other: the job that would not.
        background_ratio: constant use by everyone else.
        threshold_ratio: use that counts as congested.
        start_s: where the walk begins, Unix seconds.
        window_s: how long it is.
    """

    moved: Member
    other: Member
    background_ratio: float
    threshold_ratio: float
    start_s: float
    window_s: float

    @property
    def times_s(self) -> FloatArray:
        """(n_times,) instants of the walk."""
        fastest_s = min(self.moved.period.period_s, self.other.period.period_s)
        n = int(np.clip(POINTS_PER_PERIOD * self.window_s / fastest_s, POINTS_PER_PERIOD, MAX_POINTS))
        return self.start_s + (np.arange(n) + 0.5) * self.window_s / n


def mean_overload(pair: Superposition, offsets_s: FloatArray) -> FloatArray:
    """Share of time above the threshold by the mean circles, one figure per offset, (n_offsets,)."""
    at_s = pair.times_s
    fixed = pair.other.weight * at_times(pair.other.circle, pair.other.circle.mean, at_s) + pair.background_ratio
    turned = at_times(pair.moved.circle, pair.moved.circle.mean, at_s[None, :] - offsets_s[:, None])
    load = fixed[None, :] + pair.moved.weight * turned
    return np.asarray((load > pair.threshold_ratio).mean(axis=1), np.float64)


def reachable_threshold(pair: Superposition) -> float:
    """The threshold on the scale of the mean circles, never above the real one.

    Mean circles blur the edges and the height of bursts, so that two jobs which fill a link add up to a little less
    than 1 on them. A link that did pass the threshold was full then, and their highest sum stands for that.
    """
    return pair.threshold_ratio * min(1.0, _top_load(pair))


def closeness(pair: Superposition, offsets_s: FloatArray) -> FloatArray:
    """How much widened bursts still touch under each offset, 0..1 relative to the worst, (n_offsets,)."""
    at_s = pair.times_s
    fixed = at_times(pair.other.circle, _widened(pair.other.circle.mean), at_s)
    turned = at_times(pair.moved.circle, _widened(pair.moved.circle.mean), at_s[None, :] - offsets_s[:, None])
    touch = (turned * fixed[None, :]).mean(axis=1)
    low, high = float(touch.min()), float(touch.max())
    return np.asarray((touch - low) / (high - low) if high > low else np.zeros_like(touch), np.float64)


def _widened(curve: FloatArray) -> FloatArray:
    """A circle smoothed around itself by ``BLUR_PERIODS`` (one standard deviation)."""
    n = curve.shape[0]
    frequency = np.fft.rfftfreq(n, 1.0 / n)
    damp = np.exp(-2.0 * (np.pi * BLUR_PERIODS * frequency) ** 2)
    return np.asarray(np.fft.irfft(np.fft.rfft(curve) * damp, n), np.float64)


def overload_scenarios(pair: Superposition, offset_s: float) -> FloatArray:
    """Share of time above the threshold in each of ``SCENARIOS`` futures, (SCENARIOS,).

    Futures differ in the height of bursts (the circles' 10 and 90 % quantiles), in both periods (their 90 %
    intervals), and, where the link is full today, in how much faster each job sends once it is alone. The draws are
    the same every time.
    """
    draws = np.random.default_rng(20240416).normal(size=(5, SCENARIOS))
    # Circles that already add up to more than the link were not slowed by all of it. Small gains are likelier.
    top = _top_load(pair)
    most = max(0.0, MOST_SPEEDUP / max(top, 1.0) - 1.0) if top >= SATURATED_RATIO else 0.0
    speed = 1.0 + most * ((np.arange(SCENARIOS) + 0.5) / SCENARIOS) ** 2
    out = np.empty(SCENARIOS)
    at_s = pair.times_s
    for s in range(SCENARIOS):
        moved = _curve(pair.moved, draws[0, s], draws[2, s], at_s - offset_s, pair.start_s)
        other = _curve(pair.other, draws[1, s], draws[3, s], at_s, pair.start_s)
        load = moved + other
        # A burst that runs faster is over sooner: the same bytes.
        out[s] = float((speed[s] * load + pair.background_ratio > pair.threshold_ratio).mean() / speed[s])
    return out


def _top_load(pair: Superposition) -> float:
    """The highest use to which the mean circles add up today."""
    at_s = pair.times_s
    load = sum(m.weight * at_times(m.circle, m.circle.mean, at_s) for m in (pair.moved, pair.other))
    return float(np.max(load) + pair.background_ratio)


def _curve(member: Member, height_z: float, period_z: float, at_s: FloatArray, start_s: float) -> FloatArray:
    """One future of one job's use of the link."""
    circle = member.circle
    side = circle.high - circle.mean if height_z >= 0 else circle.mean - circle.low
    part = np.clip(circle.mean + height_z / Z90 * side, 0.0, None)
    sigma_s = (member.period.high_s - member.period.low_s) / (2 * Z95)
    # Drift counts from now on: the circle was laid from the recent past and is right at the start.
    stretch = 1.0 + period_z * sigma_s / member.period.period_s
    drifted_s = start_s + (at_s - start_s) / max(stretch, 0.5)
    return np.asarray(member.weight * at_times(circle, part, drifted_s), np.float64)


def offsets(period_s: float, most_periods: float) -> FloatArray:
    """Offsets worth trying, (n,) seconds, ascending, the zero left out."""
    share = np.arange(1, OFFSETS) / OFFSETS
    return np.asarray(share[share <= most_periods] * period_s, np.float64)
