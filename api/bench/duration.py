"""How long jobs last: forecasts at the start and while they run, against every plainer rule. Nothing is leaked.

Jobs are replayed in the order of time: a rule learns a duration when the job has ended and never before. ``philly-jobs``
scores all of them but the first twentieth. The first three fifths were used to choose the served model's settings, so
``philly-jobs-unseen`` scores the last two fifths alone; the jobs there are also far more varied. ``within_2x``
is the share of forecasts within a factor of two of the truth, ``cov80`` the share of truths inside the 80 % interval,
``width80_octaves`` its median width as a factor (3 is eightfold). The 95 % intervals draw whole days.

The public job lists name no users, so ``persistence`` is the job of the same group and size that ended last.
"""

from __future__ import annotations

import hashlib
import heapq
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from api.bench.datasets import digest_of
from api.bench.duration_queue import kind, queue_rows
from api.bench.duration_rules import AGE_TASKS, INTERVAL, PLAIN_RULES, Answers, Jobs, lightgbm_rule
from api.bench.result import BenchResult, Row
from models.duration_bins import cumulated, likeliest_remaining, remaining_at
from models.duration_mixture import DurationMixture
from models.metrics import bootstrap_interval
from telemetry.errors import SchemaError

Floats = NDArray[np.float64]
Progress = Callable[[str], None]
FILE = "philly_jobs_2017/jobs.parquet"
SCORED_FROM = 0.05
"""Share of the jobs, by submit time, that is replayed before scoring begins."""
UNSEEN_FROM = 0.6
"""Share of the jobs that settings were chosen on."""
QUICK_JOBS = 8000
DAY_S = 86400.0


def run(data: Path | None, progress: Progress | None = None, *, quick: bool = False, seed: int = 0) -> BenchResult:
    """Score every rule.

    Args:
        data: folder laid out as the recorded data; None for seeded simulated jobs.
        progress: told what is being done and what is left out.
        quick: the first jobs only.
        seed: of the simulated jobs and of training.
    """
    say = progress or (lambda _: None)
    notes: list[str] = []
    if data is None:
        jobs, name, digest = simulated_jobs(seed), "simulated-jobs", hashlib.sha256(f"jobs {seed}".encode()).hexdigest()
    elif (data / FILE).is_file():
        jobs, name, digest = read_jobs(data / FILE), "philly-jobs", digest_of([data / FILE])
    else:
        notes.append(f"philly-jobs left out: no {FILE} in {data}")
        say(notes[-1])
        return BenchResult("duration", digest_of([]), (), tuple(notes))
    jobs = jobs.first(QUICK_JOBS) if quick else jobs
    first, unseen = int(SCORED_FROM * jobs.n), int(UNSEEN_FROM * jobs.n)
    rows: list[Row] = []
    rules: dict[str, Callable[[], Answers]] = {
        **{rule: (lambda rule=rule: PLAIN_RULES[rule](jobs)) for rule in PLAIN_RULES},  # type: ignore[misc]
        "lightgbm": lambda: lightgbm_rule(jobs, unseen, seed),
        "served": lambda: served(jobs, first),
    }
    for rule, answer in rules.items():
        say(f"{name}: {rule}")
        began = time.process_time()
        answers = answer()
        cpu_ms = 1000.0 * (time.process_time() - began) / max(jobs.n, 1)
        if rule != "lightgbm":
            rows += _score(name, rule, jobs, answers, first, cpu_ms)
        rows += _score(f"{name}-unseen", rule, jobs, answers, unseen, cpu_ms)
    say(f"{name}-queue: replays of a simulated queue of these jobs")
    rows += queue_rows(name, jobs, unseen, 15 if quick else 60)
    notes.append(f"{name}: {jobs.n} jobs replayed, the last {jobs.n - first} scored, {jobs.n - unseen} of them unseen")
    return BenchResult("duration", digest, tuple(rows), tuple(notes))


def read_jobs(path: Path) -> Jobs:
    """Jobs of a Parquet file with columns timestamp, duration, num_gpus and cluster, in the order of submission."""
    import duckdb

    query = "select epoch(timestamp) as s, duration, num_gpus, cluster from read_parquet(?) order by 1, 2, 3, 4"
    try:
        table = duckdb.execute(query, [str(path)]).fetchnumpy()
    except duckdb.Error as error:
        raise SchemaError(f"{path} is no list of jobs: {error}") from error
    group = np.unique(np.asarray(table["cluster"]).astype(str), return_inverse=True)[1].astype(np.int64)
    duration_s = np.maximum(np.asarray(table["duration"], np.float64), 1.0)
    return Jobs(np.asarray(table["s"], np.float64), duration_s, np.asarray(table["num_gpus"], np.int64), group)


