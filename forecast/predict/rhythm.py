"""A job's iteration period as an answer: found, or why not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from features.frame import Context, JobFrame
from forecast.predict.room_models import RoomModels
from forecast.predict.types import Absence, Period, Why

IDLE_RATIO = 0.02
"""A device whose activity never passes 2 % is doing nothing worth forecasting."""
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


def job_period(frame: JobFrame, models: RoomModels, min_points: int) -> Period | Absence:
    """The period that the rows of the job's devices agree on, or why there is none."""
    context = frame.devices if frame.devices.n_series else frame.totals
    if context.n_series == 0:
        return Absence(Why.NO_DATA, "no metric of this job has any sample in the window")
    idle = idle_reason(frame.totals)
    if idle is not None:
        return Absence(Why.IDLE, idle)
    present = int(np.isfinite(context.values).sum(axis=1).max(initial=0))
    if present < min_points:
        return Absence(
            Why.INSUFFICIENT_HISTORY,
            f"the fullest series has {present} points, and a period needs at least {min_points}",
            present,
            min_points,
        )
    findings = models.detect_periods(_one_vote(context))
    return as_period(findings, present, context.step_s)


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
