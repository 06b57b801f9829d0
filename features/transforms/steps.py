"""A job's pace from the stamps of its own steps, which tell it exactly. Pure."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from features.store.base import Series

FloatArray = NDArray[np.float64]

LEAST_STEPS = 4
"""Fewer durations than these give no interval worth the name."""
RECENT_STEPS = 64
"""So many durations tell a pace to about 1 %; more would only make it older."""
GAP_RATIO = 10.0
"""A pause of more than this many steps is a stop of the job, not a slow step: what lies before it is another stretch."""
_MAD_TO_SIGMA = 1.4826
"""Of a normal distribution (Rousseeuw and Croux 1993, section 1)."""
_MEDIAN_TO_MEAN_ERROR = 1.2533
"""The standard error of a median is sqrt(pi / 2) times that of a mean, for a normal distribution."""
_Z90 = 1.6449
_LEAST_SPREAD_RATIO = 1e-4
"""Stamps are taken in software; no pace is known better than this."""


def newest_stretch(at_s: FloatArray, step: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The newest stamps without a restart or a stop among them, by time.

    A step that comes twice counts once, at its first time. A number that falls is a restart from a checkpoint. A pause
    longer than ``GAP_RATIO`` usual steps is a stop.

    Args:
        at_s: (n,) Unix seconds, in any order; stamps that are not finite are left out.
        step: (n,) number of the step that ended then.
    """
    good = np.isfinite(at_s) & np.isfinite(step)
    order = np.lexsort((step[good], at_s[good]))
    at_s, step = at_s[good][order], step[good][order]
    fresh = np.append(True, (np.diff(step) != 0) & (np.diff(at_s) > 0))[: at_s.size]
    at_s, step = at_s[fresh], step[fresh]
    if at_s.size < 2:
        return at_s, step
    took_s, by = np.diff(at_s), np.diff(step)
    forward = by > 0
    if not forward.any():
        return at_s[-1:], step[-1:]
    usual_s = float(np.median(took_s[forward] / by[forward]))
    broken = np.flatnonzero(~forward | (took_s > GAP_RATIO * usual_s * np.maximum(by, 1.0)))
    first = int(broken[-1]) + 1 if broken.size else 0
    return at_s[first:], step[first:]


def period_from_steps(at_s: FloatArray, step: FloatArray) -> tuple[float, float, float, int] | None:
    """A job's period from its step stamps: (period_s, low_s, high_s, n), or None where there are too few.

    The period is the median duration of a step over the newest stretch; reports that skip steps count by their number
    of steps. A checkpoint, an evaluation or a slow step among them moves it little. The bounds are its 90 % interval,
    from the median absolute deviation.

    Args:
        at_s: (n,) Unix seconds, in any order.
        step: (n,) number of the step that ended then.
    """
    at_s, step = newest_stretch(at_s, step)
    took_s, by = np.diff(at_s)[-RECENT_STEPS:], np.diff(step)[-RECENT_STEPS:]
    n = int(took_s.size)
    if n < LEAST_STEPS:
        return None
    each_s = took_s / by
    period_s = float(np.median(each_s))
    # Of a report over several steps only the mean is seen, so its deviation counts for that many steps.
    spread_s = _MAD_TO_SIGMA * float(np.median(np.abs(each_s - period_s) * np.sqrt(by)))
    spread_s = max(spread_s, _LEAST_SPREAD_RATIO * period_s)
    half_s = _Z90 * _MEDIAN_TO_MEAN_ERROR * spread_s / np.sqrt(float(by.sum()))
    return period_s, max(0.0, period_s - half_s), period_s + half_s, n


def period_from_series(steps: Series) -> tuple[float, float, float, int] | None:
    """The same from a series of ``job_step_total`` as a reader gives it."""
    return period_from_steps(steps.at_s, steps.value)
