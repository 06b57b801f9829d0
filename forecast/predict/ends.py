"""How long each running job will still run: from the jobs that ended, its age, its limit and its own steps."""

from __future__ import annotations

from collections.abc import Hashable
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from forecast.predict.ends_types import RemainingTime, StepProgress
from forecast.predict.types import Absence, Why
from models.duration_bins import (
    bell_at,
    chance_below,
    cumulated,
    cut_at,
    durations_at,
    likeliest_remaining,
    remaining_at,
)
from models.duration_mixture import DurationMixture
from telemetry.ids import JobId
from telemetry.roster import JobRecord, JobState, Roster

Floats = NDArray[np.float64]
LEAST_ENDED = 20
"""Ended jobs before history says anything."""
STEPS_TRUST = 0.85
"""Weight of the steps against history: jobs with a plan are still cancelled or fail before its end."""
LONGEST_GAP_S = 900.0
"""Between two lists; an end in a longer gap is not known well enough to learn from."""
MASS_END = 5
"""Jobs that vanish at once, with none left, from which on the list is doubted instead of the jobs."""
INTERVAL = (0.1, 0.9)
TOGETHER = 0.4
"""Correlation of the drawn ends of two jobs."""
_NORMAL = NormalDist()
_USER_WAY, _SIBLING_WAYS, _WAYS = 4, (3, 5, 6), 7


def kind_of(record: JobRecord) -> tuple[Hashable, ...]:
    """The ways in which jobs are alike, from wide to narrow.

    All; size; group; group and size; user; user, size and limit; user and name without its digits (a sweep's runs).
    """
    asked = record.asked_gpu_count if record.asked_gpu_count is not None else record.gpu_count
    size = -1 if asked is None else asked
    group = (record.account, record.partition)
    limit = record.time_limit_s
    limit_class = round(np.log2(limit)) if limit is not None and 0 < limit < float("inf") else -1
    stem = "".join(c for c in record.name if not c.isdigit())
    user = record.user
    return ((), size, group, (group, size), user, (user, size, limit_class), (user, stem))


class EndsBook:
    """Learns how long jobs last from one scheduler's lists, and says how long the running ones will still run."""

    def __init__(self) -> None:
        self._model = DurationMixture(_WAYS, _SIBLING_WAYS, _USER_WAY)
        self._running: dict[JobId, JobRecord] = {}
        self._listed_s = 0.0

    @property
    def ended_count(self) -> int:
        """Ended jobs learnt from."""
        return self._model.ended_count

    def observe(self, roster: Roster) -> None:
        """Learn from a list; one that is not newer than the last is passed over.

        A job that is gone, or listed as over, has ended between the last list and this one. Nothing is learnt from
        ends in a long gap, from a job that was started again, nor when every job vanishes at once.
        """
        if roster.at_s <= self._listed_s:
            return
        now = {job.job: job for job in roster.jobs if job.state in (JobState.RUNNING, JobState.SUSPENDED)}
        before, self._running = self._running, now
        gap_s = roster.at_s - self._listed_s
        gone = [record for job, record in before.items() if job not in now or _restarted(record, now[job])]
        doubtful = gap_s > LONGEST_GAP_S or (len(gone) >= MASS_END and not now)
        for record in gone:
            if doubtful or record.job in now:
                self._model.forget(record.job)
            else:
                self._model.learn_end(record.job, max(roster.at_s - 0.5 * gap_s, record.start_s or 0.0))
        begun = [job for job in now.values() if job.job not in before or _restarted(before[job.job], job)]
        for record in sorted(begun, key=lambda job: job.start_s or roster.at_s):
            start_s = record.start_s if record.start_s is not None else roster.at_s
            fresh = start_s >= self._listed_s and self._listed_s > 0 and record.restarts == 0
            self._model.learn_start(record.job, min(start_s, roster.at_s), kind_of(record), judged=fresh)
        self._listed_s = roster.at_s

    def histogram(self, record: JobRecord, at_s: float) -> Floats | None:
        """(n_bins,) how long such a job lasts in all, cut at its limit; None while history is too small."""
        if self._model.ended_count < LEAST_ENDED:
            return None
        return cut_at(self._model.histogram(kind_of(record), at_s, record.job), record.time_limit_s)

    def remaining(
        self, record: JobRecord, at_s: float, progress: StepProgress | None = None
    ) -> RemainingTime | Absence:
        """Time still to go of a running job, with an 80 % interval, or why none is said."""
        if record.state not in (JobState.RUNNING, JobState.SUSPENDED) or record.start_s is None:
            return Absence(Why.MISSING_FIELD, f"job {record.job} is {record.state.value} or has no start time.")
        age_s = max(at_s - record.start_s, 0.0)
        history = self.histogram(record, at_s)
        steps = _steps_histogram(progress, age_s)
        if history is None and steps is None:
            ended = self._model.ended_count
            return Absence(
                Why.INSUFFICIENT_HISTORY,
                f"{ended} jobs have ended since watching began; {LEAST_ENDED} are needed.",
                ended,
                LEAST_ENDED,
            )
        levels = self._model.levels.served(INTERVAL, age_s)
        model, histogram = "history", history
        if steps is not None:
            levels = np.asarray(INTERVAL)
            model, histogram = "steps", cut_at(steps, record.time_limit_s)
            if history is not None:
                model, histogram = "history+steps", _blend(histogram, history, age_s)
        assert histogram is not None
        return self._answer(record, at_s, age_s, cumulated(histogram), levels, model)

    def _answer(
        self, record: JobRecord, at_s: float, age_s: float, cdf: Floats, levels: Floats, model: str
    ) -> RemainingTime:
        low_s, high_s = (float(v) for v in remaining_at(cdf, age_s, levels))
        # A plan is met or missed: its end is the median, while among durations of history the likeliest factor counts.
        point_s = likeliest_remaining(cdf, age_s) if model == "history" else float(remaining_at(cdf, age_s, 0.5))
        limit_s = None if record.end_limit_s is None else max(record.end_limit_s - at_s, 0.0)
        if limit_s is not None:
            low_s, point_s, high_s = (min(value, limit_s) for value in (low_s, point_s, high_s))
        ended = self._model.ended_count
        reason = f"It has run {_words(age_s)}; "
        reason += f"{ended} jobs ended since watching began, the most alike counting most" if "history" in model else ""
        reason += "; " if model == "history+steps" else ""
        reason += "its own steps say when its plan ends" if "steps" in model else ""
        reason += f"; its limit leaves {_words(limit_s)}." if limit_s is not None else "."
        coverage = self._model.levels.coverage80()
        return RemainingTime(record.job, at_s, age_s, point_s, low_s, high_s, limit_s, ended, coverage, model, reason)


