"""What the service tells of fields that are absent or stand still, and what doctor advises."""

from __future__ import annotations

from dataclasses import replace

import pytest

from api.cli.doctor import _counters
from api.readiness import missing_fields
from features.frame import JobFrame
from features.ring import Ring
from features.transforms.jobs import job_frame
from telemetry.ids import GpuId, JobId, SeriesKey
from telemetry.jobs import JobView
from telemetry.samples import SampleBatch


@pytest.fixture
def frame() -> JobFrame:
    ring = Ring(100.0)
    key = SeriesKey("gpu_power_watts", "n:G")
    ring.append(SampleBatch.of([(key, float(t), 300.0 + t) for t in range(20)]))
    return job_frame(ring, JobView(JobId("slurm", "1"), ("n",), (GpuId("n", "G"),), 0.0, 19.0), now_s=19.0, window_s=60)


def test_absent_fields_say_what_they_cost(frame):
    """A field that nobody gives costs forecasts, and the sentence says which."""
    told = missing_fields([frame])
    assert "gpu_power_watts" not in told
    assert "phases of an iteration" in told["gpu_sm_active_ratio"]


def test_a_field_that_stands_still_on_some_devices_is_told_although_others_give_it(frame):
    told = missing_fields([replace(frame, frozen={"gpu_power_watts": "n:G: stood"})] * 2)
    assert told["gpu_power_watts"].startswith("readings that stand still are left out: n:G: stood; there is")
    assert told["gpu_power_watts"].count("n:G: stood") == 1


def test_doctor_gives_counters_lines_for_absent_fields_only():
    """A field that is printed and stands still needs no line."""
    lines = _counters({"gpu_sm_active_ratio": "no sample came", "gpu_dram_active_ratio": "readings that stand still"})
    assert [line.strip().partition(",")[0] for line in lines if line.startswith("  ")] == ["DCGM_FI_PROF_SM_ACTIVE"]
    assert _counters({"job_fabric_tx_bytes_per_s": "no NIC"}) == []
