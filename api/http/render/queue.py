"""Rosters of schedulers as API models."""

from __future__ import annotations

import math
from typing import Any

from api.http.render import outlook
from api.http.render.base import number, rfc3339
from api.http.schemas.queue import QueuedJobOut, ScheduledOut, SchedulerOut
from api.outlook import Outlook
from telemetry.roster import HOLDING, JobRecord, JobState, Roster


def scheduled(record: JobRecord) -> ScheduledOut:
    """What is listed of a job."""
    return ScheduledOut.model_validate(_facts(record))


def waiting_jobs(rosters: tuple[Roster, ...]) -> list[tuple[str, JobRecord]]:
    """(scheduler, job) of every job that waits, in the order of ``QueueOut``."""

    def key(pair: tuple[str, JobRecord]) -> tuple[str, float, float, str]:
        source, record = pair
        first = -record.priority if record.priority is not None else math.inf
        return (source, first, record.submit_s if record.submit_s is not None else math.inf, str(record.job))

    return sorted(((roster.source, record) for roster in rosters for record in roster.waiting), key=key)


def queued(source: str, record: JobRecord, now_s: float, outlooks: dict[str, Outlook]) -> QueuedJobOut:
    """A job that waits, with its expected start."""
    expected_s = number(record.expected_start_s)
    return QueuedJobOut.model_validate(
        {
            **_facts(record),
            "id": str(record.job),
            "source": source,
            "waited_s": None if record.submit_s is None else max(0.0, now_s - record.submit_s),
            "task_count": record.task_count,
            "reason": record.reason,
            "expected_start_at": _at(expected_s),
            "expected_start_s": expected_s,
            "start_forecast": outlook.start(outlook.start_of(outlooks, source, record.job)),
        }
    )


def scheduler(roster: Roster, now_s: float, outlooks: dict[str, Outlook]) -> SchedulerOut:
    """A scheduler's figures, with the demand ahead."""
    serving = [node for node in roster.nodes if node.in_service]
    used = [node.used for node in serving if node.total]
    free = [node.free for node in serving if node.total]
    waits = [(record.task_count, record.gpu_count) for record in roster.waiting]
    return SchedulerOut(
        source=roster.source,
        listed_at=rfc3339(roster.at_s),
        listed_s=roster.at_s,
        age_s=max(0.0, now_s - roster.at_s),
        gpus_total=sum(node.total for node in serving),
        gpus_used=_sum(used),
        gpus_free=_sum(free),
        nodes=len(roster.nodes),
        nodes_in_service=len(serving),
        running=sum(record.state in HOLDING for record in roster.jobs),
        waiting=sum(count for count, _ in waits),
        gpus_waited_for=sum(count * (gpus or 0) for count, gpus in waits),
        demand=outlook.demand(outlooks.get(roster.source)),
    )


def _facts(record: JobRecord) -> dict[str, Any]:
    holds = record.state in HOLDING
    limit_s, submit_s, start_s = record.time_limit_s, number(record.submit_s), number(record.start_s)
    return {
        "name": record.name,
        "user": record.user,
        "account": record.account,
        "partition": record.partition,
        "group": record.group,
        "state": str(record.state),
        "state_text": record.state_text,
        "priority": number(record.priority),
        "restarts": record.restarts,
        "gpus_asked": record.asked_gpu_count,
        "gpus_held": record.gpu_count if holds else 0 if record.state is JobState.WAITING else None,
        "gpu_types": dict(record.gpu_types),
        "shares_gpus": record.shares_gpus,
        "node_count": record.node_count,
        "nodes": list(record.nodes),
        "submit_at": _at(submit_s),
        "submit_s": submit_s,
        "start_at": _at(start_s),
        "start_s": start_s,
        "time_limit_s": number(limit_s),
        "unlimited": limit_s == math.inf,
        "end_limit_s": number(record.end_limit_s),
    }


def _at(at_s: float | None) -> str | None:
    return None if at_s is None else rfc3339(at_s)


def _sum(counts: list[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None
