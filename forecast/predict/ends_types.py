"""What is said about ends, queues and demand. Every answer is an interval with a reason, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from telemetry.ids import JobId


@dataclass(frozen=True, slots=True)
class StepProgress:
    """How far a job has come, from its own step reports.

    Args:
        steps_done: steps so far.
        steps_planned: steps it will make in all.
        step_s: typical seconds a step, checkpoints and evaluations included.
        spread_ratio: standard deviation of the time per step over its mean, of stretches long enough to hold them.
    """

    steps_done: float
    steps_planned: float
    step_s: float
    spread_ratio: float = 0.1


@dataclass(frozen=True, slots=True)
class RemainingTime:
    """How long a job will still run.

    Args:
        job: which.
        made_at_s: Unix seconds.
        age_s: how long it has run.
        point_s: seconds still to go, most probably right within a factor of two.
        low_s: lower end of the 80 % interval.
        high_s: upper end.
        limit_s: seconds until its time limit ends it; None without one.
        ended_count: ended jobs that this rests on.
        coverage80: share of ended jobs that lay inside their 80 % interval; None when none was scored.
        model: ``history``, ``steps`` or ``history+steps``.
        reason: a sentence with the numbers used.
    """

    job: JobId
    made_at_s: float
    age_s: float
    point_s: float
    low_s: float
    high_s: float
    limit_s: float | None
    ended_count: int
    coverage80: float | None
    model: str
    reason: str


@dataclass(frozen=True, slots=True)
class StartTime:
    """When a waiting job will start.

    Args:
        job: which.
        made_at_s: Unix seconds.
        start_s: most probable start, Unix seconds (the median).
        low_s: lower end of the 80 % interval.
        high_s: upper end; inf when more than a tenth of the replays never start it.
        ahead_count: waiting jobs that come before it.
        draws: replays of the queue.
        model: ``replay`` or ``persistence`` (it waits as the last one waited).
        reason: a sentence with the numbers used.
    """

    job: JobId
    made_at_s: float
    start_s: float
    low_s: float
    high_s: float
    ahead_count: int
    draws: int
    model: str
    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class DemandForecast:
    """GPUs in use and free, of a cluster or a partition.

    Args:
        name: the partition; empty for the whole cluster.
        made_at_s: Unix seconds.
        leads_s: (n_leads,) seconds ahead.
        levels: (n_levels,) quantile levels.
        used_count: (n_leads, n_levels) GPUs in use.
        free_count: (n_leads, n_levels) GPUs free; its quantiles mirror those of use.
        total_count: GPUs in service.
        models: (n_leads,) what is served at each lead; ``persistence`` where nothing beat it.
        reason: a sentence with the numbers used.
    """

    name: str
    made_at_s: float
    leads_s: tuple[float, ...]
    levels: tuple[float, ...]
    used_count: NDArray[np.float64]
    free_count: NDArray[np.float64]
    total_count: float
    models: tuple[str, ...]
    reason: str
