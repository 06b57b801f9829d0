"""Answers about jobs."""

from __future__ import annotations

from pydantic import Field

from api.http.schemas.base import Absent, Answer, JobText, QuantilePathOut, Rfc3339, SkillOut
from api.http.schemas.queue import ScheduledOut


class OtherPeriodOut(Answer):
    """What a less exact source says of the same period."""

    source: str
    period_s: float | None
    reason: str = Field(description="Why it has none; empty where it has one.")


class PeriodOut(Answer):
    """The iteration period, with its 90 % interval."""

    period_s: float
    low_s: float | None
    high_s: float | None
    score: float | None = Field(description="Autocorrelation at the period, 0..1.")
    votes: int = Field(description="How many series agree.")
    voters: int = Field(description="How many series had anything to say.")
    source: str = Field(
        description="What it was read from: `telemetry`, `steps` or `collectives`; the most exact speaks."
    )
    others: list[OtherPeriodOut] = Field(description="What each other source says.")


class PhaseOut(Answer):
    """What the job is doing now."""

    phase: str
    probabilities: dict[str, float] = Field(description="Of every phase; they sum to 1.")
    since_s: float | None = Field(description="When it began, as far as the history shows, Unix seconds.")
    evidence: str = Field(description="A sentence with the numbers used.")


class LullOut(Answer):
    """The next stretch in which the job hardly uses the fabric."""

    start_s: float
    end_s: float
    start_low_s: float | None = Field(description="Lower end of the start's 80 % interval, Unix seconds.")
    start_high_s: float | None = Field(description="Upper end of the start's 80 % interval, Unix seconds.")
    level: float | None = Field(description="Expected use during it, in the unit of `metric`.")
    metric: str


class NextPhaseOut(Answer):
    """When a phase that comes now and then begins next, and how long it lasts."""

    phase: str
    start_s: float = Field(description="Expected start, in the source's clock, Unix seconds.")
    start_low_s: float = Field(description="Lower end of the start's 80 % interval, Unix seconds.")
    start_high_s: float = Field(description="Upper end of the start's 80 % interval, Unix seconds.")
    length_s: float
    length_low_s: float = Field(description="Lower end of the length's 80 % interval.")
    length_high_s: float = Field(description="Upper end of the length's 80 % interval.")
    probability: float = Field(description="Chance that it begins inside that interval: how often that was so lately.")
    rule: str = Field(description="What it is told by, such as `every 500 steps`.")
    evidence: str = Field(description="A sentence with the numbers used.")
    skill: float | None = Field(
        description="1 - error / error of the best of last, mean and median interval; 0 when one of these speaks."
    )
    right_ratio: float | None = Field(
        description="Share of the scored statements that held; null when none was scored."
    )
    scored: int = Field(description="Past occurrences that were foreseen in the same way and have come.")
    source: str = Field(description="`steps`, the job's own reports, or `telemetry`.")


class MemoryOut(Answer):
    """GPU memory of the device of the job that is likeliest to run out first."""

    device: str
    used_bytes: float
    peak_bytes: float = Field(description="Highest use since memory was last set free.")
    usable_bytes: float = Field(description="What jobs may use of the device.")
    headroom_bytes: float = Field(description="usable_bytes less peak_bytes.")
    trend: str = Field(description="`flat`, `steps` or `leak`.")
    slope_bytes_per_s: float = Field(description="Mean rise of the peak lately.")
    horizon_s: float = Field(description="How far the figures below look.")
    peak_low_bytes: float = Field(description="10 % quantile of the peak by then, were there no limit.")
    peak_median_bytes: float
    peak_high_bytes: float = Field(description="90 % quantile.")
    out_of_memory_probability: float = Field(description="Chance that the peak passes usable_bytes by then.")
    full_in_s: float | None = Field(description="Seconds until full at this slope; null where that is over a day.")
    reason: str = Field(description="A sentence with the numbers used.")


class MetricSummary(Answer):
    """Which model serves a metric, and how well."""

    metric: str
    unit: str
    model: str = Field(description="`persistence` when nothing beat it.")
    model_version: str
    skill: SkillOut


class DutyCycleOut(Answer):
    """Mean use around the iteration circle; bin b covers [b, b + 1) * period_s / number of bins."""

    metric: str
    period_s: float
    origin_s: float = Field(description="When the circle was at position 0, Unix seconds.")
    mean: list[float | None]
    low: list[float | None] = Field(description="10 % quantile of each bin.")
    high: list[float | None] = Field(description="90 % quantile of each bin.")


class _Job(Answer):
    id: JobText
    made_at: Rfc3339
    made_at_s: float = Field(description="When the forecast was made, wall time, Unix seconds.")
    data_at_s: float = Field(description="Newest sample used, in the source's clock, Unix seconds.")
    age_s: float | None = Field(description="Age of that sample when the forecast was made; it grows since then.")
    step_s: float | None = Field(description="Spacing of the data it rests on, seconds.")
    nodes: list[str]
    gpu_count: int
    shared: bool = Field(description="True when a device has other users too; figures are then estimates.")
    period: PeriodOut | Absent
    phase: PhaseOut | Absent
    next_lull: LullOut | Absent
    memory: MemoryOut | Absent = Field(description="Head-room of GPU memory and the chance to run out.")


class JobSummary(_Job):
    """One job in short: rhythm, phase, next lull, and who serves which metric."""

    scheduled: ScheduledOut | None = Field(description="What its scheduler lists of it; null where none is read.")
    headline_metric: str | None = Field(description="The metric that tells most about this job; None without any.")
    metrics: dict[str, MetricSummary | Absent]


class JobForecastOut(_Job):
    """Everything foreseen about one job."""

    metrics: dict[str, QuantilePathOut | Absent]
    duty: dict[str, DutyCycleOut] = Field(description="Duty cycle per metric; empty without a period.")
    next_phases: dict[str, NextPhaseOut | Absent] = Field(description="The next checkpoint and evaluation, by phase.")


class JobList(Answer):
    """Jobs, sorted by id."""

    items: list[JobSummary]
    next_cursor: str | None
    total: int


class PhaseSpan(Answer):
    """One past phase."""

    start_s: float
    end_s: float
    phase: str


class PhasesOut(Answer):
    """Past phases of a job, oldest first, and what it does now."""

    id: JobText
    phases: list[PhaseSpan]
    now: PhaseOut | Absent
    next_lull: LullOut | Absent
    next_phases: dict[str, NextPhaseOut | Absent] = Field(description="The next checkpoint and evaluation, by phase.")
