"""What Slurm says of a job and of a node, whichever way it was asked; and the step from there to our words. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from collectors.slurm.gres import (
    SHARED_NAMES,
    GpuTally,
    Gres,
    asks_for_shares,
    count_gpus,
    count_tres_gpus,
    parse_gres,
    parse_numbers,
    parse_tres,
)
from collectors.slurm.notes import Notes
from collectors.slurm.states import job_state, node_condition
from telemetry.errors import SchemaError
from telemetry.ids import JobId
from telemetry.roster import HOLDING, Claim, JobRecord, JobState, NodeGpus, count_types

BACKEND = "slurm"


@dataclass(frozen=True, slots=True)
class SlurmJob:
    """A job in Slurm's own terms; every text may be empty, every number None.

    Args:
        id: raw job number.
        state: one or more words, such as ``RUNNING`` or ``("RUNNING", "COMPLETING")``.
        nodes: host list expression.
        detail: one (host list, GRES) pair per group of hosts that hold the same devices; the host list is empty where
            the texts stand in the order of the hosts.
        tres_alloc: what it has, as TRES.
        tres_req: what it asked for, as TRES.
        per_node: GRES per node; likewise ``per_job``, ``per_task``.
        time_limit_s: inf when unlimited.
    """

    id: str
    state: tuple[str, ...] = ()
    name: str = ""
    user: str = ""
    account: str = ""
    partition: str = ""
    nodes: str = ""
    detail: tuple[tuple[str, str], ...] = ()
    tres_alloc: str = ""
    tres_req: str = ""
    per_node: str = ""
    per_job: str = ""
    per_task: str = ""
    node_count: int | None = None
    tasks: int | None = None
    submit_s: float | None = None
    start_s: float | None = None
    time_limit_s: float | None = None
    priority: float | None = None
    restarts: int = 0
    reason: str = ""
    array_job: str = ""
    array_tasks: str = ""
    het_job: str = ""


@dataclass(frozen=True, slots=True)
class SlurmNode:
    """A node in Slurm's own terms.

    Args:
        name: of the node.
        state: words or a word with suffix letters, such as ``("IDLE", "DRAIN")`` or ``("drained*",)``.
        gres: what it has.
        gres_used: what is taken; None when not told.
        partitions: queues it serves.
    """

    name: str
    state: tuple[str, ...] = ()
    gres: str = ""
    gres_used: str | None = None
    partitions: tuple[str, ...] = ()


def job_record(job: SlurmJob, notes: Notes) -> JobRecord:
    """The job in our words."""
    state = job_state(job.state)
    held = state in HOLDING
    tally = _gpus_of(job, held, notes)
    start_s = None if job.start_s is None or job.start_s <= 0 else job.start_s
    hosts = notes.hosts(job.nodes, f"job {job.id}")
    # A job that was requeued keeps its old hosts in some versions; what waits has none.
    return JobRecord(
        job=JobId(BACKEND, job.id),
        state=state,
        state_text=" ".join(job.state),
        name=job.name,
        user=job.user,
        account=job.account,
        partition=job.partition,
        group=next((g for g in (job.array_job, job.het_job) if g and g != "0"), ""),
        gpu_count=tally.total,
        asked_gpu_count=_asked(job) if held else tally.total,
        gpu_types=tally.types,
        shares_gpus=_shares(job),
        node_count=job.node_count,
        nodes=hosts if held or state is JobState.ENDED else (),
        submit_s=job.submit_s if job.submit_s else None,
        start_s=None if state is JobState.WAITING else start_s,
        expected_start_s=start_s if state is JobState.WAITING else None,
        time_limit_s=job.time_limit_s,
        priority=job.priority,
        restarts=job.restarts,
        reason=job.reason if state is JobState.WAITING and job.reason.lower() != "none" else "",
        task_count=_waiting_tasks(job, state),
    )


def _waiting_tasks(job: SlurmJob, state: JobState) -> int:
    """How many tasks of an array wait behind one line such as ``2-3%2`` or ``1,5-9``."""
    numbers = job.array_tasks.partition("%")[0].strip("[] ")
    if state is not JobState.WAITING or not numbers:
        return 1
    try:
        # Steps (``0-30:5``) are told as ranges only in the request; the rest of the list counts as told.
        return max(1, len(parse_numbers(numbers.partition(":")[0], "array tasks")))
    except SchemaError:
        return 1


def _shares(job: SlurmJob) -> bool:
    texts = (job.per_node, job.per_job, job.per_task, job.tres_req, *(gres for _, gres in job.detail))
    return any(text and asks_for_shares(text) for text in dict.fromkeys(texts))


def _gpus_of(job: SlurmJob, held: bool, notes: Notes) -> GpuTally:
    """GPUs that it has or asks for; what it has is read from TRES, else from its devices, else from its request."""
    what = f"job {job.id}"
    if held:
        tally = _tally(job.tres_alloc, what, notes)
        if tally.total is not None:
            return tally
        if not job.detail:
            hosts, on_each, of_type, shared = _held(job, notes)
            if on_each is not None and not shared:
                return GpuTally(on_each * len(hosts), count_types([(of_type, on_each * len(hosts))]))
        else:
            claims = [claim for claim in claims_of(job, notes) if not claim.shared]
            return GpuTally(
                sum(claim.count or 0 for claim in claims),
                count_types((claim.gpu_type, claim.count or 0) for claim in claims),
            )
    asked = _tally(job.tres_req, what, notes)
    if asked.total is not None:
        return asked
    for text, times in ((job.per_job, 1), (job.per_node, job.node_count), (job.per_task, job.tasks)):
        entries = _entries(text, what, notes)
        if any(entry.name == "gpu" for entry in entries):
            if times is None:
                return GpuTally(None)
            each = count_gpus(entries)
            return GpuTally((each.total or 0) * times, {kind: n * times for kind, n in each.types.items()})
    # Nothing asks for a GPU; that tells something only where there was something to read.
    return GpuTally(0 if job.tres_req or job.tres_alloc else None)


def _asked(job: SlurmJob) -> int | None:
    """GPUs that a job which has some asked for; None where Slurm no longer tells."""
    if not any((job.tres_req, job.per_job, job.per_node, job.per_task)):
        return None
    return _gpus_of(job, False, Notes()).total  # what cannot be read was noted already


def _tally(text: str, what: str, notes: Notes) -> GpuTally:
    if not text:
        return GpuTally(None)
    try:
        tally = count_tres_gpus(parse_tres(text))
    except SchemaError as odd:
        notes.add(f"{what}: {odd.message}")
        return GpuTally(None)
    if tally.contradicts:
        notes.add(f"{what}: the GPUs by type are more than its total; the sum of the types is kept")
    return tally


def claims_of(job: SlurmJob, notes: Notes) -> tuple[Claim, ...]:
    """Which devices of which nodes a job has; empty when it holds none.

    Where Slurm tells no devices, as in plain squeue text, there is a claim per node without indices: with a count
    when the job has one node or the same number on each, else without.
    """
    if job_state(job.state) not in HOLDING:
        return ()
    return tuple(_told_claims(job, notes) if job.detail else _counted_claims(job, notes))


def _told_claims(job: SlurmJob, notes: Notes) -> Iterator[Claim]:
    what = f"job {job.id}"
    hosts = notes.hosts(job.nodes, what)
    if any(not names for names, _ in job.detail) and len(job.detail) != len(hosts):
        notes.add(f"{what}: {len(job.detail)} lists of devices for {len(hosts)} nodes; they are left out")
        return
    for place, (names, text) in enumerate(job.detail):
        # A job that ends lists devices without numbers (``IDX:N/A``): they are free again.
        entries = [
            entry
            for entry in _entries(text, what, notes)
            if entry.count and entry.indices != () and (entry.name == "gpu" or entry.name in SHARED_NAMES)
        ]
        for node in notes.hosts(names, what) if names else (hosts[place],):
            for entry in entries:
                if not notes.may_hold(len(entry.indices or ()) or 1):
                    return
                yield _claim(job, node, entry)


def _claim(job: SlurmJob, node: str, entry: Gres) -> Claim:
    shared = entry.name in SHARED_NAMES
    return Claim(
        job=JobId(BACKEND, job.id),
        node=node,
        # For shares Slurm counts the shares; devices are what we count.
        count=(len(entry.indices) if entry.indices else None) if shared else entry.count,
        gpu_type=entry.type,
        indices=entry.indices,
        shared=shared,
        sliced=entry.sliced,
        since_s=job.start_s or None,
    )


def _counted_claims(job: SlurmJob, notes: Notes) -> Iterator[Claim]:
    hosts, each, kind, shared = _held(job, notes)
    owner, since_s = JobId(BACKEND, job.id), job.start_s or None
    for node in hosts:
        if not notes.may_hold(1):
            return
        yield Claim(owner, node, each, kind, since_s=since_s, shared=shared)


def _held(job: SlurmJob, notes: Notes) -> tuple[tuple[str, ...], int | None, str, bool]:
    """Hosts on which a job without lists of devices has GPUs, how many on each, of which type, and whether as shares."""
    what = f"job {job.id}"
    hosts = notes.hosts(job.nodes, what)
    tally = _tally(job.tres_alloc, what, notes)
    per_node = count_gpus(_entries(job.per_node, what, notes)) if "gpu" in job.per_node else GpuTally(None)
    total = tally.total if tally.total is not None else None
    if total == 0 or (total is None and not per_node.total and not _asks_for_gpus(job)) or not hosts:
        return (), None, "", False
    each = per_node.total or (total if len(hosts) == 1 else None)
    types = [kind for kind in (tally.types or per_node.types) if kind]
    kind = types[0] if len(types) == 1 else ""
    return hosts, each, kind, _shares(job)


def _asks_for_gpus(job: SlurmJob) -> bool:
    return any("gpu" in text for text in (job.per_job, job.per_task, job.tres_req)) or _shares(job)


def node_gpus(node: SlurmNode, notes: Notes) -> NodeGpus:
    """The node's GPUs counted; counts that contradict each other are put into range and marked."""
    what = f"node {node.name}"
    has = count_gpus(_entries(node.gres, what, notes))
    used: int | None = None
    if node.gres_used is not None:
        entries = _entries(node.gres_used, what, notes)
        if entries or node.gres_used.strip().lower() in ("", "(null)", "n/a"):
            used = (count_gpus(entries).total or 0) + _shared_devices(entries)
    total, condition = has.total or 0, node_condition(node.state)
    clamped = used is not None and not 0 <= used <= total
    if clamped:
        notes.add(f"{what}: {used} GPUs in use of {total}; the count is put into range")
    return NodeGpus(
        node=node.name,
        total=total,
        used=None if used is None else min(max(used, 0), total),
        types=has.types,
        state=" ".join(node.state),
        in_service=condition.in_service,
        held=condition.held,
        needs_power_up=condition.needs_power_up,
        clamped=clamped,
        partitions=node.partitions,
    )


def _shared_devices(entries: Iterable[Gres]) -> int:
    """Cards that are taken by shares; Slurm takes a card either whole or by shares, never both."""
    return len({index for entry in entries if entry.name in SHARED_NAMES for index in entry.indices or ()})


def _entries(text: str, what: str, notes: Notes) -> tuple[Gres, ...]:
    if not text:
        return ()
    try:
        return parse_gres(text)
    except SchemaError as odd:
        notes.add(f"{what}: {odd.message}")
        return ()
