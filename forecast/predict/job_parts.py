"""What is said of one job beside the paths of its metrics: its period, duty cycle, phases, lulls and memory."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class OtherPeriod:
    """What a less exact source says of the same job's period.

    Args:
        source: as in ``Period``.
        period_s: its estimate, seconds; None where it has none.
        reason: why it has none; empty where it has one.
    """

    source: str
    period_s: float | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Period:
    """The iteration period of a job.

    Args:
        period_s: best estimate, seconds.
        low_s: lower end of its 90 % interval.
        high_s: upper end.
        score: autocorrelation at the period, 0..1.
        votes: how many series agree.
        voters: how many series had anything to say.
        source: what it was read from: ``telemetry``; ``steps``, the job's own reports; ``collectives``, the stamps of
            its communication library. The most exact one speaks.
        others: what each other source says, by the same names, least exact last.
    """

    period_s: float
    low_s: float
    high_s: float
    score: float
    votes: int
    voters: int
    source: str = "telemetry"
    others: tuple[OtherPeriod, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class DutyCycle:
    """Mean use of a resource around the iteration circle.

    Args:
        metric: catalogue name.
        period_s: length of the circle.
        origin_s: Unix time at which the circle was at position 0.
        mean: (n_bins,) mean over recent iterations, catalogue unit; bin b covers [b, b + 1) * period / n_bins.
        low: (n_bins,) 10 % quantile.
        high: (n_bins,) 90 % quantile.
    """

    metric: str
    period_s: float
    origin_s: float
    mean: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


class PhaseName(StrEnum):
    """What a job can be doing."""

    INIT = "init"
    COMPUTE = "compute"
    COMMUNICATE = "communicate"
    LOAD = "load"
    CHECKPOINT = "checkpoint"
    EVALUATE = "evaluate"
    IDLE = "idle"


@dataclass(frozen=True, slots=True)
class PhaseNow:
    """The phase a job is in.

    Args:
        phase: the most probable.
        probabilities: of every phase; they sum to 1.
        since_s: Unix time at which it began, as far as the history shows.
        evidence: a sentence with the numbers used.
    """

    phase: PhaseName
    probabilities: dict[PhaseName, float]
    since_s: float
    evidence: str


@dataclass(frozen=True, slots=True)
class NextPhase:
    """When a phase begins next, and how long it lasts.

    Args:
        phase: which.
        start_s: expected start, Unix seconds, in the source's clock.
        start_low_s: lower end of the start's 80 % interval.
        start_high_s: upper end.
        length_s: expected length.
        length_low_s: lower end of the length's 80 % interval.
        length_high_s: upper end.
        probability: chance that it begins within the start's interval: how often that was so lately.
        rule: what it is told by, in words.
        evidence: a sentence with the numbers used.
        skill: 1 - error / error of the best of the last, the mean and the recent median interval; 0 where one of these
            speaks because nothing beat it.
        right_ratio: share of the scored statements that held; None when none was scored yet.
        scored: past occurrences that were foreseen in the same way and have come.
        source: ``steps``, the job's own reports, or ``telemetry``.
    """

    phase: PhaseName
    start_s: float
    start_low_s: float
    start_high_s: float
    length_s: float
    length_low_s: float
    length_high_s: float
    probability: float
    rule: str
    evidence: str
    skill: float
    right_ratio: float | None
    scored: int
    source: str


@dataclass(frozen=True, slots=True)
class Lull:
    """The next stretch in which a job hardly uses the fabric.

    Args:
        start_s: expected start, Unix seconds.
        end_s: expected end.
        start_low_s: lower end of the start's 80 % interval.
        start_high_s: upper end.
        level: expected use during it, catalogue unit of ``metric``.
        metric: which use.
    """

    start_s: float
    end_s: float
    start_low_s: float
    start_high_s: float
    level: float
    metric: str


class MemoryTrend(StrEnum):
    """How a job's GPU memory behaves."""

    FLAT = "flat"
    STEPS = "steps"
    """It rises now and then."""
    LEAK = "leak"
    """It rises all the time."""


@dataclass(frozen=True, slots=True)
class MemoryOutlook:
    """GPU memory of the device of a job that is likeliest to run out first.

    Args:
        device: which.
        used_bytes: newest reading.
        peak_bytes: highest since it was last set free, which it has survived.
        usable_bytes: what jobs may use of it.
        headroom_bytes: usable less peak.
        trend: how it behaves.
        slope_bytes_per_s: mean rise of the peak lately.
        horizon_s: how far the figures below look.
        peak_ahead_bytes: 10 %, 50 % and 90 % quantile of the peak by then, were there no limit.
        out_of_memory_probability: chance that the peak passes what is usable by then.
        full_in_s: when it is expected to be full at this slope; None where it does not rise.
        reason: a sentence with the numbers used.
    """

    device: str
    used_bytes: float
    peak_bytes: float
    usable_bytes: float
    headroom_bytes: float
    trend: MemoryTrend
    slope_bytes_per_s: float
    horizon_s: float
    peak_ahead_bytes: tuple[float, float, float]
    out_of_memory_probability: float
    full_in_s: float | None
    reason: str
