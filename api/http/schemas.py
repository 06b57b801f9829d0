"""What the HTTP API answers: pydantic models with the unit in each name, nothing extra, never NaN.

"Maybe" fields hold either the thing or an ``Absent`` object; ``absent: true`` tells them apart. Times are Unix
seconds (``_s``) and, where people read them, RFC 3339 UTC (``_at``) beside them.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Rfc3339 = Annotated[str, Field(json_schema_extra={"format": "date-time"}, examples=["2026-11-30T21:30:00.250Z"])]
JobText = Annotated[str, Field(description="A job: `backend:name`.", examples=["kubernetes:team-a:train"])]
LinkText = Annotated[str, Field(description="A link: `device:port`.", examples=["leaf-1:swp49"])]


class Answer(BaseModel):
    """Base of everything answered."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class ProblemDocument(BaseModel):
    """An error, as RFC 9457 asks; extension members may follow."""

    model_config = ConfigDict(extra="allow", frozen=True)
    type: str = Field(description="A URN that programs may compare.", examples=["urn:gpucast:problem:unknown-job"])
    title: str = Field(description="The status in words.")
    status: int = Field(ge=400, le=599)
    detail: str = Field(description="A sentence that names the thing at fault and the mend.")
    instance: str = Field(description="Path of the request.")


class Absent(Answer):
    """There is no answer of this kind, and why; a normal reply with status 200."""

    absent: Literal[True] = True
    why: str = Field(description="One word for programs, such as `idle`, `stale`, `sampling_too_coarse`.")
    reason: str = Field(description="A sentence with the numbers, for people.")
    points_present: int | None = Field(None, description="How many points there are, where that is the reason.")
    points_needed: int | None = Field(None, description="How many are needed.")


class SkillOut(Answer):
    """How the served model did on the recent past of this very series."""

    skill: float | None = Field(description="1 - WQL(model) / WQL(persistence); 0 is persistence, 1 is perfect.")
    coverage80: float | None = Field(description="Share of truths inside the 80 % interval, 0..1.")
    coverage95: float | None = Field(description="Share of truths inside the 95 % interval, 0..1.")
    scored: int = Field(description="How many (origin, step) pairs this rests on.")


class PeriodOut(Answer):
    """The iteration period, with its 90 % interval."""

    period_s: float
    low_s: float | None
    high_s: float | None
    score: float | None = Field(description="Autocorrelation at the period, 0..1.")
    votes: int = Field(description="How many series agree.")
    voters: int = Field(description="How many series had anything to say.")


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


class MetricSummary(Answer):
    """Which model serves a metric, and how well."""

    metric: str
    unit: str
    model: str = Field(description="`persistence` when nothing beat it.")
    model_version: str
    skill: SkillOut


class QuantilePathOut(Answer):
    """Quantiles of one metric over the next steps, as a matrix.

    `values[i][h]` is the quantile `levels[i]` at `start_s + (h + 1) * step_s`, in `unit`.
    """

    metric: str
    unit: str
    start_at: Rfc3339
    start_s: float = Field(description="The cutoff in the source's clock, Unix seconds.")
    step_s: float
    levels: list[float] = Field(description="Quantile levels, ascending, 0..1.")
    values: list[list[float | None]] = Field(description="One row per level, one column per step.")
    model: str = Field(description="`persistence` when nothing beat it.")
    model_version: str
    skill: SkillOut
    reason: str = Field(description="Why this model was chosen.")


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


class JobSummary(_Job):
    """One job in short: rhythm, phase, next lull, and who serves which metric."""

    headline_metric: str | None = Field(description="The metric that tells most about this job; None without any.")
    metrics: dict[str, MetricSummary | Absent]


class JobForecastOut(_Job):
    """Everything foreseen about one job."""

    metrics: dict[str, QuantilePathOut | Absent]
    duty: dict[str, DutyCycleOut] = Field(description="Duty cycle per metric; empty without a period.")


class JobList(Answer):
    """Jobs, sorted by id."""

    items: list[JobSummary]
    next_cursor: str | None
    total: int


class HistoryOut(Answer):
    """Actual values on a grid, oldest first; `value[i]` is at `at_s[i]`, null where missing."""

    id: str
    metric: str
    unit: str
    at_s: list[float]
    value: list[float | None]
    truncated: bool = Field(description="True when older points of the window were left out.")


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


class CauseOut(Answer):
    """A job's part in a link's load."""

    job: JobText
    share_ratio: float | None = Field(description="Its share of the link's bytes lately, 0..1.")


