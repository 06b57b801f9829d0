"""What a job's hosts read, write and compute beside the GPUs."""

from __future__ import annotations

import numpy as np
import pytest

from features.ring import Ring
from features.transforms.jobs import job_frame
from telemetry.ids import GpuId, JobId, SeriesKey
from telemetry.jobs import Allocation, JobView
from telemetry.samples import SampleBatch, Sighting

N = 30
JOB = JobView(JobId("slurm", "1"), ("a", "b"), (GpuId("a", "G1"), GpuId("b", "G2")), 0.0, float(N - 1))


@pytest.fixture
def ring() -> Ring:
    ring = Ring(1000.0)
    for gpu in JOB.gpus:
        put(ring, "gpu_power_watts", str(gpu), lambda t: 300.0 + t % 7)
    return ring


def put(ring: Ring, metric: str, entity: str, value) -> None:
    key = SeriesKey(metric, entity)
    ring.append(SampleBatch.of([(key, float(t), float(value(t))) for t in range(N)]))


def row(ring: Ring, name: str, job: JobView = JOB) -> np.ndarray | None:
    totals = job_frame(ring, job, now_s=float(N - 1), window_s=100.0, step_s=1.0).totals
    return totals.values[totals.metric.index(name)] if name in totals.metric else None


def test_disks_and_shares_of_the_jobs_hosts_add_up(ring):
    """Other hosts' disks are not the job's."""
    for entity, speed in (("a:nvme0n1", 100), ("a:nvme1n1", 50), ("b:nvme0n1", 10), ("c:nvme0n1", 9999)):
        put(ring, "host_disk_read_bytes_total", entity, lambda t, s=speed: s * t)
    put(ring, "host_share_read_bytes_total", "a:nas_/data", lambda t: 1000 * t)
    put(ring, "host_disk_write_bytes_total", "a:nvme0n1", lambda t: 0 if t < 15 else 500 * (t - 15))
    read, write = row(ring, "job_disk_read_bytes_per_s"), row(ring, "job_disk_write_bytes_per_s")
    assert read is not None
    assert read[1:] == pytest.approx(1160.0)
    assert write is not None
    assert write[5] == 0.0
    assert write[-1] == 500.0


def test_a_disk_that_comes_with_its_history_is_no_burst(ring):
    """A disk that appears shows all that it ever read; only what is read from then on counts."""
    put(ring, "host_disk_read_bytes_total", "a:nvme0n1", lambda t: 100 * t)
    key = SeriesKey("host_disk_read_bytes_total", "b:rbd0")
    ring.append(SampleBatch.of([(key, float(t), 9e15 + 7 * t) for t in range(20, N)]))
    read = row(ring, "job_disk_read_bytes_per_s")
    assert read is not None
    assert np.nanmax(read) == pytest.approx(107.0)


def test_processor_use_is_a_mean_over_hosts(ring):
    for host, busy in (("a", 0.5), ("b", 0.1), ("c", 1.0)):
        put(ring, "node_cpu_busy_seconds_total", host, lambda t, b=busy: 64 * b * t)
        put(ring, "node_cpu_idle_seconds_total", host, lambda t, b=busy: 64 * (0.9 - b) * t)
        put(ring, "node_cpu_iowait_seconds_total", host, lambda t: 64 * 0.1 * t)
    use = row(ring, "job_cpu_busy_ratio")
    assert use is not None
    assert use[1:] == pytest.approx(0.3)


def test_without_a_host_exporter_there_is_no_row(ring):
    """Nothing known is no row of zeros."""
    assert row(ring, "job_disk_read_bytes_per_s") is None
    put(ring, "node_cpu_busy_seconds_total", "a", lambda t: t)
    assert row(ring, "job_cpu_busy_ratio") is None


def test_a_shared_hosts_reads_count_by_the_jobs_share(ring):
    put(ring, "host_disk_read_bytes_total", "a:nvme0n1", lambda t: 100 * t)
    sightings = tuple(
        Sighting(GpuId("a", f"G{i}"), 1.0, JobId("slurm", "1" if i == 1 else "2"), sharers=1) for i in range(1, 5)
    )
    ring.append(SampleBatch((), *(np.empty(0, d) for d in (np.int32, float, float, np.uint8)), sightings=sightings))
    assert any(isinstance(one, Allocation) for one in ring.allocations(float(N), 100.0))
    shared = JobView(JOB.job, ("a",), (GpuId("a", "G1"),), 0.0, float(N - 1), shared=True)
    read = row(ring, "job_disk_read_bytes_per_s", shared)
    assert read is not None
    assert read[1:] == pytest.approx(25.0)
