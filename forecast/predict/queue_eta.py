"""When each waiting job will start: the queue is replayed over sampled ends of the jobs that run.

In each replay every running job ends when a draw from its remaining time says so, and the waiting jobs are placed in
the scheduler's order, each at the first moment from which on its GPUs stay free for as long as its own drawn duration,
without delaying one placed before it (conservative back-fill; Mu'alem and Feitelson 2001). What comes later and before
it in the order, and how GPUs are spread over nodes, is not foreseen. Slurm and Kubernetes queues are the same here:
partitions whose nodes overlap share their GPUs; where no partition is told there is one pool.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forecast.predict.ends_types import StartTime
from forecast.predict.queue_profile import FreeProfile
from forecast.predict.types import Absence, Why
from telemetry.ids import JobId
from telemetry.roster import HOLDING, JobRecord, NodeGpus, Roster

Floats = NDArray[np.float64]
Draw = Callable[[JobRecord, float], "Floats | None"]
"""(record, age_s) -> (draws,) seconds still to go (age 0: the whole duration), or None when nothing is known."""
DRAWS = 50
MOST_WAITING = 500
"""Waiting jobs of a pool that are placed; what waits behind them is not foreseen."""
MOST_TASKS = 64
"""Tasks of one array that are placed."""
MOST_PLACED = 2000
"""Tasks of all waiting jobs of a pool that are placed in one replay."""
LEAST_KNOWN_RATIO = 0.5
"""Share of the held GPUs whose job's end must be known."""
HELD_REASONS = ("dependency", "jobhelduser", "jobheldadmin", "begintime", "schedulinggated", "reservation")


@dataclass(frozen=True, slots=True)
class Pool:
    """GPUs that the same jobs compete for.

    Args:
        partitions: names of the partitions; empty when none is told.
        total: GPUs in service that may be given out.
        free: of them now.
    """

    partitions: frozenset[str]
    total: int
    free: int


def pools_of(nodes: Iterable[NodeGpus]) -> list[Pool]:
    """Nodes joined by the partitions they share; nodes of no told partition are one pool."""
    groups: list[tuple[set[str], list[NodeGpus]]] = []
    for node in nodes:
        if not node.in_service or node.held or node.total <= 0:
            continue
        names = set(node.partitions)
        same = [k for k, (taken, _) in enumerate(groups) if taken & names or not (taken or names)]
        if not same:
            groups.append((names, [node]))
            continue
        joined, members = groups[same[0]]
        joined |= names
        members.append(node)
        for k in reversed(same[1:]):
            taken, others = groups.pop(k)
            joined |= taken
            members += others
    pools = []
    for names, members in groups:
        free = sum(node.total if node.used is None else node.total - node.used for node in members)
        pools.append(Pool(frozenset(names), sum(node.total for node in members), free))
    return pools


def gpus_asked(job: JobRecord) -> int | None:
    """GPUs that a job needs to start; None when its scheduler does not tell."""
    return job.asked_gpu_count if job.asked_gpu_count is not None else job.gpu_count


def tasks_placed(job: JobRecord) -> int:
    """Tasks of a job that a replay places; 1 for what is no array."""
    return max(1, min(job.task_count, MOST_TASKS))


def queue_order(waiting: Iterable[JobRecord]) -> list[JobRecord]:
    """The scheduler's order: higher priority first, then who waits longest, then the id."""
    return sorted(
        waiting,
        key=lambda job: (-(job.priority or 0.0), job.submit_s if job.submit_s is not None else float("inf"), job.job),
    )


def start_times(roster: Roster, at_s: float, draw: Draw, *, draws: int = DRAWS) -> dict[JobId, StartTime | Absence]:
    """When every waiting job of a list will start, or why that is not said.

    Args:
        roster: what the scheduler lists.
        at_s: now, Unix seconds.
        draw: sampled remaining times; ``draws`` values each.
        draws: replays.
    """
    answers: dict[JobId, StartTime | Absence] = {}
    pools = pools_of(roster.nodes)
    members: list[list[JobRecord]] = [[] for _ in pools]
    for job in queue_order(roster.waiting):
        place = _pool_of(job, pools)
        refusal = _refusal(job, pools[place] if place is not None else None)
        if refusal is not None:
            answers[job.job] = refusal
        elif place is not None:
            members[place].append(job)
    running = [job for job in roster.jobs if job.state in HOLDING and job.gpu_count]
    for number, (pool, waiting) in enumerate(zip(pools, members, strict=True)):
        if waiting:
            held = [job for job in running if _pool_of(job, pools) == number]
            answers |= _replay(pool, held, waiting, at_s, draw, draws)
    return answers


