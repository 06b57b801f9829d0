"""A job's pace from the stamps of its own steps, which tell it exactly. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from features.frame import CollectiveStamps, StepStamps
from features.store.base import Reader, Series
from telemetry.ids import JobId, SeriesKey

FloatArray = NDArray[np.float64]

LEAST_STEPS = 4
"""Fewer durations than these give no interval worth the name."""
RECENT_STEPS = 64
"""So many durations tell a pace to about 1 %; more would only make it older."""
GAP_RATIO = 10.0
"""A pause of more than this many steps is a stop of the job, not a slow step: what lies before it is another stretch."""
STEP_COUNTER = "job_step_total"
COLLECTIVE_SIZE = "nccl_message_bytes"
WRITTEN_TOGETHER_S = 2e-6
"""Stamps this near were set apart by the reader: they say when records were written, not when operations ended."""
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


def step_stamps(reader: Reader, job: JobId, as_of_s: float, span_s: float) -> StepStamps | None:
    """The newest stretch of a job's step stamps in the window; None where it reports none."""
    steps = reader.read([SeriesKey(STEP_COUNTER, str(job))], as_of_s, span_s)[0]
    if not steps.at_s.size:
        return None
    at_s, step = newest_stretch(steps.at_s, steps.value)
    return StepStamps(at_s, step) if at_s.size else None


def collective_stamps(
    reader: Reader, keys: Sequence[SeriesKey], as_of_s: float, span_s: float
) -> CollectiveStamps | None:
    """Stamps of the collectives of some series of message sizes, merged in time.

    None where there are none, and where most of them say only when their records were written.
    """
    mine = [key for key in keys if key.metric == COLLECTIVE_SIZE]
    series = [one for one in reader.read(mine, as_of_s, span_s) if one.at_s.size] if mine else []
    if not series:
        return None
    together = sum(int((np.diff(one.at_s) <= WRITTEN_TOGETHER_S).sum()) for one in series)
    if together > 0.5 * sum(one.at_s.size for one in series):
        return None
    at_s = np.concatenate([one.at_s for one in series])
    size = np.concatenate([one.value for one in series])
    order = np.argsort(at_s, kind="stable")
    good = order[np.isfinite(size[order])]
    return CollectiveStamps(at_s[good], size[good]) if good.size else None
