"""What an advice is, and how it is graded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from forecast.predict.types import JobForecast, LinkForecast
from telemetry.ids import JobId, LinkId
from telemetry.topology import ClusterSnapshot


class Mode(StrEnum):
    """How far an action kind may go; the user raises it, nothing else does."""

    OBSERVE = "observe"
    RECOMMEND = "recommend"
    APPROVE = "approve"
    AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Effect:
    """What an advice says will happen, as an 80 % interval.

    Args:
        metric: what is measured, unit at the end, such as ``link_overload_ratio``.
        baseline: its value lately, without the advice.
        low: lower end of what it will be with the advice.
        median: middle.
        high: upper end.
        window_s: over how long it is measured, once the advice has taken effect.
    """

    metric: str
    baseline: float
    low: float
    median: float
    high: float
    window_s: float


@dataclass(frozen=True, slots=True)
class Advice:
    """One thing to do, or a reasoned nothing.

    Args:
        id: stable over repeats of the same advice: a digest of kind, job, link and action.
        kind: ``shift`` or ``hold``.
        job: whom it acts on; None for a hold about the whole cluster.
        link: which link it is about.
        action: parameters for the backend, such as ``{"offset_s": 1.2}``; empty for a hold.
        reason: a sentence with the numbers used.
        numbers: those numbers by name.
        predicted: what will happen; None for a hold.
        made_at_s: Unix seconds.
        expires_at_s: after this it must not be applied.
        inverse: action that undoes it; None when nothing needs undoing.
    """

    id: str
    kind: str
    job: JobId | None
    link: LinkId | None
    action: Mapping[str, float | str]
    reason: str
    numbers: Mapping[str, float]
    predicted: Effect | None
    made_at_s: float
    expires_at_s: float
    inverse: Mapping[str, float | str] | None = None


@dataclass(frozen=True, slots=True)
class Grade:
    """How an advice turned out.

    Args:
        advice_id: which.
        verdict: ``inside``, ``better``, ``worse`` (against the predicted interval) or ``inconclusive``.
        measured: the metric afterwards; None when it could not be measured.
        reason: a sentence with the numbers.
        graded_at_s: Unix seconds.
    """

    advice_id: str
    verdict: str
    measured: float | None
    reason: str
    graded_at_s: float


@dataclass(frozen=True, slots=True)
class Limits:
    """What the advisor must respect.

    Args:
        threshold_ratio: link use that counts as congested.
        min_probability: a congestion forecast below this moves nothing.
        min_skill: a forecast below this skill moves nothing.
        max_age_s: data older than this moves nothing.
        max_shift_periods: a shift is at most this share of the job's period.
        valid_s: how long an advice may wait.
    """

    threshold_ratio: float = 0.9
    min_probability: float = 0.6
    min_skill: float = 0.05
    max_age_s: float = 30.0
    max_shift_periods: float = 1.0
    valid_s: float = 60.0


@dataclass(frozen=True, slots=True, eq=False)
class Forecasts:
    """Everything foreseen, as rules see it."""

    jobs: Mapping[JobId, JobForecast] = field(default_factory=dict)
    links: Mapping[LinkId, LinkForecast] = field(default_factory=dict)


Rule = Callable[[ClusterSnapshot, Forecasts, Limits], list[Advice]]
"""The rule seam: pure and deterministic; nothing in, nothing out; a reason on every advice."""
