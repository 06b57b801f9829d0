"""Reports of steps as jobs send them, read from JSON. No I/O."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from collectors.attribution import OwnerRules, group_of
from telemetry.errors import SchemaError
from telemetry.ids import JobId

MAX_REPORTS = 10_000
"""Of one request; the example hook sends a few dozen."""
MOST_AHEAD_S = 60.0
_MOST_TEXT = 256


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
