"""Jobs, who had what, and what the user said about a job."""

from __future__ import annotations

from dataclasses import dataclass

from telemetry.ids import GpuId, JobId
from telemetry.roster import JobRecord


@dataclass(frozen=True, slots=True)
class Allocation:
    """A job had a GPU from one moment to another; the join that makes anything per job possible.

    Args:
        job: the owner.
        gpu: the device.
        from_s: first moment seen, Unix seconds.
        to_s: last moment seen, None while it lasts.
        sharers: how many jobs share the device; above 1 every per-job figure is an estimate.
    """

    job: JobId
    gpu: GpuId
    from_s: float
    to_s: float | None = None
    sharers: int = 1


@dataclass(frozen=True, slots=True)
class JobIntent:
    """What the user said about a job, all optional.

    Args:
        model: ``"10 B transformer"`` in the user's words.
        parameter_count: parameters of the model.
        optimizer: ``"adam"``.
        gpu_count: GPUs asked for.
        zero_stage: 0 to 3.
        sequence_length: tokens.
        deadline_s: Unix seconds.
        priority: higher first.
        budget: money the user is ready to spend, in the site's unit.
    """

    model: str = ""
    parameter_count: float | None = None
    optimizer: str = ""
    gpu_count: int | None = None
    zero_stage: int | None = None
    sequence_length: int | None = None
    deadline_s: float | None = None
    priority: int = 0
    budget: float | None = None


@dataclass(frozen=True, slots=True)
class JobView:
    """A job as the scheduler or the telemetry shows it.

    Args:
        job: its id.
        nodes: hosts it runs on, sorted.
        gpus: devices it runs on, sorted.
        first_seen_s: Unix seconds.
        last_seen_s: Unix seconds.
        shared: True when at least one of its GPUs has other users too.
        intent: what the user said, if anything.
        record: what its scheduler lists of it: name, user, queue, priority, limits; None where no scheduler is read.
    """

    job: JobId
    nodes: tuple[str, ...]
    gpus: tuple[GpuId, ...]
    first_seen_s: float
    last_seen_s: float
    shared: bool = False
    intent: JobIntent | None = None
    record: JobRecord | None = None
