"""Rows of what schedulers count: GPUs of nodes. The numbers come from lists, not from a page, so no field is named."""

from __future__ import annotations

from telemetry.metric import Kind, Level, Metric

SCHEDULER_METRICS: tuple[Metric, ...] = (
    Metric(
        "node_gpu_count",
        "count",
        Kind.GAUGE,
        Level.NODE,
        (),
        high=4096.0,
        meaning="GPUs that the scheduler knows on a host; slices count one each",
    ),
    Metric(
        "node_gpu_used_count",
        "count",
        Kind.GAUGE,
        Level.NODE,
        (),
        high=4096.0,
        meaning="of them taken by jobs",
    ),
    Metric(
        "node_gpu_free_count",
        "count",
        Kind.GAUGE,
        Level.NODE,
        (),
        high=4096.0,
        meaning="of them free for a job: in service, not kept back; also on hosts that must be switched on first",
    ),
)
