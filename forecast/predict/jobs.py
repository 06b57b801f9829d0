"""Everything foreseen about one job: period, phase, next lull, and a quantile path per metric."""

from __future__ import annotations

from typing import Any

import numpy as np

from features.frame import JobFrame
from forecast.predict.age import age_of, stale
from forecast.predict.duty import duty_cycles
from forecast.predict.lulls import fabric_circle, next_lull
from forecast.predict.memory import memory_outlook
from forecast.predict.phases import phase_now
from forecast.predict.rhythm import job_rhythm
from forecast.predict.room_models import RoomModels, default_models
from forecast.predict.settings import PredictSettings
from forecast.predict.stamped import foldable
from forecast.predict.types import (
    Absence,
    DutyCycle,
    JobForecast,
    Lull,
    MemoryOutlook,
    Period,
    PhaseNow,
    QuantilePath,
    Skill,
    Why,
)
from models.base import LEVELS
from telemetry.catalogue import BY_NAME


def forecast_job(
    frame: JobFrame, *, now_s: float, settings: PredictSettings, models: RoomModels | None = None
) -> JobForecast:
    """What this job will do next.

    Args:
        frame: its recent past.
        now_s: this machine's wall time, the clock of ``frame.received_s``.
        settings: horizon and limits.
        models: what to ask; the built-in models by default.
    """
    models = models or default_models()
    if not np.isfinite(frame.totals.values).any():
        return absent_job(frame, now_s, _no_data(frame))
    age_s = age_of(frame.received_s, now_s)
    too_old = stale(age_s, settings.max_age_s)
    if too_old is not None:
        return absent_job(frame, now_s, too_old)
    rhythm = job_rhythm(frame, models, settings.min_points)
    fold = foldable(rhythm.period, frame.totals.step_s)
    duty = duty_cycles(frame.totals, frame.data_at_s, fold.period_s, rhythm.points) if isinstance(fold, Period) else {}
    return _job(
        frame,
        now_s,
        period=rhythm.period,
        phase=phase_now(frame, fold, age_s),
        lull=_lull(fold, duty, frame.data_at_s + age_s),
        metrics=_paths(frame, settings, models),
        duty=duty,
        memory=memory_outlook(frame, settings),
    )


def _no_data(frame: JobFrame) -> Absence:
    """The absence of a job that was seen but never measured."""
    lacking = "; ".join(sorted(set(frame.missing.values())))
    return Absence(
        Why.NO_DATA, f"no sample of {frame.job.job} lies in the window{': ' + lacking if lacking else ''}", 0
    )


def absent_job(frame: JobFrame, now_s: float, absence: Absence) -> JobForecast:
    """A forecast in which every part is the same reasoned absence."""
    wanted = (*frame.totals.metric, *frame.missing)
    return _job(
        frame,
        now_s,
        period=absence,
        phase=absence,
        lull=absence,
        metrics=dict.fromkeys(wanted, absence),
        duty={},
        memory=absence,
    )


def _job(
    frame: JobFrame,
    now_s: float,
    *,
    period: Period | Absence,
    phase: PhaseNow | Absence,
    lull: Lull | Absence,
    metrics: dict[str, QuantilePath | Absence],
    duty: dict[str, DutyCycle],
    memory: MemoryOutlook | Absence,
) -> JobForecast:
    return JobForecast(
        job=frame.job.job,
        made_at_s=now_s,
        data_at_s=frame.data_at_s,
        age_s=age_of(frame.received_s, now_s),
        step_s=frame.totals.step_s,
        nodes=frame.job.nodes,
        gpu_count=len(frame.job.gpus),
        shared=frame.job.shared,
        period=period,
        phase=phase,
        next_lull=lull,
        metrics=metrics,
        duty=duty,
        memory=memory,
    )


def _lull(period: Period | Absence, duty: dict[str, DutyCycle], source_now_s: float) -> Lull | Absence:
    """The next lull in the source's clock, or why none."""
    if isinstance(period, Absence):
        return Absence(period.why, f"without a period there is no next lull: {period.reason}")
    circle = fabric_circle(duty)
    if circle is None:
        return Absence(
            Why.MISSING_FIELD,
            "neither bytes on the NIC ports of the job's hosts nor NVLink bytes are collected, so its use of the network is unseen",
        )
    return next_lull(circle, period, source_now_s)


def _paths(frame: JobFrame, settings: PredictSettings, models: RoomModels) -> dict[str, QuantilePath | Absence]:
    """A quantile path per row of the totals, and a reason per metric that has no row or no data."""
    paths: dict[str, QuantilePath | Absence] = {
        metric: Absence(Why.MISSING_FIELD, sentence) for metric, sentence in frame.missing.items()
    }
    totals = frame.totals
    present = np.isfinite(totals.values).sum(axis=1)
    for row, metric in enumerate(totals.metric):
        if present[row] == 0:
            paths[metric] = Absence(Why.NO_DATA, f"{metric} has no sample in the window", 0, settings.min_points)
    for row in np.flatnonzero((present > 0) & (present < settings.min_points)).tolist():
        metric = totals.metric[row]
        paths[metric] = Absence(
            Why.INSUFFICIENT_HISTORY,
            f"{metric} has {present[row]} points in the window, and a forecast needs {settings.min_points}",
            int(present[row]),
            settings.min_points,
        )
    rows = np.flatnonzero(present >= settings.min_points)
    if rows.size == 0:
        return paths
    # Nothing is foreseen further ahead than half of what was seen.
    steps = max(1, min(settings.steps(totals.step_s), totals.n_points // 2))
    served = models.served.predict_served(totals.rows(rows), steps)
    for place, row in enumerate(rows.tolist()):
        metric = totals.metric[row]
        paths[metric] = served_path(served, place, metric, frame.data_at_s, totals.step_s)
    return paths


def served_path(served: Any, row: int, metric: str, start_s: float, step_s: float) -> QuantilePath | Absence:
    """One row of the gate's answer as a path; an absence when it holds a number that is not one."""
    values = np.asarray(served.values[row], np.float64)
    if not np.isfinite(values).all():
        return Absence(
            Why.MODEL_ERROR,
            f"the model for {metric} gave {int((~np.isfinite(values)).sum())} values that are not numbers",
        )
    entry = BY_NAME.get(metric)
    return QuantilePath(
        metric=metric,
        unit=entry.unit if entry else "ratio",
        start_s=start_s,
        step_s=step_s,
        levels=LEVELS,
        values=values,
        model=served.model[row],
        model_version=served.version[row],
        skill=Skill(
            skill=float(served.skill[row]),
            coverage80=_known(served.coverage80[row]),
            coverage95=_known(served.coverage95[row]),
            scored=int(served.scored[row]),
        ),
        reason=served.reason[row],
    )


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
