"""A job's iteration period as an answer: found, or why not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from features.frame import Context, JobFrame
from forecast.predict.room_models import RoomModels
from forecast.predict.stamped import from_collectives, from_steps, most_exact
from forecast.predict.types import Absence, Period, Why

IDLE_RATIO = 0.02
"""A device whose activity never passes 2 % is doing nothing worth forecasting."""
RECENT_PERIODS = 32
"""So many turns tell a period to about 1 %; more would only make it older."""
LEAST_STRETCH = 32
"""Points below which a stretch is not asked."""
SHORTER = ((8, 0.05), (5, 0.08))
"""Stretches of so many turns are asked for another pace: four for the detector, and one for the seam in the shortest. A
pace this near is the same one: it wanders while nothing has changed (the mean iteration of a recorded FSDP run is 3.59 s
in its first steady minute and 3.46 s in its third), and few turns tell it less well."""
CLEAR_SCORE = 0.5
"""A part of a window that has no rhythm as a whole needs this score: several parts are tried, and chance may favour one."""
ACTIVITY = (
    "gpu_tensor_active_ratio",
    "gpu_sm_active_ratio",
    "gpu_gr_engine_active_ratio",
    "gpu_util_ratio",
    "gpu_dram_active_ratio",
)
FABRIC = ("job_fabric_tx_bytes_per_s", "job_fabric_rx_bytes_per_s")

_WHY = {
    "idle": Why.IDLE,
    "too_coarse": Why.SAMPLING_TOO_COARSE,
    "too_short": Why.INSUFFICIENT_HISTORY,
    "none": Why.NO_RHYTHM,
}

_WORTH_A_CLOSER_LOOK = frozenset({Why.NO_RHYTHM})


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
    """The period by the most exact source: the job's own stamps where it gives any, and its telemetry.

    An idle job, or one without any sample, has no period whatever it reported before.
    """
    seen = telemetry_rhythm(frame, models, min_points)
    if isinstance(seen.period, Absence) and seen.period.why in (Why.IDLE, Why.NO_DATA):
        return seen
    told = [one for one in (from_steps(frame), from_collectives(frame, models)) if one is not None]
    return Rhythm(most_exact(told, seen.period), seen.points)


def telemetry_rhythm(frame: JobFrame, models: RoomModels, min_points: int) -> Rhythm:
    """The period over the longest newest stretch of the window that has one pace.

    The whole window is asked first, narrowed to its newest ``RECENT_PERIODS`` where it is longer; then its newest few
    turns. A job whose pace changed shows its old pace, or a blend, until the new one fills the window. A shorter stretch
    is believed where it differs from the longer one by more than it is unsure itself.
    """
    recent = _recent(frame, models, min_points)
    if isinstance(recent.period, Absence):
        return _newest_part(frame, models, min_points, recent)
    chosen, longer = recent, recent.period
    for turns, pace_ratio in SHORTER:
        points = int(np.ceil(turns * longer.period_s / frame.devices.step_s))
        if not LEAST_STRETCH <= points < recent.points:
            continue
        newest = job_period(_newest(frame, points), models, min_points)
        if isinstance(newest, Period) and not _same_pace(longer, newest, pace_ratio):
            chosen, longer = Rhythm(newest, points), newest
    return chosen


def _newest_part(frame: JobFrame, models: RoomModels, min_points: int, whole: Rhythm) -> Rhythm:
    """The rhythm of the newest half, quarter or eighth of a window that has none as a whole: the job may have begun in it."""
    if isinstance(whole.period, Absence) and whole.period.why not in _WORTH_A_CLOSER_LOOK:
        return whole
    for share in (2, 4, 8):
        points = whole.points // share
        if points < LEAST_STRETCH:
            break
        newest = job_period(_newest(frame, points), models, min_points)
        if isinstance(newest, Period) and newest.score >= CLEAR_SCORE:
            return Rhythm(newest, points)
    return whole


def _recent(frame: JobFrame, models: RoomModels, min_points: int) -> Rhythm:
    """The period over the whole window, or over its newest ``RECENT_PERIODS`` turns where it holds more."""
    n_points = frame.devices.n_points
    whole = Rhythm(job_period(frame, models, min_points), n_points)
    if isinstance(whole.period, Absence):
        return whole
    points = max(LEAST_STRETCH, int(np.ceil(RECENT_PERIODS * whole.period.period_s / frame.devices.step_s)))
    if points >= n_points:
        return whole
    recent = job_period(_newest(frame, points), models, min_points)
    return whole if isinstance(recent, Absence) else Rhythm(recent, points)


def _same_pace(longer: Period, newest: Period, pace_ratio: float) -> bool:
    """Whether the newest stretch goes on as the longer one, as far as it can tell.

    A window over two paces shows their blend with a wide interval; half of a steady window is the less sure one.
    """
    apart_s = abs(longer.period_s - newest.period_s)
    width_s, newest_width_s = longer.high_s - longer.low_s, newest.high_s - newest.low_s
    blended = width_s > 0.02 * longer.period_s and newest_width_s < 0.5 * width_s
    return not blended and apart_s <= max(pace_ratio * longer.period_s, newest_width_s / 2)


def _newest(frame: JobFrame, n_points: int) -> JobFrame:
    """The frame's newest columns."""
    devices, totals = (
        Context(c.values[:, -n_points:], c.step_s, c.metric, c.group, c.low, c.high)
        for c in (frame.devices, frame.totals)
    )
    return replace(frame, devices=devices, totals=totals)


def job_period(frame: JobFrame, models: RoomModels, min_points: int) -> Period | Absence:
    """The period that the rows of the job's devices agree on, or why there is none."""
    context = _speakers(frame)
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
    return as_period(models.detect_periods(_one_vote(context)), present, context.step_s)


def _speakers(frame: JobFrame) -> Context:
    """Who is asked: the devices' own rows, and the job's traffic, whose counters miss nothing between two reads."""
    devices, totals = frame.devices, frame.totals
    if not devices.n_series:
        return totals
    fabric = totals.rows(np.array([row for row, name in enumerate(totals.metric) if name in FABRIC], np.intp))
    if not fabric.n_series:
        return devices
    return Context(
        np.concatenate([devices.values, fabric.values]),
        devices.step_s,
        devices.metric + fabric.metric,
        np.concatenate([devices.group, fabric.group]),
        np.concatenate([devices.low, fabric.low]),
        np.concatenate([devices.high, fabric.high]),
    )


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
    from models.period import LEAST_POINTS
    from models.period_vote import LEAST_CYCLES

    if not np.isfinite(finding.candidate_s):
        return LEAST_POINTS
    return max(LEAST_POINTS, int(np.ceil(LEAST_CYCLES * finding.candidate_s / step_s)))
