"""What a job says about its own progress: JSON reports -> sample batches. No I/O.

The stamps of one rank tell a job's pace exactly, where sampled telemetry can only estimate it.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import orjson

from collectors.attribution import OwnerRules, group_of
from telemetry.catalogue_steps import STEP_METRICS
from telemetry.errors import SchemaError
from telemetry.ids import JobId, SeriesKey
from telemetry.samples import Reason, SampleBatch

MAX_REPORTS = 10_000
"""Of one request; the example hook sends a few dozen."""
MAX_JOBS = 10_000
MAX_STEPS_KEPT = 4096
"""Steps of a job that are remembered to recognise what is sent again."""
MOST_AHEAD_S = 60.0
LEAD_FOR_S = 600.0
"""After so long without a word from the rank that speaks for its job another one does."""
_RESTART_AFTER_S = 60.0
_MOST_FAULTS_TOLD = 5
_MOST_TEXT = 256
_SOURCE = "/v1/steps"


@dataclass(frozen=True, slots=True)
class StepReport:
    """One step, or the begin or end of a checkpoint, of one rank.

    Args:
        job: whose.
        rank: which of its processes says so.
        at_s: when the step ended, Unix seconds of the job's host.
        step: its number; None for a checkpoint alone.
        step_s: how long it took.
        loss: of the step; may be infinite or NaN, which is worth knowing.
        tokens: in the step, over the whole job.
        checkpoint: 1 begins, 0 ended; None when it is not about one.
        data_wait_s: waited for data in the step.
    """

    job: JobId
    rank: int
    at_s: float
    step: int | None = None
    step_s: float | None = None
    loss: float | None = None
    tokens: float | None = None
    checkpoint: float | None = None
    data_wait_s: float | None = None

    def values(self) -> tuple[float | None, ...]:
        """In the order of the catalogue's rows."""
        rate = self.tokens / self.step_s if self.tokens is not None and self.step_s else None
        step = None if self.step is None else float(self.step)
        return step, self.step_s, self.loss, rate, self.checkpoint, self.data_wait_s


