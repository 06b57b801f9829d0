"""Who runs where: jobs as views, and each job's share of its hosts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from telemetry.ids import JobId
from telemetry.jobs import Allocation, JobView

OVER_AFTER_S = 60.0
"""A job last seen longer ago than this is over: later samples of its GPUs belong to others."""


def job_views(allocations: Iterable[Allocation], as_of_s: float) -> list[JobView]:
    """One view per job, sorted by id: the GPUs it has now, or had last when it is over.

    ``shared`` is set where another job is on one of its GPUs or on one of its hosts: figures of the device, or of
    the hosts' NICs, are then estimates.
    """
    by_job: dict[JobId, list[Allocation]] = {}
    for allocation in allocations:
        by_job.setdefault(allocation.job, []).append(allocation)
    held = {job: _held(owned) for job, owned in by_job.items()}
    tenants: dict[str, set[JobId]] = {}
    for job, owned in held.items():
        for allocation in owned:
            if allocation.to_s is None:
                tenants.setdefault(allocation.gpu.node, set()).add(job)
    views = []
    for job in sorted(by_job):
        gpus = tuple(sorted({allocation.gpu for allocation in held[job]}))
        nodes = tuple(sorted({gpu.node for gpu in gpus}))
        shared = any(a.sharers > 1 for a in held[job]) or any(len(tenants.get(node, ())) > 1 for node in nodes)
        first_s = min(allocation.from_s for allocation in held[job])
        last_s = max(as_of_s if a.to_s is None else a.to_s for a in by_job[job])
        views.append(JobView(job, nodes, gpus, first_s, last_s, shared))
    return views


def _held(owned: Sequence[Allocation]) -> list[Allocation]:
    """What a job has now; when nothing, what it had until its end."""
    now = [allocation for allocation in owned if allocation.to_s is None]
    last_s = max((a.to_s for a in owned if a.to_s is not None), default=0.0)
    return now or [a for a in owned if a.to_s is not None and a.to_s >= last_s - OVER_AFTER_S]


def host_shares(allocations: Iterable[Allocation]) -> dict[JobId, dict[str, float]]:
    """Job -> host -> the job's share of the GPUs in use there, 0..1; a shared GPU counts in equal parts."""
    weight: dict[JobId, dict[str, float]] = {}
    total: dict[str, float] = {}
    for allocation in allocations:
        if allocation.to_s is not None:
            continue
        part = 1.0 / max(1, allocation.sharers)
        node = allocation.gpu.node
        mine = weight.setdefault(allocation.job, {})
        mine[node] = mine.get(node, 0.0) + part
        total[node] = total.get(node, 0.0) + part
    return {job: {node: part / total[node] for node, part in mine.items()} for job, mine in weight.items()}
