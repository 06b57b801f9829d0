"""Three generations of dcgm-exporter and AMD's exporter speak of the same quantities."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from collectors.entities import Place
from collectors.exposition import PageParser
from collectors.fields import FieldMapper
from telemetry.catalogue import BY_NAME, PROFILED, SOURCES_OF, canonical_field, left_out, meaning_of
from telemetry.ids import JobId, SeriesKey
from telemetry.samples import Problem, Reason, SampleBatch, validate_batch

CARD = 'UUID="GPU-1",hostname="n1"'
AMD = 'gpu_id="0",gpu_uuid="u1",hostname="mi1"'
# Field of the middle generation, of the newest one, of the 1.x exporters; what it is called with us.
GENERATIONS = [
    ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO", "dcgm_fi_prof_gr_engine_active"),
    ("DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_PROF_SM_UTIL_RATIO", "dcgm_fi_prof_sm_active"),
    ("DCGM_FI_PROF_SM_OCCUPANCY", "DCGM_FI_PROF_SM_OCCUPANCY_RATIO", "dcgm_fi_prof_sm_occupancy"),
    ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_PROF_TENSOR_UTIL_RATIO", "dcgm_fi_prof_pipe_tensor_active"),
    ("DCGM_FI_PROF_DRAM_ACTIVE", "DCGM_FI_PROF_DRAM_UTIL_RATIO", "dcgm_fi_prof_dram_active"),
    ("DCGM_FI_PROF_PIPE_FP64_ACTIVE", "DCGM_FI_PROF_FP64_UTIL_RATIO", "dcgm_fi_prof_pipe_fp64_active"),
    ("DCGM_FI_PROF_PIPE_FP32_ACTIVE", "DCGM_FI_PROF_FP32_UTIL_RATIO", "dcgm_fi_prof_pipe_fp32_active"),
    ("DCGM_FI_PROF_PIPE_FP16_ACTIVE", "DCGM_FI_PROF_FP16_UTIL_RATIO", "dcgm_fi_prof_pipe_fp16_active"),
    ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_UTIL_RATIO", "dcgm_gpu_utilization"),
    ("DCGM_FI_DEV_FB_USED", "", "dcgm_fb_used"),
    ("DCGM_FI_DEV_FB_USED_PERCENT", "DCGM_FI_DEV_FB_USED_RATIO", ""),
    ("DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_BOARD_POWER_WATTS", "dcgm_power_usage"),
    ("DCGM_FI_DEV_POWER_USAGE_INSTANT", "DCGM_FI_DEV_BOARD_POWER_RAW_WATTS", ""),
    ("DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_TEMP_CELSIUS", "dcgm_gpu_temp"),
    ("DCGM_FI_DEV_MEMORY_TEMP", "DCGM_FI_DEV_MEMORY_TEMP_CELSIUS", "dcgm_memory_temp"),
    ("DCGM_FI_DEV_SM_CLOCK", "", "dcgm_sm_clock"),
    ("DCGM_FI_DEV_MEM_CLOCK", "", "dcgm_memory_clock"),
    ("DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_XID_ERROR", "dcgm_xid_errors"),
    ("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "DCGM_FI_DEV_NVLINK_THROUGHPUT_TOTAL", "dcgm_nvlink_bandwidth_total"),
    ("DCGM_FI_DEV_NVLINK_BANDWIDTH_L0", "DCGM_FI_DEV_NVLINK_THROUGHPUT_L0", ""),
    ("DCGM_FI_DEV_NVLINK_COUNT_TX_BYTES", "DCGM_FI_DEV_NVLINK_TX_BYTES_TOTAL", ""),
    ("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "DCGM_FI_DEV_PCIE_REPLAY_TOTAL", "dcgm_pcie_replay_counter"),
    ("DCGM_FI_DEV_ROW_REMAP_FAILURE", "DCGM_FI_DEV_ROW_REMAP_FAILED", ""),
    ("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "DCGM_FI_DEV_ROW_REMAP_CORRECTABLE_TOTAL", ""),
    ("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "DCGM_FI_DEV_ROW_REMAP_UNCORRECTABLE_TOTAL", ""),
    ("DCGM_FI_PROF_PIPE_INT_ACTIVE", "DCGM_FI_PROF_INT_UTIL_RATIO", ""),
]


def read(text: str, at_s: float = 100.0, mapper: FieldMapper | None = None) -> SampleBatch:
    batch = (mapper or FieldMapper("page", Place(fallback="n1"))).batch(PageParser().parse(text.encode()), at_s)
    validate_batch(batch)
    return batch


def values(batch: SampleBatch) -> dict[tuple[str, str], float]:
    pairs = zip(batch.series.tolist(), batch.value.tolist(), strict=True)
    return {(batch.keys[i].metric, batch.keys[i].entity): v for i, v in pairs}


def reason(batch: SampleBatch, metric: str, entity: str) -> Reason:
    (row,) = np.flatnonzero(batch.series == batch.keys.index(SeriesKey(metric, entity)))
    return Reason(int(batch.reason[row]))


@pytest.mark.parametrize("names", GENERATIONS, ids=lambda names: names[0])
def test_every_generations_name_means_the_same_in_the_same_unit(names):
    """A rename changes neither the metric nor the scale."""
    label = {"old": "uuid", "new": "UUID"}
    seen = []
    for name in filter(None, names):
        old = name.startswith("dcgm_")
        host = "" if old else ',hostname="n1"'
        text = f'{name}{{gpu="0",{label["old" if old else "new"]}="GPU-1"{host}}} 0.5\n{name}_x 1\n'
        mapper = FieldMapper("page", Place(fallback="n1"))
        read(text.replace(" 0.5", " 0.25"), 99.0, mapper)
        seen.append(values(read(text, 100.0, mapper)))
    assert seen[0]
    assert all(one == seen[0] for one in seen)


def test_no_field_means_two_things_at_once():
    """Where a field has several meanings, a label tells them apart."""
    for field, meanings in SOURCES_OF.items():
        if len(meanings) > 1:
            assert all(source.only for _, source in meanings), field
    assert len({metric.name for metric in BY_NAME.values()}) == len(BY_NAME)


def test_profiled_metrics_are_those_of_the_profiling_module():
    assert {"gpu_sm_active_ratio", "gpu_dram_active_ratio", "gpu_pcie_tx_bytes_per_s"} <= PROFILED
    assert not {"gpu_util_ratio", "gpu_power_watts", "gpu_memory_used_bytes"} & PROFILED


def test_single_nvlinks_by_label_and_by_name_are_lanes_of_the_card():
    """One link has one name whichever way the exporter tells it; it is no device of its own."""
    text = (
        'DCGM_FI_PROF_NVLINK_TX_BYTES_PER_LINK{gpu_uuid="GPU-1",hostname="n1",nvlink="3"} 5e9\n'
        f"DCGM_FI_PROF_NVLINK_L4_TX_BYTES{{{CARD}}} 6e9\n"
        f"DCGM_FI_DEV_NVLINK_BANDWIDTH_L17{{{CARD}}} 2000\n"
    )
    assert values(read(text)) == {
        ("lane_tx_bytes_per_s", "n1:GPU-1:nvlink3"): 5e9,
        ("lane_tx_bytes_per_s", "n1:GPU-1:nvlink4"): 6e9,
        ("lane_bytes_per_s", "n1:GPU-1:nvlink17"): 2000 * 1_024_000,
    }
    nowhere = read('DCGM_FI_PROF_NVLINK_TX_BYTES_PER_LINK{gpu_uuid="GPU-1",hostname="n1"} 5e9\n')
    assert len(nowhere) == 0
    assert nowhere.findings


def test_totals_of_events_add_their_kinds():
    text = "".join(f'DCGM_EXP_XID_ERRORS_TOTAL{{{CARD},xid="{xid}"}} {n}\n' for xid, n in ((31, 4), (43, 1)))
    assert values(read(text)) == {("gpu_xid_total", "n1:GPU-1"): 5.0}


def test_throttling_counts_nanoseconds():
    assert values(read(f"DCGM_FI_DEV_POWER_VIOLATION{{{CARD}}} 2500000000\n")) == {
        ("gpu_power_throttle_seconds_total", "n1:GPU-1"): 2.5
    }


def test_processes_of_one_pod_are_added_to_the_pods_own_part():
    """Per-process lines stand beside the device's own line; the device counts once."""
    text = f"DCGM_FI_DEV_FB_USED{{{CARD}}} 100\n" + "".join(
        f'DCGM_FI_DEV_FB_USED{{{CARD},namespace="x",pod="a-0",pod_uid="7",pid="{pid}"}} {mib}\n'
        for pid, mib in ((1, 30), (2, 20))
    )
    assert values(read(text)) == {
        ("gpu_memory_used_bytes", "n1:GPU-1"): 100 * 2**20,
        ("workload_memory_used_bytes", "n1:GPU-1@x/a-0"): 50 * 2**20,
    }