def simulated_jobs(seed: int, n: int = 6000) -> Jobs:
    """Seeded jobs of six groups: sweeps of equal jobs submitted together, tastes that drift, sizes 1 to 16."""
    random = np.random.default_rng(seed)
    start: list[float] = []
    duration: list[float] = []
    size: list[int] = []
    group: list[int] = []
    at_s = 0.0
    taste = random.uniform(8, 16, 6)
    while len(start) < n:
        at_s += random.exponential(3600.0)
        g = int(random.integers(6))
        taste[g] = np.clip(taste[g] + random.normal(0, 0.3), 7, 18)
        middle = taste[g] + random.normal(0, 1.0)
        count = 1 + int(random.geometric(0.15))
        gpus = int(2 ** random.integers(0, 5))
        for _ in range(count):
            at_s += random.exponential(20.0)
            log2 = middle + random.normal(0, 0.3) if random.random() > 0.2 else random.uniform(5, 9)
            start.append(at_s)
            duration.append(2.0**log2)
            size.append(gpus)
            group.append(g)
    return Jobs(
        np.asarray(start[:n]), np.asarray(duration[:n]), np.asarray(size[:n], np.int64), np.asarray(group[:n], np.int64)
    )


def served(jobs: Jobs, first: int) -> Answers:
    """What the service's model says at each job's start, and while it runs."""
    model = DurationMixture(ways=4, sibling_ways=(2, 3), pool_way=2)
    answers = Answers.empty(jobs.n)
    due: list[tuple[float, int, int]] = []
    for i in range(jobs.n):
        at_s = float(jobs.submit_s[i])
        while due and due[0][0] <= at_s:
            _happen(model, jobs, answers, heapq.heappop(due))
        histogram = model.learn_start(i, at_s, kind(jobs, i))
        if i >= first:
            _answer(answers, 0, i, model, cumulated(histogram))
            for task, age_s in enumerate(AGE_TASKS):
                if 0 < age_s < jobs.duration_s[i]:
                    heapq.heappush(due, (at_s + age_s, task, i))
        heapq.heappush(due, (at_s + float(jobs.duration_s[i]), 0, i))
    while due:
        _happen(model, jobs, answers, heapq.heappop(due))
    return answers


def _happen(model: DurationMixture, jobs: Jobs, answers: Answers, what: tuple[float, int, int]) -> None:
    """A job ends (task 0), or is asked about while it runs."""
    at_s, task, job = what
    if task == 0:
        model.learn_end(job, at_s)
    else:
        _answer(answers, task, job, model, cumulated(model.histogram(kind(jobs, job), at_s, job)))


def _answer(answers: Answers, task: int, job: int, model: DurationMixture, cdf: Floats) -> None:
    age_s = AGE_TASKS[task]
    answers.point_s[task, job] = likeliest_remaining(cdf, age_s)
    low, high = remaining_at(cdf, age_s, model.levels.served(INTERVAL, age_s))
    answers.low_s[task, job], answers.high_s[task, job] = low, high


def _score(name: str, rule: str, jobs: Jobs, answers: Answers, first: int, cpu_ms: float) -> list[Row]:
    rows: list[Row] = []
    day = (jobs.submit_s // DAY_S).astype(np.intp)
    for task, age_s in enumerate(AGE_TASKS):
        scored = (np.arange(jobs.n) >= first) & (jobs.duration_s > age_s) & np.isfinite(answers.point_s[task])
        if not scored.any():
            continue
        truth_s = np.maximum(jobs.duration_s[scored] - age_s, 1.0)
        point, low, high = (side[task][scored] for side in (answers.point_s, answers.low_s, answers.high_s))
        off = np.abs(np.log2(np.maximum(point, 1.0) / truth_s))
        inside = (truth_s >= low) & (truth_s <= high)
        width = np.log2(np.maximum(high, 1.0) / np.maximum(low, 1.0))
        figures: dict[str, tuple[NDArray[Any], Callable[..., Any]]] = {
            "within_2x": (off <= 1.0, np.mean),
            "error_octaves": (off, np.mean),
        }
        if np.isfinite(low).any():
            figures |= {"cov80": (inside, np.mean), "width80_octaves": (width, np.median)}
        label = name if age_s == 0 else f"{name}-after-{age_s / 60:.0f}min"
        for metric, (values, statistic) in figures.items():
            numbers = values.astype(np.float64)
            ends = bootstrap_interval(numbers, lambda v, s=statistic: float(s(v)), blocks=day[scored], draws=200)  # type: ignore[misc]
            rows.append(Row(label, rule, metric, float(statistic(numbers)), *ends, int(scored.sum())))
        if age_s == 0:
            rows.append(Row(label, rule, "cpu_ms", cpu_ms, float("nan"), float("nan"), jobs.n))
    return rows
