"""The next lull: when a job will hardly use the fabric, and how sure that is."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from forecast.predict.types import Absence, DutyCycle, Lull, Period, Why

QUIET_SHARE = 0.25
"""A bin is quiet when its use lies in the lowest quarter of the circle's range."""
MIN_RANGE_SHARE = 0.2
"""A circle whose use varies by less than this share of its top has no lulls."""
MIN_SHARE = 0.1
"""A quiet stretch shorter than this share of the iteration is not worth acting in."""
Z80 = 1.2816
Z90 = 1.6449


def fabric_circle(duty: dict[str, DutyCycle]) -> DutyCycle | None:
    """The circle that tells most about the network: fabric, else NVLink."""
    for metric in ("job_fabric_tx_bytes_per_s", "gpu_nvlink_tx_bytes_per_s", "gpu_nvlink_bytes_per_s"):
        if metric in duty:
            return duty[metric]
    return None


def next_lull(cycle: DutyCycle, period: Period, now_s: float) -> Lull | Absence:
    """The next quiet stretch that begins at or after ``now_s``, in the source's clock.

    The start's interval holds the width of a bin and the drift that the period's own interval allows between the
    middle of the observed iterations and the lull.
    """
    top, floor = float(cycle.mean.max()), float(cycle.mean.min())
    if top <= 0.0 or (top - floor) < MIN_RANGE_SHARE * top:
        return Absence(
            Why.NO_TRAFFIC,
            f"{cycle.metric} stays between {floor:.3g} and {top:.3g} all around the iteration, so there is no lull",
        )
    stretch = _longest_quiet(cycle.mean <= floor + QUIET_SHARE * (top - floor))
    bins = cycle.mean.shape[0]
    if stretch is None or stretch[1] < MIN_SHARE * bins:
        return Absence(
            Why.NO_TRAFFIC, f"the quietest stretch of {cycle.metric} is shorter than {MIN_SHARE:.0%} of the iteration"
        )
    first, length = stretch
    start_s = _next_after(cycle.origin_s + first / bins * cycle.period_s, cycle.period_s, now_s)
    spread_s = _spread_s(cycle, period, start_s)
    inside = cycle.mean[(first + np.arange(length)) % bins]
    return Lull(
        start_s=start_s,
        end_s=start_s + length / bins * cycle.period_s,
        start_low_s=float(max(now_s, start_s - spread_s)),
        start_high_s=start_s + spread_s,
        level=float(inside.mean()),
        metric=cycle.metric,
    )


def _next_after(any_start_s: float, period_s: float, now_s: float) -> float:
    """The first repetition of an instant that is not in the past."""
    return max(now_s, float(any_start_s + np.ceil((now_s - any_start_s) / period_s - 1e-9) * period_s))


def _spread_s(cycle: DutyCycle, period: Period, start_s: float) -> float:
    """Half of the 80 % interval of a start, seconds."""
    sigma_period_s = max(0.0, period.high_s - period.low_s) / (2 * Z90)
    # The circle's mean position belongs to the middle of the iterations it was laid from.
    turns = (start_s - cycle.origin_s) / cycle.period_s / 2
    width_s = cycle.period_s / cycle.mean.shape[0]
    return float(Z80 * np.hypot(sigma_period_s * turns, width_s / np.sqrt(12.0)) + width_s / 2)


def _longest_quiet(quiet: NDArray[np.bool_]) -> tuple[int, int] | None:
    """First bin and length of the longest circular run of True; None when all or none are."""
    if quiet.all() or not quiet.any():
        return None
    n = quiet.shape[0]
    start = int(np.flatnonzero(~quiet)[0])
    turned = np.roll(quiet, -start)
    edges = np.diff(np.concatenate(([0], turned.astype(np.int8), [0])))
    begins, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    best = int(np.argmax(ends - begins))
    return (int(begins[best]) + start) % n, int(ends[best] - begins[best])
