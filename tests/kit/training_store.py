"""A small sample store of made-up jobs: rhythm, a walk, and a shape that all jobs share."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from features.store.duck import DuckStore
from telemetry.ids import GpuId, JobId, SeriesKey
from telemetry.samples import SampleBatch, Sighting

START_S = 1_796_000_000.0
METRICS = ("gpu_sm_active_ratio", "gpu_tensor_active_ratio", "gpu_power_watts")


def signals(job: int, points: int, seed: int = 0) -> np.ndarray:
    """(n_metrics, points) of one job."""
    random = np.random.default_rng([seed, job])
    period = int(random.integers(23, 60))
    phase = (np.arange(points) + random.integers(100)) % period / period
    base = np.where(phase < 0.7, 0.9 - 0.3 * phase, 0.1)
    rows = np.stack(
        [base + 0.03 * random.normal(size=points), 0.5 * base + 0.02 * random.normal(size=points), 300 * base]
    )
    rows[:2] = np.clip(rows[:2], 0, 1)
    rows[2] = np.maximum(rows[2] + 5 * random.normal(size=points), 0)
    return rows


def fill_store(
    folder: Path, *, jobs: int = 3, points: int = 700, step_s: float = 1.0, late_from_s: float = 0.0
) -> None:
    """Write a store as the service does, one batch a job and minute.

    Args:
        folder: data folder.
        jobs: how many, each with one GPU on one host.
        points: per series.
        step_s: between samples.
        late_from_s: samples from here on arrive an hour late; 0 for none.
    """
    folder.mkdir(parents=True, exist_ok=True)
    store = DuckStore(folder / "samples.duckdb", cold_dir=folder / "cold")
    batches = []
    for job in range(jobs):
        gpu, owner = GpuId(f"gpu-{job:02d}", f"GPU-{job}"), JobId("slurm", f"job{job}")
        values = signals(job, points)
        for first in range(0, points, 60):
            at_s = START_S + step_s * np.arange(first, min(points, first + 60))
            rows = [
                (SeriesKey(metric, str(gpu)), float(t), float(values[m, first + i]))
                for m, metric in enumerate(METRICS)
                for i, t in enumerate(at_s)
            ]
            late_s = 3600.0 if late_from_s and at_s[0] >= late_from_s else 0.0
            batch = SampleBatch.of(rows, source="made up", received_s=float(at_s[-1]) + late_s)
            seen = tuple(Sighting(gpu, float(t), owner, sharers=1) for t in (at_s[0], at_s[-1]))
            batches.append(
                SampleBatch(
                    batch.keys,
                    batch.series,
                    batch.at_s,
                    batch.value,
                    batch.reason,
                    seen,
                    (),
                    batch.source,
                    batch.received_s,
                )
            )
    store.append(batches)
    store.close()
