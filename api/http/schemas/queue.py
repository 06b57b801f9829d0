"""Answers about what schedulers list: jobs that wait, and what is known of those that run."""

from __future__ import annotations

from pydantic import Field

from api.http.schemas.base import Absent, Answer, JobText, Rfc3339
from api.http.schemas.outlook import DemandOut, EndOut, StartOut


class ScheduledOut(Answer):
    """What a job's scheduler lists of it; null or empty for what it does not tell."""

    name: str = Field(description="As the user named it.")
    user: str = Field(description="Who submitted it; Kubernetes does not tell.")
    account: str = Field(description="Account under Slurm, namespace under Kubernetes.")
    partition: str = Field(description="Partition or queue.")
    group: str = Field(description="Array or heterogeneous job that it is part of.")
    state: str = Field(description="`waiting`, `running`, `suspended`, `ending`, `ended` or `unknown`.")
    state_text: str = Field(description="In the scheduler's own words.")
    priority: float | None = Field(description="Higher first, in the scheduler's own scale.")
    restarts: int = Field(description="How often it was started again.")
    gpus_asked: int | None = Field(description="GPUs or slices it asked for.")
    gpus_held: int | None = Field(description="GPUs or slices it has; 0 while it waits.")
    gpu_types: dict[str, int] = Field(description="Type -> how many.")
    shares_gpus: bool = Field(description="It has or asks for shares of GPUs, not whole devices.")
    node_count: int | None = Field(description="Hosts it has or asks for.")
    nodes: list[str] = Field(description="Hosts it has.")
    submit_at: Rfc3339 | None
    submit_s: float | None
    start_at: Rfc3339 | None = Field(description="When it began; null while it waits.")
    start_s: float | None
    time_limit_s: float | None = Field(description="How long it may run; null when unknown or without a limit.")
    unlimited: bool = Field(description="True when it has no limit.")
    end_limit_s: float | None = Field(description="When it will be over at the latest, Unix seconds.")


class QueuedJobOut(ScheduledOut):
    """A job that waits."""

    id: JobText
    source: str = Field(description="Which scheduler lists it.")
    waited_s: float | None = Field(description="Since it was submitted.")
    task_count: int = Field(description="Tasks of an array behind this line; each needs `gpus_asked`.")
    reason: str = Field(description="Why it waits, in the scheduler's words.")
    expected_start_at: Rfc3339 | None = Field(description="The scheduler's own expectation; null when it has none.")
    expected_start_s: float | None
    start_forecast: StartOut | Absent = Field(description="When gpucast expects it to start, or why that is not said.")


class SchedulerOut(Answer):
    """One scheduler as it stood when it was last read."""

    source: str
    listed_at: Rfc3339
    listed_s: float
    age_s: float
    gpus_total: int = Field(description="Of nodes in service; slices count one each.")
    gpus_used: int | None = Field(description="null where a node does not tell.")
    gpus_free: int | None = Field(description="That a job could get now; null where a node does not tell.")
    nodes: int
    nodes_in_service: int
    running: int = Field(description="Jobs that hold GPUs or hosts.")
    waiting: int = Field(description="Jobs that wait, each task of an array counted.")
    gpus_waited_for: int = Field(description="GPUs that waiting jobs ask for, as far as they are told.")
    demand: list[DemandOut | Absent] = Field(description="GPUs in use and free ahead: the whole, then its partitions.")


class QueueOut(Answer):
    """Jobs that wait, by scheduler, then highest priority first, then longest wait first."""

    items: list[QueuedJobOut]
    next_cursor: str | None
    total: int
    schedulers: list[SchedulerOut]
    ends: list[EndOut] = Field(description="Running jobs that are expected to end first, as many as `limit`.")
    unread: str = Field(description="Why nothing is known; empty when a scheduler was read.")
