"""What a forecast is. Every forecast carries skill, coverage, age and model, or a reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from forecast.predict.job_parts import (
    DutyCycle,
    Lull,
    MemoryOutlook,
    MemoryTrend,
    NextPhase,
    OtherPeriod,
    Period,
    PhaseName,
    PhaseNow,
)
from telemetry.ids import JobId, LinkId

__all__ = [
    "NO_MEMORY",
    "Absence",
    "Cause",
    "DutyCycle",
    "JobForecast",
    "LinkForecast",
    "Lull",
    "MemoryOutlook",
    "MemoryTrend",
    "NextPhase",
    "OtherPeriod",
    "Period",
    "PhaseName",
    "PhaseNow",
    "QuantilePath",
    "Skill",
    "Why",
]


class Why(StrEnum):
    """Why there is no forecast; each is a normal answer."""

    STALE = "stale"
    MISSING_FIELD = "missing_field"
    JOB_UNMATCHED = "job_unmatched"
    INSUFFICIENT_HISTORY = "insufficient_history"
    SAMPLING_TOO_COARSE = "sampling_too_coarse"
    NO_RHYTHM = "no_rhythm"
    IRREGULAR = "irregular"
    """Something comes again and again, but not so that its next turn can be told."""
    IDLE = "idle"
    NO_DATA = "no_data"
    PARTIAL = "partial"
    NO_CAPACITY = "no_capacity"
    """A link whose capacity is unknown has no utilisation."""
    NO_TRAFFIC = "no_traffic"
    MODEL_ERROR = "model_error"
    HELD = "held"
    """A job waits for something else than GPUs."""


@dataclass(frozen=True, slots=True)
class Absence:
    """There is no forecast, and why.

    Args:
        why: one word for programs.
        reason: a sentence with the numbers, for people.
        points_present: how many points there are, where that is the reason.
        points_needed: how many are needed.
    """

    why: Why
    reason: str
    points_present: int | None = None
    points_needed: int | None = None


@dataclass(frozen=True, slots=True)
class Skill:
    """How a model did on the recent past of this very series.

    Args:
        skill: 1 - WQL(model) / WQL(persistence), 0 for persistence itself, 1 is perfect.
        coverage80: share of truths inside the 80 % interval; None when none was scored yet.
        coverage95: share inside the 95 % interval; None when none was scored yet.
        scored: how many (origin, step) pairs this rests on.
    """

    skill: float
    coverage80: float | None
    coverage95: float | None
    scored: int


@dataclass(frozen=True, slots=True, eq=False)
class QuantilePath:
    """Quantiles of one metric over the next steps.

    Args:
        metric: catalogue name.
        unit: its unit in words.
        start_s: Unix time of the cutoff, in the source's clock; step h is at start_s + (h + 1) * step_s.
        step_s: spacing.
        levels: (n_levels,) quantile levels.
        values: (horizon, n_levels) catalogue unit.
        model: which model is served; ``persistence`` when nothing beat it.
        model_version: of that model.
        skill: how it did here lately.
        reason: why this model was chosen.
    """

    metric: str
    unit: str
    start_s: float
    step_s: float
    levels: tuple[float, ...]
    values: NDArray[np.float64]
    model: str
    model_version: str
    skill: Skill
    reason: str


NO_MEMORY = Absence(Why.NO_DATA, "nothing is known of the job's GPU memory")


@dataclass(frozen=True, slots=True, eq=False)
class JobForecast:
    """Everything foreseen about one job.

    Args:
        job: which.
        made_at_s: wall time of the forecast.
        data_at_s: time of the newest sample used, in the source's clock.
        age_s: how long ago that sample arrived.
        step_s: spacing of the data it rests on.
        nodes: hosts.
        gpu_count: devices.
        shared: True when a device has other users too; figures are then estimates.
        period: iteration period, or why none.
        phase: current phase, or why none.
        next_lull: next lull on the fabric, or why none.
        metrics: quantile path per metric, or why none.
        duty: duty cycle per metric; empty without a period.
        next_phases: when each phase that comes now and then begins next, or why that is not told.
        memory: GPU memory of the device that is likeliest to run out, or why none.
    """

    job: JobId
    made_at_s: float
    data_at_s: float
    age_s: float
    step_s: float
    nodes: tuple[str, ...]
    gpu_count: int
    shared: bool
    period: Period | Absence
    phase: PhaseNow | Absence
    next_lull: Lull | Absence
    metrics: dict[str, QuantilePath | Absence]
    duty: dict[str, DutyCycle] = field(default_factory=dict)
    next_phases: dict[PhaseName, NextPhase | Absence] = field(default_factory=dict)
    memory: MemoryOutlook | Absence = NO_MEMORY


@dataclass(frozen=True, slots=True)
class Cause:
    """A job's part in a link's load.

    Args:
        job: which.
        share_ratio: its share of the link's bytes lately, 0..1.
    """

    job: JobId
    share_ratio: float


@dataclass(frozen=True, slots=True, eq=False)
class LinkForecast:
    """What a link will carry.

    Args:
        link: which port.
        made_at_s: wall time of the forecast.
        data_at_s: time of the newest sample used.
        age_s: how long ago it arrived.
        capacity_bytes_per_s: of one direction; None when unknown.
        use_ratio: latest use, 0..1; None when missing.
        threshold_ratio: use that counts as congested.
        horizon_s: how far the probability looks.
        probability: chance that a sample passes the threshold within the horizon, or why none.
        onset_s: Unix time at which the first crossing is expected; None when none is expected.
        overload_s: expected time above the threshold within the horizon.
        causes: jobs by share, largest first.
        path: quantile path of the use, or why none.
        skill: skill against climatology on this link's recent past, in when it next crosses, or in its use where it
            hardly ever crossed (``reason`` says which); None when not scored.
        reason: a sentence with the numbers used.
        model: what gives the probability: ``jobs``, ``rhythm``, ``persistence``, ``climatology``; empty when none.
        mean_use_ratio: mean use over the window, None when unknown.
        above_ratio: share of the window's samples above the threshold, None when unknown.
    """

    link: LinkId
    made_at_s: float
    data_at_s: float
    age_s: float
    capacity_bytes_per_s: float | None
    use_ratio: float | None
    threshold_ratio: float
    horizon_s: float
    probability: float | Absence
    onset_s: float | None
    overload_s: float
    causes: tuple[Cause, ...]
    path: QuantilePath | Absence
    skill: Skill | None
    reason: str
    model: str = ""
    mean_use_ratio: float | None = None
    above_ratio: float | None = None
