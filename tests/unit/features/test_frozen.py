"""Profiling fields that stand still while their GPU works."""

from __future__ import annotations

import numpy as np
import pytest

from features.ring import Ring
from features.store.base import Series
from features.transforms.frozen import frozen_fields, frozen_notes, without_frozen
from features.transforms.jobs import job_frame
from telemetry.ids import GpuId, JobId, SeriesKey
from telemetry.jobs import JobView
from telemetry.samples import Reason, SampleBatch

N = 60
AT_S = np.arange(N) * 1.0 + 1000
GPU = GpuId("n", "G")


def make(metric: str, value: np.ndarray | float, entity: str = "n:G") -> Series:
    values = np.broadcast_to(np.asarray(value, float), (N,)).copy()
    reason = np.where(np.isnan(values), np.uint8(Reason.NOT_FINITE), np.uint8(0)).astype(np.uint8)
    return Series(SeriesKey(metric, entity), AT_S, values, reason, 0.0)


def waves(low: float, high: float) -> np.ndarray:
    return low + (high - low) * (0.5 + 0.5 * np.sin(np.arange(N) * 0.7))


POWER = make("gpu_power_watts", waves(200, 650))
UTIL = make("gpu_util_ratio", 0.98)
SWING = make("gpu_util_ratio", waves(0.2, 0.9))
IDLE = (make("gpu_power_watts", 71.0 + 0.1 * np.sin(np.arange(N))), make("gpu_util_ratio", 0.0))


@pytest.mark.parametrize("metric", ["gpu_gr_engine_active_ratio", "gpu_sm_active_ratio", "gpu_dram_active_ratio"])
def test_no_activity_at_all_while_kernels_run_is_frozen(metric):
    """A stopped profiling module prints 0; utilisation does not come from it."""
    (found,) = frozen_fields([make(metric, 0.0), POWER, UTIL])
    assert (found.key.metric, found.value, found.from_s, found.to_s) == (metric, 0.0, 1000.0, 1059.0)
    assert "0.98" in found.evidence
    assert metric in found.evidence


def test_an_idle_gpus_zeros_are_measurements():
    """Nothing runs, so nothing is active."""
    assert frozen_fields([make("gpu_sm_active_ratio", 0.0), make("gpu_dram_active_ratio", 0.0), *IDLE]) == []


def test_an_idle_gpus_last_digit_is_a_measurement():
    """An idle card prints a few millionths again and again while its power wanders; the same number at work is frozen."""
    wandering = (make("gpu_power_watts", waves(70, 120)), make("gpu_util_ratio", 0.0))
    assert frozen_fields([make("gpu_dram_active_ratio", 5e-6), *wandering]) == []
    (found,) = frozen_fields([make("gpu_dram_active_ratio", 5e-6), POWER, UTIL])
    assert found.key.metric == "gpu_dram_active_ratio"


def test_an_unused_pipe_is_rightly_zero_for_ever():
    """A job in bf16 never uses the FP64 pipe, and one GPU alone sends nothing over NVLink."""
    busy = make("gpu_sm_active_ratio", waves(0.3, 0.8))
    unused = [make(name, 0.0) for name in ("gpu_fp64_active_ratio", "gpu_nvlink_tx_bytes_per_s")]
    assert frozen_fields([busy, *unused, POWER, UTIL]) == []


def test_a_number_that_keeps_its_last_digit_while_power_swings_is_frozen():
    (found,) = frozen_fields([make("gpu_tensor_active_ratio", 0.412871), POWER, UTIL])
    assert "gpu_power_watts" in found.evidence
    (found,) = frozen_fields([make("gpu_tensor_active_ratio", 0.412871), SWING])
    assert "gpu_util_ratio" in found.evidence