@pytest.mark.parametrize("prefix", ["", "amd_", "site_7_"])
def test_amd_units_and_prefixes(prefix):
    """Percent, micro joules, MB, megabits and kilobytes come out in our units, under any prefix."""
    text = "".join(
        f"{prefix}{name}{{{AMD}{more}}} {number}\n"
        for name, more, number in (
            ("gpu_gfx_activity", "", 96),
            ("gpu_umc_activity", "", 25),
            ("gpu_prof_occupancy_percent", "", 40),
            ("gpu_package_power", "", 702),
            ("gpu_energy_consumed", "", 8.5e13),
            ("gpu_used_vram", "", 1024),
            ("gpu_clock", ',clock_type="GPU_CLOCK_TYPE_SYSTEM",clock_index="0"', 2100),
            ("gpu_clock", ',clock_type="GPU_CLOCK_TYPE_SYSTEM",clock_index="1"', 1900),
            ("gpu_clock", ',clock_type="GPU_CLOCK_TYPE_MEMORY"', 1300),
            ("pcie_bandwidth", "", 512),
            ("gpu_xgmi_link_tx", ',link_index="2"', 1000),
        )
    )
    batch = read(text)
    assert values(batch) == {
        ("gpu_util_ratio", "mi1:u1"): 0.96,
        ("gpu_mem_copy_util_ratio", "mi1:u1"): 0.25,
        ("gpu_sm_occupancy_ratio", "mi1:u1"): pytest.approx(0.4),
        ("gpu_power_watts", "mi1:u1"): 702.0,
        ("gpu_energy_joules_total", "mi1:u1"): pytest.approx(8.5e7),
        ("gpu_memory_used_bytes", "mi1:u1"): 1024 * 2**20,
        ("gpu_sm_clock_hertz", "mi1:u1"): 2.1e9,
        ("gpu_mem_clock_hertz", "mi1:u1"): 1.3e9,
        ("gpu_pcie_bytes_per_s", "mi1:u1"): 64e6,
        ("lane_tx_bytes_total", "mi1:u1:xgmi2"): 1000 * 1024,
    }
    assert {f.problem for f in batch.findings} == {Problem.OWNER_UNKNOWN}


