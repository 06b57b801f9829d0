"""Small series and pages for the feature tests."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from features.store.base import Series
from telemetry.catalogue import BY_FIELD, Level
from telemetry.ids import GpuId, JobId, SeriesKey
from telemetry.samples import SampleBatch, Sighting

Line = tuple[str, Mapping[str, str], float, float]
"""Family name, labels, time, value."""


def _series(
    at_s: Iterable[float], value: Iterable[float], metric: str = "gpu_util_ratio", entity: str = "n:G"
) -> Series:
    values = np.array(list(value), float)
    times = np.array(list(at_s), float)
    reason = np.where(np.isnan(values), 3, 0).astype(np.uint8)
    return Series(SeriesKey(metric, entity), times, values, reason, float(times[-1]) if times.size else 0.0)


@pytest.fixture
def series() -> Callable[..., Series]:
    """Build a series from times and values; NaN is missing."""
    return _series


def _pod(labels: Mapping[str, str]) -> tuple[str, str]:
    return (
        labels.get("exported_pod") or labels.get("pod") or "",
        labels.get("exported_namespace") or labels.get("namespace") or "",
    )


def _sighting(labels: Mapping[str, str], gpu: GpuId, at_s: float) -> Sighting:
    pod, namespace = _pod(labels)
    if labels.get("hpc_job"):
        return Sighting(gpu, at_s, JobId("slurm", labels["hpc_job"]))
    if pod:
        return Sighting(gpu, at_s, JobId("kubernetes", f"{namespace}:{pod}"), workload=f"{namespace}/{pod}")
    return Sighting(gpu, at_s, None)


def _batch(lines: Iterable[Line]) -> SampleBatch:
    """A batch as a collector gives it: one value per device and moment, owners as sightings."""
    rows: dict[tuple[SeriesKey, float], float] = {}
    seen: dict[tuple[GpuId, float], dict[JobId | None, Sighting]] = {}
    for field, labels, at_s, printed in lines:
        # prometheus_client's parser adds this to every counter without it.
        metric, source = BY_FIELD.get(field) or BY_FIELD[field.removesuffix("_total")]
        gpu = GpuId(labels["Hostname"], labels["UUID"], labels.get("GPU_I_ID", ""))
        entity = gpu.card if metric.level is Level.GPU else gpu
        rows[SeriesKey(metric.name, str(entity)), at_s] = printed * source.scale
        sighting = _sighting(labels, gpu, at_s)
        seen.setdefault((gpu, at_s), {})[sighting.job] = sighting
    sightings = []
    for (gpu, at_s), owners in seen.items():
        jobs = [job for job in owners if job is not None]
        sightings += [
            Sighting(gpu, at_s, job, workload=owners[job].workload, sharers=len(jobs)) for job in (jobs or [None])
        ]
    batch = SampleBatch.of([(key, at_s, value) for (key, at_s), value in rows.items()])
    return SampleBatch(batch.keys, batch.series, batch.at_s, batch.value, batch.reason, tuple(sightings))


@pytest.fixture
def page_batch() -> Callable[[Path, float], SampleBatch]:
    """Read a dcgm-exporter page at a moment."""

    def read(path: Path, at_s: float) -> SampleBatch:
        families = text_string_to_metric_families(path.read_text())
        return _batch((s.name, s.labels, at_s, s.value) for family in families for s in family.samples)

    return read


@pytest.fixture
def answer_batch() -> Callable[[Path, tuple[str, ...]], SampleBatch]:
    """Read a Prometheus range answer, the series with the later first sample last; some fields only."""

    def read(path: Path, fields: tuple[str, ...]) -> SampleBatch:
        result = json.loads(path.read_text())["data"]["result"]
        chosen = [one for one in result if one["metric"]["__name__"] in fields]
        chosen.sort(key=lambda one: one["values"][0][0])
        return _batch(
            (one["metric"]["__name__"], one["metric"], float(at_s), float(value))
            for one in chosen
            for at_s, value in one["values"]
        )

    return read