class LinkSummary(Answer):
    """What a link carries and its chance to pass the threshold."""

    id: LinkText
    device: str
    port: str
    tier: str = Field(description="`nic`, `leaf`, `spine`, or empty when unknown.")
    made_at: Rfc3339
    made_at_s: float
    data_at_s: float
    age_s: float | None
    capacity_bytes_per_s: float | None = Field(description="Of one direction; null when unknown.")
    use_ratio: float | None = Field(description="Latest use, 0..1; null when missing.")
    threshold_ratio: float = Field(description="Use that counts as congested.")
    horizon_s: float = Field(description="How far the probability looks.")
    probability: float | Absent = Field(description="Chance that a sample passes the threshold within the horizon.")
    onset_at: Rfc3339 | None
    onset_s: float | None = Field(description="When the first crossing is expected; null when none is.")
    overload_s: float | None = Field(description="Expected time above the threshold within the horizon.")
    causes: list[CauseOut] = Field(description="Jobs by share, largest first.")
    skill: SkillOut | None = Field(description="Brier skill against climatology; null when not scored.")
    reason: str = Field(description="A sentence with the numbers used.")


class LinkCongestion(LinkSummary):
    """The same with the quantile path of the use."""

    path: QuantilePathOut | Absent


class LinkList(Answer):
    """Links, highest probability first."""

    items: list[LinkSummary]
    next_cursor: str | None
    total: int


class EffectOut(Answer):
    """What an advice says will happen, as an 80 % interval."""

    metric: str = Field(description="What is measured, unit at the end.")
    baseline: float | None = Field(description="Its value lately, without the advice.")
    low: float | None
    median: float | None
    high: float | None
    window_s: float | None = Field(description="Over how long it is measured, once the advice took effect.")


class PlanOut(Answer):
    """What would be done, in the scheduler's own words."""

    backend: str
    steps: list[str]
    snapshot_at_s: float
    expires_at_s: float


class ReceiptOut(Answer):
    """What was done."""

    applied: bool = Field(description="False for a dry run or a repeat.")
    detail: str
    applied_at: Rfc3339
    applied_at_s: float


class GradeOut(Answer):
    """How an advice turned out."""

    verdict: str = Field(description="`inside`, `better` or `worse` than the predicted interval, or `inconclusive`.")
    measured: float | None = Field(description="The metric afterwards; null when it could not be measured.")
    reason: str
    graded_at_s: float


class AdviceOut(Answer):
    """One thing to do, or a reasoned nothing, and what became of it."""

    id: str
    kind: str
    status: str = Field(
        description="`open`, `approved`, `applied`, `graded`, `expired`, `rejected`, `failed` or `rolled_back`."
    )
    mode: str = Field(description="How far this kind may go: `observe`, `recommend`, `approve` or `auto`.")
    verbs: list[str] = Field(description="What may be posted now: `approve`, `reject`, `rollback`.")
    job: JobText | None
    link: LinkText | None
    action: dict[str, float | str]
    reason: str = Field(description="A sentence with the numbers used.")
    numbers: dict[str, float | None]
    predicted: EffectOut | None = Field(description="null for a hold.")
    made_at: Rfc3339
    made_at_s: float
    expires_at: Rfc3339
    expires_at_s: float
    inverse: dict[str, float | str] | None = Field(description="Action that undoes it; null when nothing needs to be.")
    plan: PlanOut | None
    receipt: ReceiptOut | None
    grade: GradeOut | None


class AdviceList(Answer):
    """Advice, newest first."""

    items: list[AdviceOut]
    next_cursor: str | None
    total: int


class AccuracyOut(Answer):
    """How served forecasts of one series did once the truth was in."""

    subject: str = Field(description="A job or a link.")
    metric: str = Field(description="Catalogue name, or `congestion`.")
    model: str
    model_version: str
    skill: float | None = Field(description="1 - WQL / WQL of persistence (Brier for congestion).")
    coverage80: float | None = Field(description="null for congestion.")
    coverage95: float | None = Field(description="null for congestion.")
    scored: int


class AccuracyList(Answer):
    """Live accuracy by subject and metric."""

    items: list[AccuracyOut]
    next_cursor: str | None
    total: int


class TargetOut(Answer):
    """One source of samples."""

    source: str
    up: bool = Field(description="Whether the last attempt gave samples.")
    last_ok_at: Rfc3339 | None
    last_ok_s: float | None
    interval_s: float | None = Field(description="How often it is read now.")
    refresh_s: float | None = Field(description="How often its values really change; null when not known yet.")
    clock_offset_s: float | None = Field(description="Our clock minus its timestamps; null when it sends none.")
    samples: int = Field(description="Per reply.")
    findings: dict[str, int] = Field(description="What was wrong with its replies, counted since the start.")
    last_error: str = Field(description="A sentence; empty when fine.")


class HealthOut(Answer):
    """Whether the service can serve, its sources, and how far it may act."""

    ready: bool
    reasons: list[str] = Field(description="Why it is not ready; empty when it is.")
    now_at: Rfc3339
    now_s: float
    started_at: Rfc3339
    started_s: float
    version: str
    mode: str = Field(description="The highest mode set for any kind of action.")
    backend: str = Field(description="Who would act.")
    sources_up: int
    sources_total: int
    targets: list[TargetOut]
    missing_fields: dict[str, str] = Field(description="Metric -> what its absence costs.")


class ProbeOut(Answer):
    """Answer to a probe."""

    status: Literal["ok", "ready"]
