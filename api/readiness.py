"""Whether the service can serve, why not, and what the absence of metrics costs. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from api.reads import DeviceView
from collectors.counters_file import cost_of
from collectors.served import MOST_TOLD, ServedDevices
from collectors.status import TELEMETRY, TargetStatus
from features.frame import JobFrame


def reasons_not_ready(targets: Sequence[TargetStatus], store_problem: str, round_problem: str) -> list[str]:
    """Sentences; empty when ready.

    A scheduler, NCCL or a topology file may answer as it likes: without a source of telemetry there is nothing to
    forecast.
    """
    reasons = []
    if store_problem:
        reasons.append(f"samples cannot be stored: {store_problem}")
    feeding = [target for target in targets if target.role == TELEMETRY]
    if not any(target.up for target in feeding):
        down = next((target.last_error for target in feeding if target.last_error), "none has answered yet")
        beside = " (schedulers and other sources beside them are up)" if any(target.up for target in targets) else ""
        reasons.append(f"none of {len(feeding)} sources gives samples: {down}{beside}")
    if round_problem:
        reasons.append(round_problem)
    return reasons


def device_view(served: ServedDevices, frames: Sequence[JobFrame]) -> DeviceView:
    """The GPUs that sources serve, beside those that jobs have."""
    owned = {str(gpu) for frame in frames for gpu in (*frame.job.gpus, *(one.card for one in frame.job.gpus))}
    entities = served.entities
    free = [entity for entity in entities if entity not in owned]
    return DeviceView(
        total=len(entities),
        without_job_total=len(free),
        without_job=tuple(free[:MOST_TOLD]),
        without_node=served.without_node,
        twice_total=served.twice_total,
        twice=served.twice,
        nodes_of=served.nodes_of,
    )


def missing_fields(frames: Sequence[JobFrame]) -> dict[str, str]:
    """Metric -> why no job has it, or which devices' readings of it stand still, and what that costs."""
    present = {metric for frame in frames for metric in frame.totals.metric}
    told = {name: why for frame in frames for name, why in frame.missing.items() if name not in present}
    proofs = {name: proof for frame in frames for name, proof in frame.frozen.items()}
    for name, proof in proofs.items():
        told[name] = f"{told[name]}: {proof}" if name in told else f"readings that stand still are left out: {proof}"
    return {name: f"{why}; {cost}" if (cost := cost_of(name)) else why for name, why in told.items()}
