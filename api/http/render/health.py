"""Accuracy and sources as API models."""

from __future__ import annotations

from api.http import schemas
from api.http.render.base import number, rfc3339
from api.reads import AccuracyRow, DeviceView
from collectors.status import TargetStatus


def accuracy(row: AccuracyRow) -> schemas.AccuracyOut:
    """One row of live accuracy."""
    return schemas.AccuracyOut(
        subject=row.subject,
        metric=row.metric,
        model=row.model,
        model_version=row.model_version,
        skill=number(row.skill),
        coverage80=number(row.coverage80),
        coverage95=number(row.coverage95),
        scored=row.scored,
    )


def devices(view: DeviceView) -> schemas.DevicesOut:
    """The GPUs that sources serve."""
    return schemas.DevicesOut(
        total=view.total,
        without_job_total=view.without_job_total,
        without_job=list(view.without_job),
        without_node=list(view.without_node),
        twice_total=view.twice_total,
        twice=[
            schemas.TwiceOut(
                device=one.device,
                servers=[schemas.ServerOut(source=source, entity=entity) for source, entity in one.servers],
            )
            for one in view.twice
        ],
        nodes_of={source: list(nodes) for source, nodes in view.nodes_of.items()},
    )


def target(value: TargetStatus) -> schemas.TargetOut:
    """One source."""
    last_ok_s = number(value.last_ok_s)
    return schemas.TargetOut(
        source=value.source,
        role=value.role,
        up=value.up,
        last_ok_at=None if last_ok_s is None else rfc3339(last_ok_s),
        last_ok_s=last_ok_s,
        interval_s=number(value.interval_s),
        refresh_s=number(value.refresh_s),
        clock_offset_s=number(value.clock_offset_s),
        samples=value.samples,
        findings=dict(value.findings),
        last_error=value.last_error,
        details=dict(value.details),
    )
