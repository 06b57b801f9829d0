"""Plain rules for the duration of jobs, beside which the served model is shown."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
AGE_TASKS: tuple[float, ...] = (0.0, 600.0, 3600.0, 6 * 3600.0)
"""Ages, seconds, at which the remaining time is asked for; 0 is the start."""
INTERVAL = (0.1, 0.9)


@dataclass(frozen=True, slots=True, eq=False)
class Jobs:
    """Jobs in the order of submission: (n,) each.

    Args:
        submit_s: Unix seconds; the lists know no waiting, so that this is the start too.
        duration_s: seconds, at least 1.
        gpu_count: GPUs.
        group: number of the group or virtual cluster.
    """

    submit_s: Floats
    duration_s: Floats
    gpu_count: NDArray[np.int64]
    group: NDArray[np.int64]

    @property
    def n(self) -> int:
        """How many."""
        return int(self.submit_s.size)

    def first(self, n: int) -> Jobs:
        """The first of them."""
        return Jobs(self.submit_s[:n], self.duration_s[:n], self.gpu_count[:n], self.group[:n])


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """What a rule said: (n_tasks, n_jobs) seconds still to go, NaN where it was not asked or had nothing to say."""

    point_s: Floats
    low_s: Floats
    high_s: Floats

    @classmethod
    def empty(cls, n: int) -> Answers:
        """No answers yet."""
        shape = (len(AGE_TASKS), n)
        return cls(np.full(shape, np.nan), np.full(shape, np.nan), np.full(shape, np.nan))


class _Window:
    """The durations that ended last, in order of size."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: deque[float] = deque()
        self._sorted: list[float] = []

    def add(self, value: float) -> None:
        self._kept.append(value)
        insort(self._sorted, value)
        if len(self._kept) > self._most:
            del self._sorted[bisect_left(self._sorted, self._kept.popleft())]

    def at(self, level: float, above: float = 0.0) -> float:
        """Quantile of those above a value; NaN when there are none."""
        first = bisect_left(self._sorted, above)
        n = len(self._sorted) - first
        return self._sorted[first + min(int(level * n), n - 1)] if n > 0 else float("nan")


def _by_time(jobs: Jobs) -> Iterator[tuple[int, bool]]:
    """Starts and ends in the order of time as (job, ended); an end at the moment of a start comes first."""
    end_s = jobs.submit_s + jobs.duration_s
    ended = np.argsort(end_s, kind="stable")
    k = 0
    for i in range(jobs.n):
        while k < jobs.n and end_s[ended[k]] <= jobs.submit_s[i]:
            yield int(ended[k]), True
            k += 1
        yield i, False


def _windows(jobs: Jobs, key: Callable[[int], Hashable], most: int, running: bool) -> Answers:
    """Quantiles of the last ``most`` ended jobs of a kind; while a job runs, of those longer than its age.

    What is said while a job runs is looked up at its start, which costs the rule little: its window is a long one.
    """
    answers = Answers.empty(jobs.n)
    windows: defaultdict[Hashable, _Window] = defaultdict(lambda: _Window(most))
    for i, ended in _by_time(jobs):
        window = windows[key(i)]
        if ended:
            window.add(float(jobs.duration_s[i]))
            continue
        for task, age_s in enumerate(AGE_TASKS if running else AGE_TASKS[:1]):
            low, middle, high = (window.at(level, age_s) - age_s for level in (INTERVAL[0], 0.5, INTERVAL[1]))
            answers.low_s[task, i], answers.point_s[task, i], answers.high_s[task, i] = low, middle, high
    return answers


def rolling_median(jobs: Jobs) -> Answers:
    """Of the last 1,000 ended jobs, whatever kind; while it runs, of those that lasted longer."""
    return _windows(jobs, lambda _: 0, 1000, True)


def last_10_equal_size(jobs: Jobs) -> Answers:
    """Median of the last 10 ended jobs of the same size."""
    return _windows(jobs, lambda i: int(jobs.gpu_count[i]), 10, False)


def last_100_of_group(jobs: Jobs) -> Answers:
    """Of the last 100 ended jobs of the same group and size; while it runs, of those that lasted longer."""
    return _windows(jobs, lambda i: (int(jobs.group[i]), int(jobs.gpu_count[i])), 100, True)


def persistence(jobs: Jobs) -> Answers:
    """As the job of the same group and size that ended last, with the spread of that rule's past errors."""
    answers = Answers.empty(jobs.n)
    last: dict[tuple[int, int], float] = {}
    errors = _Window(1000)
    for i, ended in _by_time(jobs):
        key = int(jobs.group[i]), int(jobs.gpu_count[i])
        duration_s = float(jobs.duration_s[i])
        if ended:
            if np.isfinite(answers.point_s[0, i]):
                errors.add(float(np.log2(duration_s / answers.point_s[0, i])) + 64.0)
            last[key] = duration_s
        elif key in last:
            answers.point_s[0, i] = last[key]
            answers.low_s[0, i], answers.high_s[0, i] = (
                last[key] * 2.0 ** (errors.at(level) - 64.0) for level in INTERVAL
            )
    return answers


def as_long_again(jobs: Jobs) -> Answers:
    """While it runs: it will run for as long as it has."""
    answers = Answers.empty(jobs.n)
    for task, age_s in enumerate(AGE_TASKS):
        if age_s > 0:
            answers.point_s[task] = age_s
    return answers


def lightgbm_rule(jobs: Jobs, first: int, seed: int) -> Answers:
    """Boosted trees on size, group, hour and recent durations, trained once on jobs that ended before scoring."""
    import lightgbm

    answers = Answers.empty(jobs.n)
    recent = [persistence(jobs), last_10_equal_size(jobs), last_100_of_group(jobs), rolling_median(jobs)]
    hour = (jobs.submit_s // 3600.0) % 24
    day = (jobs.submit_s // 86400.0) % 7
    columns = [np.log2(jobs.gpu_count), jobs.group.astype(np.float64), hour, day]
    with np.errstate(invalid="ignore"):
        columns += [np.log2(said.point_s[0]) for said in recent]
    features = np.stack(columns, axis=1)
    target = np.log2(jobs.duration_s)
    known = np.arange(jobs.n) < first
    known &= jobs.submit_s + jobs.duration_s <= jobs.submit_s[min(first, jobs.n - 1)]
    for level, side in ((INTERVAL[0], answers.low_s), (0.5, answers.point_s), (INTERVAL[1], answers.high_s)):
        settings = {"objective": "quantile", "alpha": level, "num_leaves": 31, "learning_rate": 0.05, "verbose": -1}
        settings |= {"num_threads": 1, "seed": seed, "deterministic": True, "min_data_in_leaf": 50}
        model = lightgbm.train(settings, lightgbm.Dataset(features[known], target[known]), num_boost_round=150)
        side[0, first:] = 2.0 ** np.asarray(model.predict(features[first:], num_threads=1))
    return answers


PLAIN_RULES: dict[str, Callable[[Jobs], Answers]] = {
    "persistence": persistence,
    "rolling_median": rolling_median,
    "last_10_equal_size": last_10_equal_size,
    "last_100_of_group": last_100_of_group,
    "as_long_again": as_long_again,
}
"""Name -> rule."""
