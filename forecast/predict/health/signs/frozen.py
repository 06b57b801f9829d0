"""Metrics that stand still while their card works: what rests on them is blind, and nobody would notice."""

from __future__ import annotations

from features.frame import JobFrame
from forecast.predict.health.moves import node_of_gpu
from forecast.predict.health.types import Evidence, HealthFinding, Severity, Sign, Thing
from telemetry.errors import SchemaError
from telemetry.ids import GpuId

KIND = "frozen"
TO_DO = (
    "Stop the other profiler on this host (Nsight, a second DCGM), or restart the exporter; until then forecasts of "
    "this metric rest on the devices that still move."
)


def find(evidence: Evidence) -> list[HealthFinding]:
    """One finding for each metric of a job with devices whose readings stood still."""
    return [_finding(frame, metric, proof) for frame in evidence.jobs for metric, proof in sorted(frame.frozen.items())]


def _finding(frame: JobFrame, metric: str, proof: str) -> HealthFinding:
    entity, _, _ = proof.partition(": ")
    try:
        GpuId.parse(entity)
    except SchemaError:
        thing, entity, node = Thing.JOB, str(frame.job.job), ""
    else:
        thing, node = Thing.GPU, node_of_gpu(entity)
    return HealthFinding(
        KIND,
        thing,
        entity,
        Severity.INFO,
        0.2,
        frame.data_at_s,
        proof,
        TO_DO,
        (metric,),
        detail=metric,
        node=node,
        jobs=(frame.job.job,),
    )


SIGN = Sign((("frame",),), find, per_job=True)
