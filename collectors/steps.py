"""What a job says about its own progress: reports -> sample batches. No I/O.

The stamps of one rank tell a job's pace exactly, where sampled telemetry can only estimate it.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from collectors.rank_steps import RankSteps
from collectors.step_reports import StepReport
from telemetry.catalogue_steps import STEP_METRICS
from telemetry.ids import JobId, SeriesKey
from telemetry.samples import Reason, SampleBatch

MAX_JOBS = 10_000
MAX_STEPS_KEPT = 4096
"""Steps of a job that are remembered to recognise what is sent again."""
LEAD_FOR_S = 600.0
"""After so long without a word from the rank that speaks for its job another one does."""
_RESTART_AFTER_S = 60.0
_MOST_FAULTS_TOLD = 5
_SOURCE = "/v1/steps"


@dataclass(frozen=True, slots=True)
class StepsTaken:
    """What one request gave.

    Args:
        batches: to be stored.
        accepted: reports that were taken.
        duplicates: that were known already.
        other_ranks: of those taken, how many another rank speaks for: of them the time of a step is kept, nothing else.
        rejected: that cannot be used.
        faults: why, the first few.
        news: what is in ``batches``; for ``StepBook.forget`` where these could not be stored.
    """

    batches: tuple[SampleBatch, ...]
    accepted: int
    duplicates: int
    other_ranks: int
    rejected: int
    faults: tuple[str, ...] = ()
    news: tuple[StepReport, ...] = ()


@dataclass(slots=True)
class _Job:
    keys: tuple[SeriesKey, ...]
    lead: int
    lead_said_s: float
    newest_step: int = -1
    newest_at_s: float = -math.inf
    newest_rank: int = -1
    seen: OrderedDict[int, float] = field(default_factory=OrderedDict)
    checkpoints: OrderedDict[tuple[float, float | None], None] = field(default_factory=OrderedDict)


class StepBook:
    """Turns reports into batches; what is sent again is recognised, and one rank speaks for each job.

    A job whose step number falls after its newest report has started again from a checkpoint: its steps count anew.
    """

    def __init__(self) -> None:
        self._jobs: OrderedDict[JobId, _Job] = OrderedDict()
        self._ranks = RankSteps()

    def take(self, reports: Sequence[StepReport], faults: Sequence[str], received_s: float) -> StepsTaken:
        """Batches of the reports, one per job, and one per job with the times of each rank's steps.

        Args:
            reports: from ``read_reports``; order does not matter.
            faults: likewise.
            received_s: when they arrived.
        """
        kept: dict[JobId, list[StepReport]] = {}
        timed: dict[JobId, list[StepReport]] = {}
        duplicates = other_ranks = 0
        self._ranks.make_room()
        for report in sorted(reports, key=_in_time):
            job = self._job(report, received_s)
            if self._ranks.is_news(report):
                timed.setdefault(report.job, []).append(report)
            if report.rank != job.lead:
                other_ranks += 1
                continue
            news = _news(job, report)
            if news is None:
                duplicates += 1
            else:
                kept.setdefault(report.job, []).append(news)
        return StepsTaken(
            batches=(
                *(self._batch(self._jobs[job].keys, group, received_s) for job, group in kept.items()),
                *(self._ranks.batch(group, _SOURCE, received_s) for group in timed.values()),
            ),
            accepted=len(reports) - duplicates,
            duplicates=duplicates,
            other_ranks=other_ranks,
            rejected=len(faults),
            faults=tuple(faults[:_MOST_FAULTS_TOLD]),
            news=tuple(report for group in (*kept.values(), *timed.values()) for report in group),
        )

    def forget(self, news: Iterable[StepReport]) -> None:
        """These could not be stored: sent again, they are no duplicates."""
        news = tuple(news)
        self._ranks.forget(news)
        for report in news:
            job = self._jobs.get(report.job)
            if job is not None and report.rank == job.lead:
                job.checkpoints.pop((report.at_s, report.checkpoint), None)
                if report.step is not None:
                    job.seen.pop(report.step, None)

    def _job(self, report: StepReport, received_s: float) -> _Job:
        job = self._jobs.get(report.job)
        if job is None:
            keys = tuple(SeriesKey(metric.name, str(report.job)) for metric in STEP_METRICS)
            job = self._jobs[report.job] = _Job(keys, report.rank, received_s)
        self._jobs.move_to_end(report.job)
        while len(self._jobs) > MAX_JOBS:
            self._jobs.popitem(last=False)
        if report.rank <= job.lead or received_s - job.lead_said_s > LEAD_FOR_S:
            job.lead, job.lead_said_s = report.rank, received_s
        return job

    def _batch(self, keys: tuple[SeriesKey, ...], reports: Sequence[StepReport], received_s: float) -> SampleBatch:
        rows: dict[tuple[int, float], float] = {}
        for report in reports:
            for column, number in enumerate(report.values()):
                if number is not None:
                    rows.setdefault((column, report.at_s), number)
        value = np.array(list(rows.values()), np.float64)
        bad = ~np.isfinite(value)
        value[bad] = np.nan
        return SampleBatch(
            keys=keys,
            series=np.array([column for column, _ in rows], np.int32),
            at_s=np.array([at_s for _, at_s in rows], np.float64),
            value=value,
            reason=np.where(bad, np.uint8(Reason.NOT_FINITE), np.uint8(Reason.OK)).astype(np.uint8),
            source=_SOURCE,
            received_s=received_s,
        )


def _news(job: _Job, report: StepReport) -> StepReport | None:
    """What a report tells that is not known yet, None when nothing; takes note of it.

    A checkpoint is told once more with a step that is known already: then only the checkpoint is news.
    """
    fresh_step = report.step is not None and _is_fresh_step(job, report)
    moment = (report.at_s, report.checkpoint)
    fresh_checkpoint = report.checkpoint is not None and moment not in job.checkpoints
    if fresh_checkpoint:
        job.checkpoints[moment] = None
        _forget_oldest(job.checkpoints)
    if fresh_step:
        return report
    alone = StepReport(report.job, report.rank, report.at_s, checkpoint=report.checkpoint)
    return alone if fresh_checkpoint else None


def _is_fresh_step(job: _Job, report: StepReport) -> bool:
    assert report.step is not None
    if report.step in job.seen and not _starts_again(job, report):
        return False
    if report.at_s >= job.newest_at_s:
        if report.step < job.newest_step:
            job.seen.clear()
        job.newest_step, job.newest_at_s, job.newest_rank = report.step, report.at_s, report.rank
    job.seen[report.step] = report.at_s
    _forget_oldest(job.seen)
    return True


def _starts_again(job: _Job, report: StepReport) -> bool:
    """Whether a step known already is done once more, rather than told once more."""
    if report.step is None or report.step >= job.newest_step:
        return False
    after_s = report.at_s - job.newest_at_s
    return after_s > (0.0 if report.rank == job.newest_rank else _RESTART_AFTER_S)


def _in_time(report: StepReport) -> tuple[float, int]:
    return report.at_s, report.rank


def _forget_oldest(kept: OrderedDict[Any, Any]) -> None:
    while len(kept) > MAX_STEPS_KEPT:
        kept.popitem(last=False)
