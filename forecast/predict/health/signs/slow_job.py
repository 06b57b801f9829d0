"""A job whose steps became longer and stay so: by its own step reports, else by its tracked period."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from features.frame import JobFrame, StepStamps
from forecast.predict.health.types import Evidence, HealthFinding, Severity, Sign, Thing
from models.step_jump import LEARN, find_jumps
from telemetry.ids import JobId

KIND = "slow_job"
LEAST_RATIO = 1.06
"""Charts call nothing smaller."""
RECOVERED_RATIO = 1.03
"""A job that is nearer than this to its old pace is well again."""
PERIOD_RATIO = 1.10
"""A tracked period is an estimate, with an interval of its own: a tenth is needed."""
PERIOD_BEFORE = 6
PERIOD_AFTER = 3
_OCTAVES = (2.0, 3.0, 4.0, 1.5)
_OCTAVE_NEAR = 0.04
"""A period that doubles at once is more often an estimate that skips every other turn than a job at half its pace."""
TO_DO = (
    "Look at the findings of this job's GPUs, ranks and links first; without any, compare its data loading, "
    "its host processors and its neighbours on the fabric with the time before the change."
)


def find(evidence: Evidence) -> list[HealthFinding]:
    """Jobs that are slower than they were."""
    known = {one.entity: one for one in evidence.memory.findings if one.kind == KIND}
    found: list[HealthFinding] = []
    for frame in evidence.jobs:
        before = known.get(str(frame.job.job))
        if frame.steps is not None and frame.steps.at_s.size > 1:
            one = _by_steps(frame.job.job, frame.steps, before)
        else:
            one = _by_period(frame, evidence.memory.periods.get(frame.job.job, ()), before)
        if one is not None:
            found.append(one)
    return found


def too_little(evidence: Evidence, frame: JobFrame) -> str:
    """Why a job's pace cannot be compared with what it was."""
    if frame.steps is not None and frame.steps.at_s.size > 1:
        count, needed, what = frame.steps.at_s.size - 1, LEARN + 1, "steps"
    else:
        count, needed, what = (
            len(evidence.memory.periods.get(frame.job.job, ())),
            PERIOD_BEFORE + PERIOD_AFTER,
            "readings of its period",
        )
    return f"{count} {what} are too few, {needed} are needed" if count < needed else ""


def _by_steps(job: JobId, stamps: StepStamps, before: HealthFinding | None) -> HealthFinding | None:
    took_s = np.diff(stamps.at_s) / np.maximum(np.diff(stamps.step), 1.0)
    usual_s, since_s, steps = np.nan, np.nan, 0
    for jump in find_jumps(took_s[None, :]):
        # Several changes add up: the usual stays the one from before the first of them that still holds.
        if not np.isfinite(usual_s) or jump.after_s < usual_s * RECOVERED_RATIO:
            usual_s, since_s = jump.before_s, float(stamps.at_s[jump.at])
        steps = int(took_s.size - jump.at)
    if before is not None and "usual_s" in before.numbers and not np.isfinite(usual_s):
        # The change has left the window, the usual pace is remembered.
        usual_s, since_s, steps = before.numbers["usual_s"], before.since_s, int(took_s.size)
    recent = took_s[-max(5, min(steps, 32)) :]
    now_s = float(np.median(recent)) if recent.size else np.nan
    if not np.isfinite(usual_s) or not now_s >= usual_s * (LEAST_RATIO if before is None else RECOVERED_RATIO):
        return None
    return _finding(
        job, now_s, float(usual_s), float(since_s), "steps", f"over the last {recent.size} of its own steps"
    )


def _by_period(
    frame: JobFrame, readings: Sequence[tuple[float, float]], before: HealthFinding | None
) -> HealthFinding | None:
    if len(readings) < PERIOD_BEFORE + PERIOD_AFTER:
        return None
    at_s, period_s = (np.asarray(column, dtype=np.float64) for column in zip(*readings, strict=True))
    if before is not None and "usual_s" in before.numbers:
        usual_s, since_s = before.numbers["usual_s"], before.since_s
    else:
        usual_s, since_s = _change(at_s, period_s)
    now_s = float(np.median(period_s[-PERIOD_AFTER:]))
    least = PERIOD_RATIO if before is None else RECOVERED_RATIO
    if not np.isfinite(usual_s) or now_s < usual_s * least or _octave(now_s / usual_s):
        return None
    said = f"its tracked period in the last {PERIOD_AFTER} readings of {len(readings)}"
    return _finding(frame.job.job, now_s, usual_s, since_s, "period", said)


def _change(at_s: NDArray[np.float64], period_s: NDArray[np.float64]) -> tuple[float, float]:
    """The usual period, and the first of the newest readings that all lie above it; NaN where it did not change."""
    early = period_s[:-PERIOD_AFTER]
    usual_s = float(np.median(early))
    spread = 1.4826 * float(np.median(np.abs(early - usual_s))) / usual_s
    slow = period_s >= usual_s * max(PERIOD_RATIO, 1.0 + 4.0 * spread)
    if not slow[-PERIOD_AFTER:].all():
        return float("nan"), float("nan")
    first = int(np.flatnonzero(~slow)[-1]) + 1 if not slow.all() else 0
    return usual_s, float(at_s[first])


def _octave(ratio: float) -> bool:
    return any(abs(ratio / one - 1.0) <= _OCTAVE_NEAR for one in _OCTAVES)


def _finding(job: JobId, now_s: float, usual_s: float, since_s: float, source: str, said: str) -> HealthFinding:
    ratio = now_s / usual_s
    return HealthFinding(
        KIND,
        Thing.JOB,
        str(job),
        Severity.WARNING,
        float(np.clip((ratio - 1.0) / 0.5, 0.2, 1.0)),
        since_s,
        f"a step takes {now_s:.3g} s, {100 * (ratio - 1):.0f} % longer than the {usual_s:.3g} s before ({said})",
        TO_DO,
        (source,),
        jobs=(job,),
        numbers={"now_s": now_s, "usual_s": usual_s, "ratio": ratio},
    )


SIGN = Sign((("steps",), ("period",)), find, per_job=True, too_little=too_little)
