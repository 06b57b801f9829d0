"""Pages -> batches: rules that the field cases do not show."""

from __future__ import annotations

import numpy as np

from collectors.entities import Place, host_of
from collectors.exposition import PageParser
from collectors.fields import FieldMapper
from telemetry.ids import GpuId, SeriesKey
from telemetry.samples import Problem, Reason, SampleBatch, validate_batch

CARD = 'UUID="GPU-1",hostname="n1"'


class Target:
    """One target's parser and mapper together."""

    def __init__(self, **place: str) -> None:
        self._parser = PageParser()
        self.mapper = FieldMapper("http://t", Place(**place))

    def read(self, text: str, at_s: float = 100.0) -> SampleBatch:
        batch = self.mapper.batch(self._parser.parse(text.encode()), at_s)
        validate_batch(batch)
        return batch


def value(batch: SampleBatch, metric: str, entity: str) -> float:
    return float(batch.value[batch.keys.index(SeriesKey(metric, entity))])


def problems(batch: SampleBatch) -> dict[Problem, int]:
    return {f.problem: f.count for f in batch.findings}


def test_the_keys_are_one_object_while_the_layout_stays():
    target = Target()
    first = target.read(f"DCGM_FI_DEV_POWER_USAGE{{{CARD}}} 70\n")
    second = target.read(f"DCGM_FI_DEV_POWER_USAGE{{{CARD}}} 71.5\n", 101.0)
    assert second.keys is first.keys
    assert (second.value.tolist(), second.at_s.tolist()) == ([71.5], [101.0])
    owned = target.read(f'DCGM_FI_DEV_POWER_USAGE{{{CARD},pod="p-0",namespace="a"}} 72\n')
    assert owned.keys is first.keys  # another owner, the same series


def test_units_are_the_catalogues():
    text = f"DCGM_FI_DEV_FB_USED{{{CARD}}} 4\nDCGM_FI_DEV_SM_CLOCK{{{CARD}}} 1980\nDCGM_FI_DEV_GPU_UTIL{{{CARD}}} 98\n"
    batch = Target().read(text)
    assert value(batch, "gpu_memory_used_bytes", "n1:GPU-1") == 4 * 1024**2
    assert value(batch, "gpu_sm_clock_hertz", "n1:GPU-1") == 1.98e9
    assert value(batch, "gpu_util_ratio", "n1:GPU-1") == 0.98


def test_unknown_families_are_told_of_once():
    target = Target()
    text = f"other_a 1\nother_a 2\nother_b 1\nDCGM_FI_DEV_POWER_USAGE{{{CARD}}} 70\n"
    assert problems(target.read(text)) == {Problem.UNKNOWN_METRIC: 2}
    assert problems(target.read(text)) == {}
    assert problems(target.read(text + "other_c 1\n")) == {Problem.UNKNOWN_METRIC: 1}


def test_the_node_comes_from_labels_then_the_target_then_its_url():
    line = 'DCGM_FI_DEV_POWER_USAGE{UUID="GPU-1"} 70\n'
    assert Target(node="mine", fallback="host").read(line).keys[0].entity == "mine:GPU-1"
    assert Target(fallback="host").read(line).keys[0].entity == "host:GPU-1"
    own = Target(node="mine").read(f"DCGM_FI_DEV_POWER_USAGE{{{CARD}}} 70\n")
    assert own.keys[0].entity == "n1:GPU-1"
    pod = 'DCGM_FI_DEV_POWER_USAGE{UUID="GPU-1",Hostname="dcgm-exporter-x7k2p"} 70\n'
    assert Target(node="mine").read(pod).keys[0].entity == "mine:GPU-1"
    nowhere = Target().read(line)
    assert problems(nowhere) == {Problem.NO_NODE: 1}


def test_a_nic_takes_its_hosts_name_from_the_page():
    line = 'node_infiniband_port_data_transmitted_bytes_total{device="mlx5_0",port="1"} 5\n'
    named = Target(fallback="10.0.0.1").read('node_uname_info{nodename="n7"} 1\n' + line)
    assert named.keys[0].entity == "n7:mlx5_0:1"
    assert Target(node="mine").read('node_uname_info{nodename="n7"} 1\n' + line).keys[0].entity == "mine:mlx5_0:1"
    assert Target(fallback="10.0.0.1").read(line).keys[0].entity == "10.0.0.1:mlx5_0:1"


def test_a_switch_port_is_named_by_the_switch():
    line = 'infiniband_switch_port_transmit_data_bytes_total{guid="0x1",port="3",switch="leaf1"} 5\n'
    assert Target(fallback="x").read(line).keys[0].entity == "leaf1:3"


