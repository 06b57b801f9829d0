"""Views over devices count a card once and say what is an estimate."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from features.ring import Ring
from features.transforms.devices import (
    JobPower,
    activity_by_device,
    energy_power_watts,
    idle_devices,
    job_power,
    known_devices,
    mean_over,
    newest_by_device,
    node_power_watts,
    once_per_card,
    owners_now,
    sum_per_card,
    sum_per_node,
    unallocated,
    workload_points,
)
from telemetry.ids import GpuId, JobId, SeriesKey
from telemetry.jobs import Allocation
from telemetry.samples import SampleBatch

T_S = 1_767_225_600.0
MIB = 1024.0**2


def _gpus(node: str, count: int) -> list[GpuId]:
    return [GpuId(node, f"GPU-a000000{i}-0000-4000-8000-00000000000{i}") for i in range(count)]


def test_slices_repeat_their_cards_figure_and_add_up_their_own():
    """Power is the card's, memory is each slice's."""
    slices = {GpuId("n", "G", "7"): 300.0, GpuId("n", "G", "9"): 300.1, GpuId("n", "H"): 50.0}
    assert once_per_card(slices) == {GpuId("n", "G"): 300.1, GpuId("n", "H"): 50.0}
    assert sum_per_node(sum_per_card(slices)) == {"n": pytest.approx(650.1)}


def test_power_of_a_job_is_certain_shared_or_unread():
    """Own cards count in full, shared ones in parts, and cards without a reading are counted as such."""
    a, b = JobId("slurm", "1"), JobId("slurm", "2")
    g, h, k = GpuId("n", "G"), GpuId("n", "H"), GpuId("n", "K")
    allocations = [
        Allocation(a, g, 0.0),
        Allocation(a, h, 0.0, sharers=2),
        Allocation(b, h, 0.0, sharers=2),
        Allocation(a, k, 0.0),
        Allocation(b, g, 0.0, to_s=5.0),
    ]
    powers = job_power({g: 100.0, h: 60.0}, allocations)
    assert powers == {a: JobPower(100.0, 30.0, 1, 1), b: JobPower(0.0, 30.0, 1, 0)}
    assert powers[a].watts == 130.0


def test_means_without_values_are_missing():
    """The mean over nothing is not 0."""
    assert math.isnan(mean_over({}))
    assert math.isnan(mean_over({GpuId("n", "G"): 1.0}, [GpuId("n", "H")]))


@pytest.mark.shared
def test_field_case_of_pods_coming_and_going(answer_batch, shared_dir: Path):
    """Three label sets are one GPU without a gap, and each workload keeps its own points."""
    path = shared_dir / "cases/05-pod-label-churn-one-gpu/query_range.json"
    batch = answer_batch(path, ("DCGM_FI_DEV_GPU_UTIL",))
    ring = Ring(3600.0)
    ring.append(batch)
    assert len(known_devices(ring)) == 1
    (device,) = ring.read(ring.keys(["gpu_util_ratio"]), T_S + 660, 660)
    np.testing.assert_array_equal(device.at_s, T_S + 60 * np.arange(12))
    percent = np.round(device.value * 100)
    assert percent[6] in (88, 89, 90)
    assert np.delete(percent, 6).tolist() == [0, 0, 0, 0, 85, 87, 91, 89, 0, 0, 0]
    assert percent.max() == 91
    points = workload_points(batch.sightings, device)
    train, infer = points["team-a/train-0"], points["team-b/infer-7"]
    np.testing.assert_array_equal(train.at_s, T_S + np.array([240, 300, 360]))
    np.testing.assert_array_equal(infer.at_s, T_S + np.array([360, 420, 480]))
    allocated = {sighting.at_s for sighting in batch.sightings if sighting.job}
    assert sorted(int((at_s - T_S) / 60) for at_s in allocated) == [4, 5, 6, 7, 8]


@pytest.mark.shared
def test_field_case_of_time_slicing(page_batch, shared_dir: Path):
    """Four pods on one card draw its power once; each pod's part is an estimate."""
    ring = Ring(3600.0)
    ring.append(page_batch(shared_dir / "cases/06-time-slicing-duplicate-values/metrics.prom", T_S))
    shared_gpu, own_gpu = _gpus("node-c1", 2)
    assert known_devices(ring) == [shared_gpu, own_gpu]
    assert node_power_watts(ring, T_S, 60) == {"node-c1": pytest.approx(123.512)}
    assert newest_by_device(ring, "gpu_memory_used_bytes", T_S, 60)[shared_gpu] == 12288 * MIB
    assert mean_over(activity_by_device(ring, T_S, 60)) == pytest.approx(0.482)
    allocations = ring.allocations(T_S, 60)
    owners = owners_now(allocations)
    assert [job.name.partition(":")[2] for job in owners[shared_gpu]] == ["share-a", "share-b", "share-c", "share-d"]
    powers = job_power(newest_by_device(ring, "gpu_power_watts", T_S, 60), allocations)
    solo = powers[JobId("kubernetes", "default:solo-1")]
    assert (solo.certain_watts, solo.shared_cards) == (pytest.approx(55.1), 0)
    part = powers[JobId("kubernetes", "default:share-a")]
    assert (part.certain_watts, part.shared_watts, part.shared_cards) == (0.0, pytest.approx(17.103), 1)