def _pool_of(job: JobRecord, pools: list[Pool]) -> int | None:
    """The pool of a job's partition; of several partitions (``a,b``) the first that is known."""
    if len(pools) == 1 and (not pools[0].partitions or not job.partition):
        return 0
    for name in job.partition.split(","):
        for number, pool in enumerate(pools):
            if name in pool.partitions:
                return number
    # A scheduler that tells no partitions of nodes has one pool of nodes without any.
    return next((number for number, pool in enumerate(pools) if not pool.partitions), None)


def _refusal(job: JobRecord, pool: Pool | None) -> Absence | None:
    """Why a job's start cannot be foreseen; None when it can."""
    reason = job.reason.strip("()").lower()
    if any(word in reason for word in HELD_REASONS):
        return Absence(Why.HELD, f"Job {job.job} waits for something else than GPUs: {job.reason}.")
    asked = gpus_asked(job)
    if asked is None:
        return Absence(Why.MISSING_FIELD, f"The scheduler does not tell how many GPUs job {job.job} asks for.")
    if asked == 0 or job.shares_gpus:
        return Absence(Why.NO_DATA, f"Job {job.job} asks for no whole GPU; only whole ones are replayed.")
    if pool is None:
        return Absence(Why.NO_DATA, f"No node in service is known of partition {job.partition or '(none)'}.")
    if asked > pool.total:
        sentence = f"Job {job.job} asks for {asked} GPUs; {pool.total} are in service where it may run."
        return Absence(Why.NO_CAPACITY, sentence)
    return None


def _replay(
    pool: Pool, running: list[JobRecord], waiting: list[JobRecord], at_s: float, draw: Draw, draws: int
) -> dict[JobId, StartTime | Absence]:
    reached = int(np.searchsorted(np.cumsum([tasks_placed(job) for job in waiting]), MOST_PLACED, side="right"))
    waiting, behind = waiting[: min(reached, MOST_WAITING)], waiting[min(reached, MOST_WAITING) :]
    answers: dict[JobId, StartTime | Absence] = {
        job.job: Absence(Why.PARTIAL, f"It waits behind the first {len(waiting)} jobs of its queue.") for job in behind
    }
    ends, known = [], 0
    for job in running:
        age_s = max(at_s - job.start_s, 0.0) if job.start_s is not None else 0.0
        left_s = draw(job, age_s)
        if left_s is not None:
            known += job.gpu_count or 0
            ends.append((job.gpu_count or 0, left_s))
    held = sum(job.gpu_count or 0 for job in running)
    lasts = {job.job: draw(job, 0.0) for job in waiting}
    if known < LEAST_KNOWN_RATIO * held or any(value is None for value in lasts.values()):
        sentence = f"The ends of jobs with {known} of {held} held GPUs can be foreseen so far; history is too small."
        return answers | {job.job: Absence(Why.INSUFFICIENT_HISTORY, sentence) for job in waiting}
    starts = np.full((len(lasts), draws), np.inf)
    for k in range(draws):
        profile = FreeProfile(pool.free, [(float(left_s[k]), count) for count, left_s in ends], pool.total)
        for row, job in enumerate(waiting):
            drawn = lasts[job.job]
            assert drawn is not None
            count = gpus_asked(job) or 0
            starts[row, k] = profile.place(count, float(drawn[k]))
            for task in range(1, tasks_placed(job)):
                profile.place(count, float(drawn[(k + task) % draws]))
    for row, job in enumerate(waiting):
        low, middle, high = np.quantile(starts[row], (0.1, 0.5, 0.9), method="inverted_cdf")
        if not np.isfinite(middle):
            sentence = (
                f"In half of {draws} replays it never got its {gpus_asked(job)} GPUs: jobs hold them without known end."
            )
            answers[job.job] = Absence(Why.INSUFFICIENT_HISTORY, sentence)
            continue
        sentence = (
            f"{row} waiting jobs come before it and {pool.free} of {pool.total} GPUs are free; {draws} replays of "
        )
        sentence += f"{len(ends)} running jobs' ends."
        start_s, low_s, high_s = (at_s + float(value) for value in (middle, low, high))
        answers[job.job] = StartTime(job.job, at_s, start_s, low_s, high_s, row, draws, "replay", sentence)
    return answers