def test_hosts_on_loopback_stay_apart_by_port():
    assert host_of("127.0.0.1:9400") == "127.0.0.1_9400"
    assert host_of("http://localhost:80/metrics") == "localhost_80"
    assert host_of("http://10.0.0.1:9400/metrics") == "10.0.0.1"
    assert host_of("node-01") == "node-01"
    assert host_of("[fd00::1]:9400") == "fd00__1"


def test_twice_the_same_device_with_different_numbers_is_told():
    batch = Target().read(f'DCGM_FI_DEV_POWER_USAGE{{{CARD}}} 70\nDCGM_FI_DEV_POWER_USAGE{{{CARD},x="1"}} 90\n')
    assert problems(batch)[Problem.DUPLICATE_SERIES] == 1
    assert batch.value.tolist() == [70.0]


def test_the_devices_own_line_wins_over_its_pods():
    """From exporter 4.8 on GPU_UTIL has a device line beside true per-pod values."""
    text = "".join(
        f"DCGM_FI_DEV_GPU_UTIL{{{CARD}{extra}}} {number}\n"
        for extra, number in ((',pod="a-0",namespace="x",vgpu="0"', 30), ("", 50), (',pod="b-0",namespace="x"', 20))
    )
    batch = Target().read(text)
    assert value(batch, "gpu_util_ratio", "n1:GPU-1") == 0.5
    assert value(batch, "workload_gpu_util_ratio", "n1:GPU-1@x/a-0") == 0.3
    assert value(batch, "workload_gpu_util_ratio", "n1:GPU-1@x/b-0") == 0.2
    assert len(batch) == 3
    assert Problem.DUPLICATE_SERIES not in problems(batch)
    assert {s.sharers for s in batch.sightings} == {2}


def test_kinds_of_a_window_count_are_added_and_repeats_are_not():
    text = "".join(
        f'DCGM_EXP_XID_ERRORS_COUNT{{{CARD},xid="{xid}",vgpu="{vgpu}"}} {n}\n'
        for xid, vgpu, n in ((31, 0, 2), (31, 1, 2), (43, 0, 1), (43, 1, 1))
    )
    batch = Target().read(text + f"DCGM_FI_DEV_POWER_USAGE{{{CARD}}} 70\n")
    assert value(batch, "gpu_xid_window_count", "n1:GPU-1") == 3
    assert value(batch, "gpu_power_watts", "n1:GPU-1") == 70


def test_old_exporters_zero_on_a_mig_instance_is_missing():
    mig = f'{CARD},GPU_I_ID="7"'
    batch = Target().read(f"DCGM_FI_DEV_GPU_UTIL{{{mig}}} 0\nDCGM_FI_PROF_GR_ENGINE_ACTIVE{{{mig}}} 0.9\n")
    assert batch.reason.tolist() == [Reason.NOT_MEASURED, Reason.OK]
    assert batch.keys[1].entity == "n1:GPU-1~7"
    assert [s.gpu for s in batch.sightings] == [GpuId("n1", "GPU-1", "7")]


def test_first_zeros_are_missing_until_the_page_moves():
    def page(nvlink: int, watts: int) -> str:
        return f"DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL{{{CARD}}} {nvlink}\nDCGM_FI_DEV_POWER_USAGE{{{CARD}}} {watts}\n"

    target = Target()
    assert target.read(page(0, 70)).reason.tolist() == [Reason.FIRST_READING, Reason.OK]
    assert target.read(page(0, 70)).reason.tolist() == [Reason.FIRST_READING, Reason.OK]
    assert target.read(page(0, 71)).reason.tolist() == [Reason.OK, Reason.OK]
    target.mapper.restart()
    assert target.read(page(0, 71)).reason.tolist() == [Reason.FIRST_READING, Reason.OK]


def test_a_port_that_comes_up_has_numbers_again():
    def page(state: int) -> str:
        return (
            f'node_infiniband_state_id{{device="m",port="1"}} {state}\n'
            'node_infiniband_port_data_received_bytes_total{device="m",port="1"} 9\n'
        )

    target = Target(fallback="h")
    assert np.isnan(value(target.read(page(1)), "port_rx_bytes_total", "h:m:1"))
    assert value(target.read(page(4)), "port_rx_bytes_total", "h:m:1") == 9


def test_own_timestamps_are_kept():
    line = f"DCGM_FI_DEV_POWER_USAGE{{{CARD}}} 70 1767225600000\n"
    batch = Target().read(line, 5.0)
    assert batch.at_s.tolist() == [1767225600.0]
    assert batch.sightings[0].at_s == 1767225600.0


def test_an_empty_page_is_an_empty_batch():
    batch = Target().read("# nothing\n")
    assert len(batch) == 0
