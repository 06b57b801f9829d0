"""Domain values as API models: NaN becomes null, arrays become lists, times get their RFC 3339 twin."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from api.http import schemas
from api.reads import AccuracyRow, History, TargetHealth
from forecast.predict.types import (
    Absence,
    DutyCycle,
    JobForecast,
    LinkForecast,
    Lull,
    Period,
    PhaseNow,
    QuantilePath,
    Skill,
    Why,
)
from telemetry.ids import JobId

HEADLINE_METRICS: tuple[str, ...] = (
    "job_fabric_tx_bytes_per_s",
    "gpu_tensor_active_ratio",
    "gpu_sm_active_ratio",
    "gpu_gr_engine_active_ratio",
    "gpu_nvlink_tx_bytes_per_s",
    "gpu_util_ratio",
    "gpu_power_watts",
)
"""Which metric tells most about a training job, best first."""


def rfc3339(at_s: float) -> str:
    """``2026-11-30T21:30:00.250Z``."""
    return datetime.fromtimestamp(at_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def number(value: float | None) -> float | None:
    """A finite number, or None."""
    return None if value is None or not math.isfinite(value) else float(value)


def numbers(values: NDArray[np.float64]) -> list[float | None]:
    """A row of numbers with six significant digits (no exporter is more exact), None where not finite."""
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = 10.0 ** (5.0 - np.floor(np.log10(np.abs(values))))
        short = np.where(np.isfinite(scale), np.round(values * scale) / scale, values)
    row: list[float | None] = short.tolist()
    if not np.isfinite(short).all():
        row = [v if v is not None and math.isfinite(v) else None for v in row]
    return row


def absent(absence: Absence) -> schemas.Absent:
    """An honest absence."""
    return schemas.Absent(
        why=str(absence.why),
        reason=absence.reason,
        points_present=absence.points_present,
        points_needed=absence.points_needed,
    )


def skill(value: Skill) -> schemas.SkillOut:
    """Skill and coverage."""
    return schemas.SkillOut(
        skill=number(value.skill),
        coverage80=number(value.coverage80),
        coverage95=number(value.coverage95),
        scored=value.scored,
    )


def path(value: QuantilePath | Absence) -> schemas.QuantilePathOut | schemas.Absent:
    """A quantile path; the matrix is turned so that each level is one row."""
    if isinstance(value, Absence):
        return absent(value)
    return schemas.QuantilePathOut(
        metric=value.metric,
        unit=value.unit,
        start_at=rfc3339(value.start_s),
        start_s=value.start_s,
        step_s=value.step_s,
        levels=list(value.levels),
        values=[numbers(row) for row in value.values.T],
        model=value.model,
        model_version=value.model_version,
        skill=skill(value.skill),
        reason=value.reason,
    )


def metric_summary(value: QuantilePath | Absence) -> schemas.MetricSummary | schemas.Absent:
    """Who serves a metric, without the path."""
    if isinstance(value, Absence):
        return absent(value)
    return schemas.MetricSummary(
        metric=value.metric,
        unit=value.unit,
        model=value.model,
        model_version=value.model_version,
        skill=skill(value.skill),
    )


def period(value: Period | Absence) -> schemas.PeriodOut | schemas.Absent:
    """The iteration period."""
    if isinstance(value, Absence):
        return absent(value)
    return schemas.PeriodOut(
        period_s=value.period_s,
        low_s=number(value.low_s),
        high_s=number(value.high_s),
        score=number(value.score),
        votes=value.votes,
        voters=value.voters,
    )


def phase(value: PhaseNow | Absence) -> schemas.PhaseOut | schemas.Absent:
    """The current phase."""
    if isinstance(value, Absence):
        return absent(value)
    return schemas.PhaseOut(
        phase=str(value.phase),
        probabilities={str(name): number(p) or 0.0 for name, p in value.probabilities.items()},
        since_s=number(value.since_s),
        evidence=value.evidence,
    )


def lull(value: Lull | Absence) -> schemas.LullOut | schemas.Absent:
    """The next lull."""
    if isinstance(value, Absence):
        return absent(value)
    return schemas.LullOut(
        start_s=value.start_s,
        end_s=value.end_s,
        start_low_s=number(value.start_low_s),
        start_high_s=number(value.start_high_s),
        level=number(value.level),
        metric=value.metric,
    )


def duty(value: DutyCycle) -> schemas.DutyCycleOut:
    """A duty cycle."""
    return schemas.DutyCycleOut(
        metric=value.metric,
        period_s=value.period_s,
        origin_s=value.origin_s,
        mean=numbers(value.mean),
        low=numbers(value.low),
        high=numbers(value.high),
    )


def headline(metrics: dict[str, QuantilePath | Absence]) -> str | None:
    """The metric to show first: one that has a forecast if any has, else the first known."""
    forecast = [name for name, value in metrics.items() if isinstance(value, QuantilePath)]
    candidates = forecast or list(metrics)
    preferred = (name for name in HEADLINE_METRICS if name in candidates)
    return next(preferred, min(candidates, default=None))


def job_summary(job: JobForecast) -> schemas.JobSummary:
    """One job in short."""
    return schemas.JobSummary(
        id=str(job.job),
        made_at=rfc3339(job.made_at_s),
        made_at_s=job.made_at_s,
        data_at_s=job.data_at_s,
        age_s=number(job.age_s),
        step_s=number(job.step_s),
        nodes=list(job.nodes),
        gpu_count=job.gpu_count,
        shared=job.shared,
        period=period(job.period),
        phase=phase(job.phase),
        next_lull=lull(job.next_lull),
        headline_metric=headline(job.metrics),
        metrics={name: metric_summary(value) for name, value in job.metrics.items()},
    )


def job_forecast(job: JobForecast, only: Sequence[str] | None = None) -> schemas.JobForecastOut:
    """Everything foreseen about one job.

    Args:
        job: the newest forecast.
        only: metrics to give; None gives all. One that the job lacks is given as absent.
    """
    names = list(job.metrics) if only is None else list(dict.fromkeys(only))
    return schemas.JobForecastOut(
        id=str(job.job),
        made_at=rfc3339(job.made_at_s),
        made_at_s=job.made_at_s,
        data_at_s=job.data_at_s,
        age_s=number(job.age_s),
        step_s=number(job.step_s),
        nodes=list(job.nodes),
        gpu_count=job.gpu_count,
        shared=job.shared,
        period=period(job.period),
        phase=phase(job.phase),
        next_lull=lull(job.next_lull),
        metrics={name: path(job.metrics.get(name) or _unknown_metric(job, name)) for name in names},
        duty={name: duty(value) for name, value in job.duty.items() if name in names},
    )


def _unknown_metric(job: JobForecast, metric: str) -> Absence:
    known = ", ".join(sorted(job.metrics)) or "none"
    return Absence(Why.MISSING_FIELD, f"{job.job} has no metric {metric}; it has: {known}")


def phases(job: JobId, spans: Sequence[tuple[float, float, str]], newest: JobForecast) -> schemas.PhasesOut:
    """Past phases, the current one, the next lull."""
    return schemas.PhasesOut(
        id=str(job),
        phases=[schemas.PhaseSpan(start_s=start, end_s=end, phase=name) for start, end, name in spans],
        now=phase(newest.phase),
        next_lull=lull(newest.next_lull),
    )


def history(owner: str, value: History, max_points: int) -> schemas.HistoryOut:
    """Actual values; the oldest are left out beyond ``max_points``."""
    at_s = np.round(value.at_s[-max_points:], 3)
    return schemas.HistoryOut(
        id=owner,
        metric=value.metric,
        unit=value.unit,
        at_s=at_s.tolist(),
        value=numbers(value.value[-max_points:]),
        truncated=len(value.at_s) > max_points,
    )


def link_fields(link: LinkForecast) -> dict[str, object]:
    """What both link models share."""
    return {
        "id": str(link.link),
        "device": link.link.device,
        "port": link.link.port,
        "tier": link.link.tier,
        "made_at": rfc3339(link.made_at_s),
        "made_at_s": link.made_at_s,
        "data_at_s": link.data_at_s,
        "age_s": number(link.age_s),
        "capacity_bytes_per_s": number(link.capacity_bytes_per_s),
        "use_ratio": number(link.use_ratio),
        "threshold_ratio": link.threshold_ratio,
        "horizon_s": link.horizon_s,
        "probability": absent(link.probability) if isinstance(link.probability, Absence) else float(link.probability),
        "onset_at": None if number(link.onset_s) is None else rfc3339(float(link.onset_s or 0.0)),
        "onset_s": number(link.onset_s),
        "overload_s": number(link.overload_s),
        "causes": [
            schemas.CauseOut(job=str(cause.job), share_ratio=number(cause.share_ratio)) for cause in link.causes
        ],
        "skill": None if link.skill is None else skill(link.skill),
        "reason": link.reason,
    }


def link_summary(link: LinkForecast) -> schemas.LinkSummary:
    """A link in short."""
    return schemas.LinkSummary.model_validate(link_fields(link))


def link_congestion(link: LinkForecast) -> schemas.LinkCongestion:
    """A link with the quantile path of its use."""
    return schemas.LinkCongestion.model_validate({**link_fields(link), "path": path(link.path)})


def accuracy(row: AccuracyRow) -> schemas.AccuracyOut:
    """One row of live accuracy."""
    return schemas.AccuracyOut(
        subject=row.subject,
        metric=row.metric,
        model=row.model,
        model_version=row.model_version,
        skill=number(row.skill),
        coverage80=number(row.coverage80),
        coverage95=number(row.coverage95),
        scored=row.scored,
    )


def target(value: TargetHealth) -> schemas.TargetOut:
    """One source."""
    last_ok_s = number(value.last_ok_s)
    return schemas.TargetOut(
        source=value.source,
        up=value.up,
        last_ok_at=None if last_ok_s is None else rfc3339(last_ok_s),
        last_ok_s=last_ok_s,
        interval_s=number(value.interval_s),
        refresh_s=number(value.refresh_s),
        clock_offset_s=number(value.clock_offset_s),
        samples=value.samples,
        findings=dict(value.findings),
        last_error=value.last_error,
    )
