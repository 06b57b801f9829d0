"""What a scheduler lists: jobs that run and wait, and how many GPUs each node has, uses and can give."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from telemetry.ids import JobId


class JobState(StrEnum):
    """Where a job stands, in one word for every scheduler."""

    WAITING = "waiting"
    RUNNING = "running"
    SUSPENDED = "suspended"
    """Stopped by the scheduler; it keeps its GPUs."""
    ENDING = "ending"
    """Over, but its GPUs are not free yet."""
    ENDED = "ended"
    UNKNOWN = "unknown"


HOLDING = frozenset({JobState.RUNNING, JobState.SUSPENDED, JobState.ENDING})
"""States in which a job has GPUs."""


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A job as its scheduler lists it, waiting ones too. What the scheduler does not tell is None or empty.

    Args:
        job: its id; the raw number under Slurm, so that every task of an array has its own.
        state: in our word.
        state_text: in the scheduler's own words.
        name: as the user named it.
        user: who submitted it.
        account: who pays.
        partition: queue or partition.
        group: ``123`` for the tasks of array 123 and for the parts of a heterogeneous job 123.
        gpu_count: GPUs or slices it has, or asks for while it waits; 0 when it is known to need none.
        asked_gpu_count: GPUs or slices it asked for, which may be other than it has; None when not told.
        gpu_types: type -> how many of ``gpu_count``, where types are told.
        shares_gpus: it has or asks for shares of GPUs (MPS, shards, time slices) rather than whole devices.
        node_count: hosts it has or asks for.
        nodes: hosts it has, in the scheduler's order.
        submit_s: Unix seconds.
        start_s: when it began; None while it waits.
        expected_start_s: when its scheduler expects to start it; None when it says nothing.
        time_limit_s: how long it may run; inf when there is no limit.
        priority: higher first, in the scheduler's own scale; 0 under Slurm means held.
        restarts: how often it was started again.
        reason: why it waits, in the scheduler's words.
        task_count: how many tasks of an array this record stands for; each needs ``gpu_count``.
    """

    job: JobId
    state: JobState
    state_text: str = ""
    name: str = ""
    user: str = ""
    account: str = ""
    partition: str = ""
    group: str = ""
    gpu_count: int | None = None
    asked_gpu_count: int | None = None
    gpu_types: Mapping[str, int] = field(default_factory=dict)
    shares_gpus: bool = False
    node_count: int | None = None
    nodes: tuple[str, ...] = ()
    submit_s: float | None = None
    start_s: float | None = None
    expected_start_s: float | None = None
    time_limit_s: float | None = None
    priority: float | None = None
    restarts: int = 0
    reason: str = ""
    task_count: int = 1

    @property
    def end_limit_s(self) -> float | None:
        """When it will be over at the latest, Unix seconds; None when it waits, has no limit, or either is unknown.

        A limit of 0 is how schedulers are asked for none.
        """
        if self.start_s is None or self.time_limit_s is None or not 0 < self.time_limit_s < float("inf"):
            return None
        return self.start_s + self.time_limit_s


@dataclass(frozen=True, slots=True)
class Claim:
    """A job's hold on GPUs of one node, as its scheduler tells it.

    Args:
        job: the owner.
        node: host name.
        count: GPUs or slices; None when unknown.
        gpu_type: such as ``h100`` or ``a100_3g.20gb``; empty when not told.
        indices: the scheduler's device numbers on that node; None when it tells none.
        uuids: devices by UUID, where the scheduler knows them.
        shared: the job has shares of these devices and not the whole of them.
        sliced: these are MIG instances, whose numbers follow no card's index.
        since_s: since when, Unix seconds; None when unknown.
        workload: the finer name under Kubernetes, ``namespace/pod/container``.
    """

    job: JobId
    node: str
    count: int | None
    gpu_type: str = ""
    indices: tuple[int, ...] | None = None
    uuids: tuple[str, ...] = ()
    shared: bool = False
    sliced: bool = False
    since_s: float | None = None
    workload: str = ""


@dataclass(frozen=True, slots=True)
class NodeShare:
    """GPUs of a node that a job has, when it cannot be told which ones.

    Args:
        job: the owner.
        node: host name.
        count: GPUs or slices; None when not even that is known.
        at_s: when it was so, Unix seconds.
        why: a sentence: why the devices themselves are unknown.
        gpu_type: as the scheduler names it; empty when not told.
        shared: the job has shares of devices.
    """

    job: JobId
    node: str
    count: int | None
    at_s: float
    why: str
    gpu_type: str = ""
    shared: bool = False


@dataclass(frozen=True, slots=True)
class NodeGpus:
    """The GPUs of one node as its scheduler counts them; slices of a card count one each.

    Args:
        node: host name.
        total: how many it has.
        used: how many are taken; None when not told. Never negative and never above ``total``.
        types: type -> how many of ``total``; the empty type holds those of no told type.
        state: the scheduler's own words.
        in_service: it is neither drained, down, failing nor silent.
        held: free GPUs exist but are kept back (maintenance, a reservation).
        needs_power_up: it is switched off, or being switched.
        clamped: the counts contradicted each other (they come from several answers) and were put into range.
        partitions: queues it serves.
    """

    node: str
    total: int
    used: int | None
    types: Mapping[str, int] = field(default_factory=dict)
    state: str = ""
    in_service: bool = True
    held: bool = False
    needs_power_up: bool = False
    clamped: bool = False
    partitions: tuple[str, ...] = ()

    @property
    def free(self) -> int | None:
        """GPUs that a job could get, perhaps after the node was switched on; None when unknown."""
        if not self.in_service or self.held:
            return 0
        return None if self.used is None else self.total - self.used


@dataclass(frozen=True, slots=True)
class Roster:
    """Everything one scheduler listed at one moment.

    Args:
        at_s: when, Unix seconds; 0 when nothing was ever listed.
        source: which scheduler.
        jobs: running and waiting.
        nodes: nodes with and without GPUs.
        shares: what is known by count only.
    """

    at_s: float = 0.0
    source: str = ""
    jobs: tuple[JobRecord, ...] = ()
    nodes: tuple[NodeGpus, ...] = ()
    shares: tuple[NodeShare, ...] = ()

    @property
    def waiting(self) -> tuple[JobRecord, ...]:
        """Jobs that wait, as listed."""
        return tuple(job for job in self.jobs if job.state is JobState.WAITING)

    @property
    def used_ratio(self) -> float | None:
        """Share of the GPUs in service that is taken; None when there are none or their use is unknown."""
        known = [node for node in self.nodes if node.in_service and node.used is not None]
        total = sum(node.total for node in known)
        return sum(node.used or 0 for node in known) / total if total else None

    def gpus_by_account(self) -> dict[str, int]:
        """GPUs held by each account, with 0 for accounts whose jobs hold none."""
        held: dict[str, int] = {}
        for job in self.jobs:
            count = (job.gpu_count or 0) if job.state in HOLDING else 0
            held[job.account] = held.get(job.account, 0) + count
        return held


def count_types(parts: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Counts added up by type."""
    total: dict[str, int] = {}
    for gpu_type, count in parts:
        total[gpu_type] = total.get(gpu_type, 0) + count
    return total