@dataclass(frozen=True, slots=True)
class StepsTaken:
    """What one request gave.

    Args:
        batches: to be stored.
        accepted: reports that were taken.
        duplicates: that were known already.
        other_ranks: of those taken, how many were not kept, since another rank speaks for the job.
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


def read_reports(body: bytes, received_s: float, rules: OwnerRules | None = None) -> tuple[list[StepReport], list[str]]:
    """Reports, and a sentence for each that cannot be used.

    Args:
        body: a JSON object, a list of them, or one on each line.
        received_s: when it arrived; the time of reports that carry none.
        rules: the site's naming of jobs, for reports that name a pod.

    Raises:
        SchemaError: no JSON at all, or too many reports.
    """
    rules = rules or OwnerRules()
    found: list[StepReport] = []
    faults: list[str] = []
    items = _items(body)
    for place, item in enumerate(items, 1):
        try:
            found.append(_report(item, received_s, rules, alone=len(items) == 1))
        except SchemaError as fault:
            faults.append(f"report {place}: {fault.message}")
    return found, faults


def _items(body: bytes) -> Sequence[object]:
    try:
        whole = orjson.loads(body)
    except orjson.JSONDecodeError as broken:
        lines = [line for line in body.splitlines() if line.strip()]
        items = [_line(line) for line in lines[: MAX_REPORTS + 1]]
        if not any(isinstance(item, dict) for item in items):
            raise SchemaError(
                f"the body is not JSON ({broken})", mend="Send an object, a list of them, or one on each line"
            ) from broken
    else:
        items = whole if isinstance(whole, list) else [whole]
    if len(items) > MAX_REPORTS:
        raise SchemaError(f"the body holds more than {MAX_REPORTS} reports", mend="Send them in parts")
    return items


def _line(line: bytes) -> object:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return None


def _report(item: object, received_s: float, rules: OwnerRules, *, alone: bool) -> StepReport:
    if not isinstance(item, dict):
        raise SchemaError("is not a JSON object")
    unknown = next((name for name in item if name not in _KNOWN), None)
    if unknown is not None:
        raise SchemaError(f"has the unknown field {unknown[:80]!r}; known are {', '.join(_KNOWN)}")
    at_s = _number(item, "at_s", low=0.0)
    if at_s is None and not alone:
        raise SchemaError("has no at_s, which is needed where several reports come at once")
    at_s = received_s if at_s is None else at_s
    if at_s > received_s + MOST_AHEAD_S:
        raise SchemaError(f"at_s {at_s:.0f} lies ahead of this host's clock; it is in Unix seconds, not milliseconds")
    step, rank = _whole(item, "step"), _whole(item, "rank")
    checkpoint = item.get("checkpoint")
    if checkpoint not in (None, "begin", "end"):
        raise SchemaError("checkpoint is neither begin nor end")
    if step is None and checkpoint is None:
        raise SchemaError("has neither a step nor a checkpoint")
    return StepReport(
        job=_job(item, rules),
        rank=rank or 0,
        at_s=at_s,
        step=step,
        step_s=_number(item, "step_s", high=1e6),
        loss=_number(item, "loss", low=-math.inf, finite=False),
        tokens=_number(item, "tokens"),
        checkpoint=None if checkpoint is None else float(checkpoint == "begin"),
        data_wait_s=_number(item, "data_wait_s", high=1e6),
    )


_KNOWN = (
    "job",
    "slurm_job_id",
    "namespace",
    "pod",
    "rank",
    "step",
    "at_s",
    "step_s",
    "loss",
    "tokens",
    "checkpoint",
    "data_wait_s",
)


def _job(item: Mapping[str, Any], rules: OwnerRules) -> JobId:
    """The job by its id, its Slurm number, or the pod that reports."""
    if item.get("job"):
        return JobId.parse(_text(item, "job"))
    if item.get("slurm_job_id"):
        return JobId("slurm", _text(item, "slurm_job_id"))
    if item.get("pod"):
        namespace = _text(item, "namespace") if item.get("namespace") else "default"
        return JobId("kubernetes", f"{namespace}:{group_of(_text(item, 'pod'), rules)}")
    raise SchemaError("names no job: give job, slurm_job_id, or pod and namespace")


def _text(item: Mapping[str, Any], name: str) -> str:
    value = item[name]
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(text, str) or len(text) > _MOST_TEXT or not text.isprintable():
        raise SchemaError(f"{name} is not a text of at most {_MOST_TEXT} printable characters")
    return text


def _whole(item: Mapping[str, Any], name: str) -> int | None:
    value = item.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 2**53:
        raise SchemaError(f"{name} is not a whole number from 0 on")
    return value


def _number(
    item: Mapping[str, Any], name: str, *, low: float = 0.0, high: float = math.inf, finite: bool = True
) -> float | None:
    value = item.get(name)
    if value is None:
        return None
    if isinstance(value, str) and not finite and value.lower().lstrip("+-") in ("nan", "inf", "infinity"):
        return float(value)  # JSON has no such numbers, and a loss that is one is news
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SchemaError(f"{name} is not a number")
    if not low <= value <= high:
        raise SchemaError(f"{name} is {value:g}, outside of {low:g} to {high:g}")
    return float(value)


class StepBook:
    """Turns reports into batches; what is sent again is recognised, and one rank speaks for each job.

    A job whose step number falls after its newest report has started again from a checkpoint: its steps count anew.
    """

    def __init__(self) -> None:
        self._jobs: OrderedDict[JobId, _Job] = OrderedDict()

    def take(self, reports: Sequence[StepReport], faults: Sequence[str], received_s: float) -> StepsTaken:
        """Batches of the reports, one per job.

        Args:
            reports: from ``read_reports``; order does not matter.
            faults: likewise.
            received_s: when they arrived.
        """
        kept: dict[JobId, list[StepReport]] = {}
        duplicates = other_ranks = 0
        for report in sorted(reports, key=_in_time):
            job = self._job(report, received_s)
            if report.rank != job.lead:
                other_ranks += 1
                continue
            news = _news(job, report)
            if news is None:
                duplicates += 1
            else:
                kept.setdefault(report.job, []).append(news)
        return StepsTaken(
            batches=tuple(self._batch(self._jobs[job].keys, group, received_s) for job, group in kept.items()),
            accepted=len(reports) - duplicates,
            duplicates=duplicates,
            other_ranks=other_ranks,
            rejected=len(faults),
            faults=tuple(faults[:_MOST_FAULTS_TOLD]),
            news=tuple(report for group in kept.values() for report in group),
        )

    def forget(self, news: Iterable[StepReport]) -> None:
        """These could not be stored: sent again, they are no duplicates."""
        for report in news:
            job = self._jobs.get(report.job)
            if job is not None:
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