def sample_remaining(histogram: Floats, age_s: float, draws: int, seed: int) -> Floats:
    """(draws,) remaining times of a job of that age, seconds.

    Draw ``k`` of every job leans the same way (a Gaussian copula with correlation ``TOGETHER``): jobs that run at one
    time are often alike, and their errors do not average out.
    """
    own = np.random.default_rng(seed).standard_normal(draws)
    shared = np.random.default_rng(draws).permutation([_NORMAL.inv_cdf((k + 0.5) / draws) for k in range(draws)])
    mixed = np.sqrt(TOGETHER) * shared + np.sqrt(1.0 - TOGETHER) * own
    place = np.array([_NORMAL.cdf(value) for value in mixed])
    cdf = cumulated(histogram)
    before = float(chance_below(cdf, age_s)) if age_s > 0 else 0.0
    result: Floats = np.maximum(durations_at(cdf, before + place * (1.0 - before)) - age_s, 1.0)
    return result


def _steps_histogram(progress: StepProgress | None, age_s: float) -> Floats | None:
    """Total duration from the steps still to make; None when they say nothing."""
    if progress is None or progress.steps_planned <= progress.steps_done or progress.step_s <= 0:
        return None
    left_s = (progress.steps_planned - progress.steps_done) * progress.step_s
    total_s = age_s + left_s
    # The error of the remaining time spreads over the whole duration, so it is small in the logarithm near the end.
    octaves = max(progress.spread_ratio, 0.02) * left_s / total_s / np.log(2.0)
    return bell_at(total_s, octaves)


def _blend(steps: Floats, history: Floats, age_s: float) -> Floats:
    """Both given that the job has lasted so long, the steps counting ``STEPS_TRUST``."""
    parts = []
    for histogram in (steps, history):
        cdf = cumulated(histogram)
        parts.append(histogram / histogram.sum() / max(1.0 - float(chance_below(cdf, age_s)), 1e-6))
    result: Floats = STEPS_TRUST * parts[0] + (1.0 - STEPS_TRUST) * parts[1]
    return result


def _restarted(before: JobRecord, now: JobRecord) -> bool:
    return now.restarts != before.restarts or (
        before.start_s is not None and now.start_s is not None and abs(now.start_s - before.start_s) > 1.0
    )


def _words(duration_s: float) -> str:
    """A duration in the unit that fits it."""
    for unit, size_s in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if duration_s >= size_s:
            return f"{duration_s / size_s:.1f} {unit}"
    return f"{duration_s:.0f} s"
