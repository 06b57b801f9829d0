"""A job's iteration period as an answer: found, or why not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from features.frame import Context, JobFrame
from forecast.predict.room_models import RoomModels
from forecast.predict.types import Absence, Period, Why

IDLE_RATIO = 0.02
"""A device whose activity never passes 2 % is doing nothing worth forecasting."""
HALF_PERIODS = 5
"""The newest half is asked again where it holds this many periods."""
STRONG_SCORE = 0.2
"""A repetition of the whole window with this score may be a period that changed."""
ACTIVITY = (
    "gpu_tensor_active_ratio",
    "gpu_sm_active_ratio",
    "gpu_gr_engine_active_ratio",
    "gpu_util_ratio",
    "gpu_dram_active_ratio",
)

_WHY = {
    "idle": Why.IDLE,
    "too_coarse": Why.SAMPLING_TOO_COARSE,
    "too_short": Why.INSUFFICIENT_HISTORY,
    "none": Why.NO_RHYTHM,
}


def idle_reason(totals: Context) -> str | None:
    """Why a job counts as idle, with the numbers; None when it works or nothing tells."""
    tops = {}
    for row, metric in enumerate(totals.metric):
        values = totals.values[row]
        if metric in ACTIVITY and np.isfinite(values).any():
            tops[metric] = float(np.quantile(values[np.isfinite(values)], 0.99))
    if not tops or max(tops.values()) >= IDLE_RATIO:
        return None
    metric, top = max(tops.items(), key=lambda item: item[1])
    span_s = totals.n_points * totals.step_s
    return f"the job did nothing in the last {span_s:.0f} s: its busiest sign, {metric}, stayed below {IDLE_RATIO:.0%} (99 % quantile {top:.2%})"


@dataclass(frozen=True, slots=True)
class Rhythm:
    """A job's period and how far back it holds.

    Args:
        period: the answer, or why there is none.
        points: newest points of the window in which it holds.
    """

    period: Period | Absence
    points: int


def job_rhythm(frame: JobFrame, models: RoomModels, min_points: int) -> Rhythm:
    """The period over the whole window, or over its newest half where the job changed its pace meanwhile.

    A job whose pace changed shows a blend over the whole window, or halves that disagree. The newest half is asked
    only where the whole holds enough periods, or shows a strong one on which its halves do not agree.
    """
    whole = job_period(frame, models, min_points)
    n_points = frame.devices.n_points
    half = frame.devices.n_points // 2
    if isinstance(whole.period, Period):
        if half * frame.devices.step_s < HALF_PERIODS * whole.period.period_s:
            return Rhythm(whole.period, n_points)
    elif whole.score < STRONG_SCORE:
        return Rhythm(whole.period, n_points)
    newest = job_period(_newest(frame, half), models, min_points)
    if not isinstance(newest.period, Period):
        return Rhythm(whole.period, n_points)
    if isinstance(whole.period, Period) and _agree(whole.period, newest.period):
        return Rhythm(whole.period, n_points)
    return Rhythm(newest.period, half)


def _agree(whole: Period, newest: Period) -> bool:
    """Whether the whole window tells the newest half's period, and no less surely.

    A window over two paces shows their blend with a wide interval; half of a steady window is the less sure one.
    """
    apart_s = abs(whole.period_s - newest.period_s)
    width_s, newest_width_s = whole.high_s - whole.low_s, newest.high_s - newest.low_s
    blended = width_s > 0.02 * whole.period_s and newest_width_s < 0.5 * width_s
    return not blended and apart_s <= max(0.01 * whole.period_s, newest_width_s / 2)


def _newest(frame: JobFrame, n_points: int) -> JobFrame:
    """The frame's newest columns."""
    devices, totals = (
        Context(c.values[:, -n_points:], c.step_s, c.metric, c.group, c.low, c.high)
        for c in (frame.devices, frame.totals)
    )
    return replace(frame, devices=devices, totals=totals)


@dataclass(frozen=True, slots=True)
class _Found:
    period: Period | Absence
    score: float = 0.0
    """Of what repeated without being called found, 0 else."""


def job_period(frame: JobFrame, models: RoomModels, min_points: int) -> _Found:
    """The period that the rows of the job's devices agree on, or why there is none."""
    context = frame.devices if frame.devices.n_series else frame.totals
    if context.n_series == 0:
        return _Found(Absence(Why.NO_DATA, "no metric of this job has any sample in the window"))
    idle = idle_reason(frame.totals)
    if idle is not None:
        return _Found(Absence(Why.IDLE, idle))
    present = int(np.isfinite(context.values).sum(axis=1).max(initial=0))
    if present < min_points:
        short = Absence(
            Why.INSUFFICIENT_HISTORY,
            f"the fullest series has {present} points, and a period needs at least {min_points}",
            present,
            min_points,
        )
        return _Found(short)
    findings = models.detect_periods(_one_vote(context))
    score = float(findings[0].score) if findings and findings[0].status == "none" else 0.0
    return _Found(as_period(findings, present, context.step_s), score)


def _one_vote(context: Context) -> Context:
    """The context with all rows in one group: one job, one vote."""
    group = np.zeros(context.n_series, np.int32)
    return Context(context.values, context.step_s, context.metric, group, context.low, context.high)


def as_period(findings: Sequence[Any], present: int, step_s: float) -> Period | Absence:
    """The finding of a one-group context in this room's words; ``present`` points were there."""
    if not findings:
        return Absence(Why.NO_RHYTHM, "no series of this job had anything to say about a period")
    finding = findings[0]
    if finding.status == "found":
        return Period(
            period_s=float(finding.period_s),
            low_s=float(finding.low_s),
            high_s=float(finding.high_s),
            score=float(finding.score),
            votes=int(finding.votes),
            voters=int(finding.voters),
        )
    why = _WHY.get(finding.status, Why.NO_RHYTHM)
    if why is Why.INSUFFICIENT_HISTORY:
        return Absence(why, finding.reason, present, _needed(finding, step_s))
    return Absence(why, finding.reason)


def _needed(finding: Any, step_s: float) -> int:
    """Points that would settle the matter: four turns of the best candidate, at least the detector's own least."""
    from models.period import LEAST_CYCLES, LEAST_POINTS

    if not np.isfinite(finding.candidate_s):
        return LEAST_POINTS
    return max(LEAST_POINTS, int(np.ceil(LEAST_CYCLES * finding.candidate_s / step_s)))
