"""A scheduler's list as lines for a reader. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from telemetry.roster import HOLDING, Claim, JobRecord, Roster

_MOST_LINES = 200


def roster_facts(roster: Roster, claims: Sequence[Claim] = ()) -> tuple[str, ...]:
    """One line a job and one a node with GPUs, the first ``_MOST_LINES`` of each."""
    held: dict[str, list[Claim]] = {}
    for claim in claims:
        held.setdefault(str(claim.job), []).append(claim)
    jobs = [_job_line(job, held.get(str(job.job), [])) for job in roster.jobs[:_MOST_LINES]]
    nodes = [
        f"{node.node}: {'?' if node.used is None else node.used} of {node.total} GPUs in use, "
        f"{'?' if node.free is None else node.free} free ({_types(node.types)}; {node.state or 'state not told'}"
        f"{'; must be switched on' if node.needs_power_up and node.free else ''}{'; clamped' if node.clamped else ''})"
        for node in roster.nodes[:_MOST_LINES]
        if node.total
    ]
    left = max(len(roster.jobs) - _MOST_LINES, 0) + max(len(roster.nodes) - _MOST_LINES, 0)
    return (*jobs, *nodes, *((f"and {left} more",) if left else ()))


def roster_summary(roster: Roster) -> str:
    """A sentence with the counts."""
    running = [job for job in roster.jobs if job.state in HOLDING]
    taken = sum(job.gpu_count or 0 for job in running)
    parts = []
    if roster.jobs:
        parts.append(f"{len(running)} jobs with {taken} GPUs, {len(roster.waiting)} waiting")
    if roster.nodes:
        ratio = roster.used_ratio
        use = "use unknown" if ratio is None else f"{ratio:.0%} in use"
        total = sum(node.total for node in roster.nodes)
        parts.append(f"{len(roster.nodes)} nodes with {total} GPUs ({use})")
    return "; ".join(parts) or "neither jobs nor nodes"


def _job_line(job: JobRecord, claims: Sequence[Claim]) -> str:
    count = "an unknown number of" if job.gpu_count is None else str(job.gpu_count)
    who = "/".join(part for part in (job.account, job.user) if part) or "nobody named"
    many = f", {job.task_count} such tasks" if job.task_count > 1 else ""
    where = "; ".join(_claim(claim) for claim in claims[:8]) + ("; ..." if len(claims) > 8 else "")
    why = f" ({job.reason})" if job.reason else ""
    shares = " as shares" if job.shares_gpus else ""
    return f"{job.job} {job.state}{why}: {count} GPUs{shares}{many} for {who}{f' on {where}' if where else ''}"


def _claim(claim: Claim) -> str:
    if claim.uuids:
        return f"{claim.node} {', '.join(claim.uuids)}"
    if claim.indices is not None:
        return f"{claim.node} number {', '.join(str(index) for index in claim.indices)}"
    return f"{claim.node} ({'?' if claim.count is None else claim.count}, which ones is not told)"


def _types(types: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {kind or 'of no told type'}" for kind, count in types.items())