def test_names_like_amds_from_elsewhere_are_not_taken_for_amds():
    """Without a GPU id a family of the same name is somebody else's."""
    assert meaning_of("gpu_clock", {"uuid": "x"}) is None
    assert left_out("gpu_clock")
    assert canonical_field("my_gpu_gfx_activity_avg") == "my_gpu_gfx_activity_avg"
    assert canonical_field("_" * 10**6) == "_" * 10**6


def test_an_amd_partitions_zero_is_not_measured():
    """Power and activity belong to partition 0; the others' zeros say nothing, and their jobs are their own."""
    lines = [
        f'gpu_gfx_activity{{{AMD},gpu_partition_id="0",job_id="7"}} 96\n',
        f'gpu_gfx_activity{{{AMD},gpu_partition_id="1"}} 0\n',
        f'gpu_used_vram{{{AMD},gpu_partition_id="1"}} 0\n',
        f'gpu_used_vram{{{AMD},gpu_partition_id="2"}} 5\n',
        f'gpu_package_power{{{AMD},gpu_partition_id="1"}} 0\n',
    ]
    batch = read("".join(lines))
    assert values(batch)[("gpu_util_ratio", "mi1:u1")] == 0.96
    assert reason(batch, "gpu_memory_used_bytes", "mi1:u1~1") is Reason.NOT_MEASURED
    assert values(batch)[("gpu_memory_used_bytes", "mi1:u1~2")] == 5 * 2**20
    assert reason(batch, "gpu_power_watts", "mi1:u1") is Reason.NOT_MEASURED
    assert {str(s.gpu): s.job for s in batch.sightings}["mi1:u1"] == JobId("slurm", "7")
    alone = read(lines[1])
    assert reason(alone, "gpu_util_ratio", "mi1:u1") is Reason.NOT_MEASURED


