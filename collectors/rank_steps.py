"""How long each process of a job took for its steps: reports -> sample batches, so that one that lags can be found. No I/O."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from collectors.step_reports import StepReport
from telemetry.catalogue_steps import RANK_STEP_METRIC
from telemetry.ids import JobId, SeriesKey
from telemetry.samples import SampleBatch

MAX_RANKS = 1024
"""Of one job; further ones are left out."""
MAX_RANKS_IN_ALL = 100_000
"""Over all jobs; beyond it the job that was silent longest is forgotten before the next request."""
MAX_STEPS_KEPT = 32
"""Of one rank, to recognise what is sent again."""


@dataclass(slots=True)
class _Rank:
    column: int
    newest_step: int = -1
    newest_at_s: float = -math.inf
    seen: OrderedDict[int, None] = field(default_factory=OrderedDict)


@dataclass(slots=True)
class _Job:
    ranks: dict[int, _Rank] = field(default_factory=dict)
    keys: tuple[SeriesKey, ...] = ()


class RankSteps:
    """Remembers the newest steps of every rank."""

    def __init__(self) -> None:
        self._jobs: OrderedDict[JobId, _Job] = OrderedDict()
        self._total = 0

    def make_room(self) -> None:
        """Forget jobs beyond the limit; between requests, for ``batch`` counts on the jobs of its request."""
        while self._total > MAX_RANKS_IN_ALL and len(self._jobs) > 1:
            _, old = self._jobs.popitem(last=False)
            self._total -= len(old.ranks)

    def is_news(self, report: StepReport) -> bool:
        """Whether a report tells a step's time that is not known yet; takes note of it."""
        if report.step is None or report.step_s is None:
            return False
        rank = self._rank(report)
        if rank is None:
            return False
        # The same step after a later one is done once more, rather than told once more.
        again = report.step < rank.newest_step and report.at_s > rank.newest_at_s
        if report.step in rank.seen and not again:
            return False
        if report.at_s >= rank.newest_at_s:
            if report.step < rank.newest_step:
                rank.seen.clear()
            rank.newest_step, rank.newest_at_s = report.step, report.at_s
        rank.seen[report.step] = None
        while len(rank.seen) > MAX_STEPS_KEPT:
            rank.seen.popitem(last=False)
        return True

    def forget(self, reports: Iterable[StepReport]) -> None:
        """These could not be stored: sent again, they are news."""
        for report in reports:
            job = self._jobs.get(report.job)
            rank = job.ranks.get(report.rank) if job else None
            if rank is not None and report.step is not None:
                rank.seen.pop(report.step, None)

    def batch(self, reports: Sequence[StepReport], source: str, received_s: float) -> SampleBatch:
        """The times of steps that are news, of one job."""
        job = self._jobs[reports[0].job]
        if len(job.keys) != len(job.ranks):
            job.keys = tuple(SeriesKey(RANK_STEP_METRIC.name, f"{reports[0].job}@{rank}") for rank in job.ranks)
        rows = {(job.ranks[report.rank].column, report.at_s): report.step_s for report in reversed(reports)}
        return SampleBatch(
            keys=job.keys,
            series=np.array([column for column, _ in rows], np.int32),
            at_s=np.array([at_s for _, at_s in rows], np.float64),
            value=np.array(list(rows.values()), np.float64),
            reason=np.zeros(len(rows), np.uint8),
            source=source,
            received_s=received_s,
        )

    def _rank(self, report: StepReport) -> _Rank | None:
        job = self._jobs.setdefault(report.job, _Job())
        self._jobs.move_to_end(report.job)
        rank = job.ranks.get(report.rank)
        if rank is None and len(job.ranks) < MAX_RANKS:
            rank = job.ranks[report.rank] = _Rank(len(job.ranks))
            self._total += 1
        return rank