@pytest.mark.shared
def test_field_case_of_mig_slices(page_batch, shared_dir: Path):
    """Energy counts once per card, activity and memory per slice, and utilisation of a sliced card is missing."""
    folder = shared_dir / "cases/07-mig-instances-shared-energy"
    ring = Ring(3600.0)
    ring.append(page_batch(folder / "scrape_t0.prom", T_S))
    ring.append(page_batch(folder / "scrape_t60.prom", T_S + 60))
    sliced, whole = _gpus("node-d1", 2)
    powers = energy_power_watts(ring, T_S + 60, 60)
    assert powers == {sliced: pytest.approx(300, abs=1), whole: pytest.approx(250)}
    assert sum_per_node(powers)["node-d1"] == pytest.approx(550, abs=1)
    devices = known_devices(ring)
    assert [gpu.mig for gpu in devices] == ["11", "7", "8", "9", ""]
    assert len({gpu.card for gpu in devices}) == 2
    activity = activity_by_device(ring, T_S + 60, 60)
    assert {gpu.mig: value for gpu, value in activity.items() if gpu.mig} == {"7": 0.95, "8": 0.0, "9": 0.4, "11": 0.0}
    assert activity[whole] == pytest.approx(0.63)
    assert list(newest_by_device(ring, "gpu_util_ratio", T_S + 60, 60)) == [whole]
    assert sorted(gpu.mig for gpu in idle_devices(activity)) == ["11", "8"]
    memory = sum_per_card(newest_by_device(ring, "gpu_memory_used_bytes", T_S + 60, 60))
    assert memory == {sliced: 12524 * MIB, whole: 61000 * MIB}


@pytest.mark.shared
def test_field_case_of_jobs_sharing_a_gpu(page_batch, shared_dir: Path):
    """Lines per job count once per card, idle cards stay, and a shared card's power is split as an estimate."""
    ring = Ring(3600.0)
    ring.append(page_batch(shared_dir / "cases/09-hpc-job-shared-gpu/metrics.prom", T_S))
    cards = _gpus("slurm-01", 4)
    assert node_power_watts(ring, T_S, 60) == {"slurm-01": pytest.approx(1350.25)}
    assert known_devices(ring) == cards
    allocations = ring.allocations(T_S, 60)
    owners = owners_now(allocations)
    first, second = JobId("slurm", "8123"), JobId("slurm", "8124")
    assert owners == {cards[0]: (first, second), cards[1]: (first,)}
    assert unallocated(cards, owners) == cards[2:]
    util = newest_by_device(ring, "gpu_util_ratio", T_S, 60)
    assert mean_over(util, owners) == pytest.approx(0.94)
    assert mean_over(util) == pytest.approx(0.47)
    power = job_power(newest_by_device(ring, "gpu_power_watts", T_S, 60), allocations)
    assert set(power) == {first, second}
    assert (power[first].certain_watts, power[first].shared_watts) == (598.25, 305.25)
    assert power[first].watts == 903.5
    assert power[first].shared_cards == power[second].shared_cards == 1


def test_a_card_with_slices_is_its_slices():
    """The card itself is no schedulable device beside its instances."""
    ring = Ring(60.0)
    rows = [
        (SeriesKey("gpu_power_watts", "n:G"), T_S, 300.0),
        (SeriesKey("gpu_gr_engine_active_ratio", "n:G~7"), T_S, 0.5),
    ]
    ring.append(SampleBatch.of(rows))
    assert known_devices(ring) == [GpuId("n", "G", "7")]
