"""Jobs as API models."""

from __future__ import annotations

from collections.abc import Sequence

from api.http import schemas
from api.http.render.base import absent, number, numbers, path, rfc3339, skill
from api.http.render.queue import scheduled
from forecast.predict.types import (
    Absence,
    DutyCycle,
    JobForecast,
    Lull,
    MemoryOutlook,
    NextPhase,
    Period,
    PhaseNow,
    QuantilePath,
    Why,
)
from telemetry.ids import JobId
from telemetry.roster import JobRecord

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
        source=value.source,
        others=[
            schemas.OtherPeriodOut(source=one.source, period_s=one.period_s, reason=one.reason) for one in value.others
        ],
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


def next_phases(job: JobForecast) -> dict[str, schemas.NextPhaseOut | schemas.Absent]:
    """The next checkpoint and evaluation."""
    return {
        str(name): absent(value) if isinstance(value, Absence) else _next_phase(value)
        for name, value in job.next_phases.items()
    }


def _next_phase(value: NextPhase) -> schemas.NextPhaseOut:
    return schemas.NextPhaseOut(
        phase=str(value.phase),
        start_s=value.start_s,
        start_low_s=value.start_low_s,
        start_high_s=value.start_high_s,
        length_s=value.length_s,
        length_low_s=value.length_low_s,
        length_high_s=value.length_high_s,
        probability=value.probability,
        rule=value.rule,
        evidence=value.evidence,
        skill=number(value.skill),
        right_ratio=number(value.right_ratio),
        scored=value.scored,
        source=value.source,
    )


def memory(value: MemoryOutlook | Absence) -> schemas.MemoryOut | schemas.Absent:
    """GPU memory and the chance to run out of it."""
    if isinstance(value, Absence):
        return absent(value)
    low, median, high = value.peak_ahead_bytes
    return schemas.MemoryOut(
        device=value.device,
        used_bytes=value.used_bytes,
        peak_bytes=value.peak_bytes,
        usable_bytes=value.usable_bytes,
        headroom_bytes=value.headroom_bytes,
        trend=str(value.trend),
        slope_bytes_per_s=value.slope_bytes_per_s,
        horizon_s=value.horizon_s,
        peak_low_bytes=low,
        peak_median_bytes=median,
        peak_high_bytes=high,
        out_of_memory_probability=value.out_of_memory_probability,
        full_in_s=value.full_in_s,
        reason=value.reason,
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


def job_summary(job: JobForecast, record: JobRecord | None = None) -> schemas.JobSummary:
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
        memory=memory(job.memory),
        scheduled=None if record is None else scheduled(record),
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
        memory=memory(job.memory),
        metrics={name: path(job.metrics.get(name) or _unknown_metric(job, name)) for name in names},
        duty={name: duty(value) for name, value in job.duty.items() if name in names},
        next_phases=next_phases(job),
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
        next_phases=next_phases(newest),
    )