def test_an_always_busy_engine_is_no_proof_unless_utilisation_falls():
    """Kernels of a collective keep the engine at exactly 1 while power swings."""
    engine = make("gpu_gr_engine_active_ratio", 1.0)
    assert frozen_fields([engine, POWER, UTIL]) == []
    assert len(frozen_fields([engine, POWER, make("gpu_util_ratio", waves(0.0, 0.5))])) == 1
    assert frozen_fields([make("gpu_sm_active_ratio", 1.0), POWER, make("gpu_util_ratio", waves(0.0, 0.5))]) == []


def test_once_the_module_stands_still_no_field_of_it_is_believed():
    """Zeros of pipes are condemned by the device's own activity, and only on that device."""
    other = [make("gpu_sm_active_ratio", waves(0.3, 0.8), "n:H"), make("gpu_fp64_active_ratio", 0.0, "n:H")]
    mine = [make("gpu_sm_active_ratio", 0.0), make("gpu_fp64_active_ratio", 0.0), make("gpu_memory_used_ratio", 0.5)]
    found = frozen_fields([*mine, *other, POWER, UTIL, make("gpu_util_ratio", 0.9, "n:H")])
    assert {(one.key.metric, one.key.entity) for one in found} == {
        ("gpu_sm_active_ratio", "n:G"),
        ("gpu_fp64_active_ratio", "n:G"),
    }


def test_a_slow_exporter_holds_all_its_fields_alike():
    """Between two refreshes nothing moves, power included: that is no proof."""
    held = np.repeat([0.5, 0.7], N // 2)
    watts = make("gpu_power_watts", np.repeat([300.0, 600.0], N // 2))
    assert frozen_fields([make("gpu_sm_active_ratio", held), watts, make("gpu_util_ratio", 0.9)]) == []


def test_only_the_stand_itself_is_left_out():
    """Readings before a profiler took the counters stay."""
    value = waves(0.3, 0.8)
    value[25:] = value[24]
    series = [make("gpu_sm_active_ratio", value), POWER, UTIL]
    found = frozen_fields(series)
    marked = without_frozen(series, found)
    assert np.isfinite(marked[0].value[:24]).all()
    assert np.isnan(marked[0].value[25:]).all()
    assert set(marked[0].reason[25:].tolist()) == {Reason.FROZEN}
    assert np.isfinite(series[0].value).all()
    assert marked[1] is series[1]


def test_without_witness_or_readings_nothing_is_told():
    assert frozen_fields([]) == []
    assert frozen_fields([make("gpu_sm_active_ratio", 0.5)]) == []
    assert frozen_fields([make("gpu_sm_active_ratio", np.nan), POWER, UTIL]) == []


def test_notes_name_one_device_and_count_the_others():
    fields = [make("gpu_sm_active_ratio", 0.0, f"n:G{i}") for i in range(3)]
    utils = [make("gpu_util_ratio", 0.9, f"n:G{i}") for i in range(3)]
    (note,) = frozen_notes(frozen_fields([*fields, *utils])).values()
    assert note.startswith("n:G0: gpu_sm_active_ratio stood at 0")
    assert note.endswith("2 more devices alike")


def test_a_job_frame_leaves_frozen_fields_out_and_says_why():
    """What is frozen is missing in the frame, with the proof beside it; the rest stays."""
    ring = Ring(1e4)
    for one in (make("gpu_sm_active_ratio", 0.0), POWER, UTIL):
        ring.append(SampleBatch.of([(one.key, t, v) for t, v in zip(one.at_s, one.value, strict=True)]))
    job = JobView(JobId("slurm", "1"), ("n",), (GPU,), 1000.0, 1059.0)
    frame = job_frame(ring, job, now_s=1059.0, window_s=60.0)
    assert "gpu_sm_active_ratio" not in frame.totals.metric
    assert "gpu_power_watts" in frame.totals.metric
    assert "repeat an old number" in frame.missing["gpu_sm_active_ratio"]
    assert "gpu_util_ratio was 0.98" in frame.frozen["gpu_sm_active_ratio"]
