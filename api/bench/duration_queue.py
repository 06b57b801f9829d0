"""When waiting jobs start: recorded jobs sent through a simulated scheduler, the replay of the queue against the last wait.

No public list at hand tells when its jobs waited, so arrivals and durations are recorded ones and the queue is simulated:
one pool of GPUs, first come first served, and whatever fits behind starts too. The pool is what would be enough 97 % of
the time if nothing waited; bursts of jobs wait. The replay is asked, at most every half hour, when a job is
submitted that has to wait, and knows only what had started and ended by then. Waits are compared after adding a minute to each.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from api.bench.duration_rules import Jobs
from api.bench.result import Row
from forecast.predict.ends import sample_remaining
from forecast.predict.ends_types import StartTime
from forecast.predict.queue_eta import start_times
from models.duration_mixture import DurationMixture
from models.metrics import bootstrap_interval
from telemetry.ids import JobId
from telemetry.roster import JobRecord, JobState, NodeGpus, Roster

Floats = NDArray[np.float64]
DRAWS = 20
SLACK_S = 60.0
USE_LEVEL = 0.97
"""Share of the time in which the pool would be large enough for all."""
APART_S = 1800.0
"""Between two moments of asking."""
MOST_QUEUED = 150
"""Where more jobs wait the replay is not asked: it would cost seconds."""


@dataclass(slots=True)
class _Cluster:
    """The simulated scheduler.

    Args:
        jobs: what is submitted.
        total: GPUs.
        free: of them now.
        queue: waiting jobs in order.
        running: job -> start.
        ends: heap of (end, job).
        started_s: (n,) when each job started; NaN before.
        last_wait_s: of the job that started last.
    """

    jobs: Jobs
    total: int
    free: int
    queue: list[int]
    running: dict[int, float]
    ends: list[tuple[float, int]]
    started_s: Floats
    last_wait_s: float = 0.0

    def start_what_fits(self, at_s: float, model: DurationMixture) -> None:
        """Walk the queue in order; each job that fits starts."""
        left = []
        for place, job in enumerate(self.queue):
            if self.free == 0:
                left += self.queue[place:]
                break
            count = int(self.jobs.gpu_count[job])
            if count > self.free:
                left.append(job)
                continue
            self.free -= count
            self.running[job] = self.started_s[job] = at_s
            self.last_wait_s = at_s - float(self.jobs.submit_s[job])
            heapq.heappush(self.ends, (at_s + float(self.jobs.duration_s[job]), job))
            model.learn_start(job, at_s, kind(self.jobs, job))
        self.queue = left

    def end_until(self, at_s: float, model: DurationMixture) -> None:
        """Let jobs end, and others start in their place."""
        while self.ends and self.ends[0][0] <= at_s:
            end_s, job = heapq.heappop(self.ends)
            self.free += int(self.jobs.gpu_count[job])
            del self.running[job]
            model.learn_end(job, end_s)
            self.start_what_fits(end_s, model)


def kind(jobs: Jobs, i: int) -> tuple[object, ...]:
    """Ways in which recorded jobs are alike: all, size, group, both."""
    size, group = int(jobs.gpu_count[i]), int(jobs.group[i])
    return ((), size, group, (group, size))


def queue_rows(name: str, jobs: Jobs, first: int, asks: int) -> list[Row]:
    """Rows of the task ``NAME-queue``.

    Args:
        name: of the job list.
        jobs: in the order of submission.
        first: from which job on the replay is asked.
        asks: how often, at most.
    """
    total = max(_pool_size(jobs), int(jobs.gpu_count.max()))
    model = DurationMixture(ways=4, sibling_ways=(2, 3), pool_way=2)
    cluster = _Cluster(jobs, total, total, [], {}, [], np.full(jobs.n, np.nan))
    asked_s = -np.inf
    said: list[tuple[int, StartTime, float]] = []
    for i in range(jobs.n):
        at_s = float(jobs.submit_s[i])
        cluster.end_until(at_s, model)
        cluster.queue.append(i)
        cluster.start_what_fits(at_s, model)
        waits = np.isnan(cluster.started_s[i]) and len(cluster.queue) <= MOST_QUEUED
        if i >= first and waits and at_s >= asked_s + APART_S and len(said) < asks:
            asked_s = at_s
            answer = _ask(cluster, model, at_s, i)
            if answer is not None:
                said.append((i, answer, cluster.last_wait_s))
    while cluster.ends:
        cluster.end_until(cluster.ends[0][0], model)
    return _rows(f"{name}-queue", jobs, cluster.started_s, said)


def _pool_size(jobs: Jobs) -> int:
    """GPUs in use at the ``USE_LEVEL`` quantile of time if nothing ever waited."""
    at_s = np.concatenate([jobs.submit_s, jobs.submit_s + jobs.duration_s])
    change = np.concatenate([jobs.gpu_count, -jobs.gpu_count])
    order = np.argsort(at_s, kind="stable")
    use, lasts = np.cumsum(change[order])[:-1], np.diff(at_s[order])
    ranked = np.argsort(use)
    at = np.searchsorted(np.cumsum(lasts[ranked]), USE_LEVEL * lasts.sum())
    return int(use[ranked][min(int(at), use.size - 1)])


def _ask(cluster: _Cluster, model: DurationMixture, at_s: float, job: int) -> StartTime | None:
    """The replay's answer for the job that was just submitted."""
    jobs = cluster.jobs

    def record(i: int, state: JobState, start_s: float | None) -> JobRecord:
        count = int(jobs.gpu_count[i])
        # Equal submission times keep the order of the list.
        submit_s = float(jobs.submit_s[i]) + 1e-6 * i
        return JobRecord(
            JobId("slurm", str(i)), state, gpu_count=count, asked_gpu_count=count, submit_s=submit_s, start_s=start_s
        )

    def draw(one: JobRecord, age_s: float) -> Floats:
        i = int(one.job.name)
        return sample_remaining(model.histogram(kind(jobs, i), at_s, i), age_s, DRAWS, i)

    listed = [record(i, JobState.RUNNING, start_s) for i, start_s in cluster.running.items()]
    listed += [record(i, JobState.WAITING, None) for i in cluster.queue]
    nodes = (NodeGpus("pool", cluster.total, cluster.total - cluster.free),)
    answer = start_times(Roster(at_s, "slurm", tuple(listed), nodes), at_s, draw, draws=DRAWS)[JobId("slurm", str(job))]
    return answer if isinstance(answer, StartTime) else None


def _rows(task: str, jobs: Jobs, started_s: Floats, said: list[tuple[int, StartTime, float]]) -> list[Row]:
    if not said:
        return []
    index = np.array([i for i, _, _ in said])
    wait_s = started_s[index] - jobs.submit_s[index]
    day = (jobs.submit_s[index] // 86400.0).astype(np.intp)
    answers = [answer for _, answer, _ in said]
    low, middle, high = (
        np.array([getattr(a, part) - a.made_at_s for a in answers]) for part in ("low_s", "start_s", "high_s")
    )
    guesses = {"persistence": np.array([last for _, _, last in said]), "served": middle}
    rows = []
    for rule, guess in guesses.items():
        off = np.abs(np.log2((guess + SLACK_S) / (wait_s + SLACK_S)))
        figures = {"within_2x": (off <= 1.0).astype(np.float64), "error_octaves": off}
        if rule == "served":
            figures["cov80"] = ((wait_s >= low - 1.0) & (wait_s <= high + 1.0)).astype(np.float64)
        for metric, values in figures.items():
            ends = bootstrap_interval(values, lambda v: float(v.mean()), blocks=day, draws=200)
            rows.append(Row(task, rule, metric, float(values.mean()), *ends, int(values.size)))
    return rows