def test_an_amd_card_without_uuid_is_known_by_its_serial_number():
    batch = read('gpu_gfx_activity{gpu_id="0",serial_number="S1",hostname="mi1"} 50\n')
    assert batch.keys[0].entity == "mi1:S1"


def test_two_names_for_amd_power_are_no_contradiction():
    """Where an exporter prints power twice, the better name is kept and nothing is wrong."""
    batch = read(f"gpu_power_usage{{{AMD}}} 690\ngpu_package_power{{{AMD}}} 702\n")
    assert values(batch) == {("gpu_power_watts", "mi1:u1"): 702.0}
    assert Problem.DUPLICATE_SERIES not in {f.problem for f in batch.findings}


@pytest.mark.shared
def test_recorded_pages_of_the_generations(shared_dir: Path):
    """The recorded pages give what they show, whatever generation wrote them."""

    def page(name: str) -> SampleBatch:
        return read((shared_dir / "formats/samples" / f"{name}.prom").read_text(), 0.0)

    old = values(page("dcgm_1x_names"))
    assert old[("gpu_util_ratio", "n1:GPU-a0000000-0000-4000-8000-000000000000")] == 0.98
    links = page("dcgm_exp_and_links")
    assert values(links)[("lane_tx_bytes_per_s", "node-a1:GPU-a0000000-0000-4000-8000-000000000000:nvlink1")] == (
        12001 * 1_024_000
    )
    assert values(links)[("host_socket_util_ratio", "node-a1:socket0")] == 0.27
    assert values(links)[("gpu_xid_window_count", "node-a1:GPU-a0000000-0000-4000-8000-000000000000")] == 2
    assert not [f for f in links.findings if f.problem is Problem.UNKNOWN_METRIC]
    mig = values(page("dcgm_mig"))
    assert sum(metric == "gpu_power_watts" for metric, _ in mig) == 1
    assert {e.rpartition("~")[2]: v for (m, e), v in mig.items() if m == "gpu_gr_engine_active_ratio"} == {
        "1": 0.93,
        "5": 0.12,
        "13": 0.0,
    }
    amd = page("amd_gpu")
    assert {s.job for s in amd.sightings if s.job} == {JobId("slurm", "8123")}
    assert values(amd)[("gpu_energy_joules_total", "mi300-1:1aff0000-0000-4000-8000-000000000001")] == pytest.approx(
        8.123456789e7
    )
    newer = {key.entity.partition(":")[0] for key in page("dcgm_older_Hostname").keys}
    assert newer == {"node-a1"}
