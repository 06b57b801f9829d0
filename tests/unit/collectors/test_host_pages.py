"""Hosts: what a node_exporter page tells of processors, disks, shares and interfaces."""

from __future__ import annotations

import numpy as np
import pytest

from collectors.answer import read_answer
from collectors.entities import Place
from collectors.exposition import PageParser
from collectors.fields import FieldMapper
from collectors.series_map import SeriesMapper
from telemetry.samples import Problem, Reason, SampleBatch, validate_batch


def read(text: str, node: str = "n1") -> SampleBatch:
    batch = FieldMapper("page", Place(fallback=node)).batch(PageParser().parse(text.encode()), 100.0)
    validate_batch(batch)
    return batch


def values(batch: SampleBatch) -> dict[tuple[str, str], float]:
    pairs = zip(batch.series.tolist(), batch.value.tolist(), strict=True)
    return {(batch.keys[i].metric, batch.keys[i].entity): v for i, v in pairs}


def cpu(core: int, mode: str, seconds: float) -> str:
    return f'node_cpu_seconds_total{{cpu="{core}",mode="{mode}"}} {seconds}\n'


def test_cores_and_modes_are_added_into_work_idleness_and_waiting():
    """A line for each core and mode becomes three counters of the host."""
    times = {"user": 5.0, "system": 2.0, "nice": 1.0, "steal": 0.5, "idle": 90.0, "iowait": 4.0}
    text = "".join(cpu(core, mode, seconds) for core in (0, 1) for mode, seconds in times.items())
    assert values(read(text)) == {
        ("node_cpu_busy_seconds_total", "n1"): 17.0,
        ("node_cpu_idle_seconds_total", "n1"): 180.0,
        ("node_cpu_iowait_seconds_total", "n1"): 8.0,
    }


def test_disks_stay_apart_and_stacked_devices_are_left_out():
    """A volume of dm or md repeats the bytes of the disks below."""
    text = "".join(
        f'node_disk_read_bytes_total{{device="{device}"}} {n}\n'
        for device, n in (("nvme0n1", 10), ("sda", 20), ("dm-0", 30), ("md127", 30), ("loop3", 1), ("nvme0n1", 10))
    )
    batch = read(text)
    assert values(batch) == {
        ("host_disk_read_bytes_total", "n1:nvme0n1"): 10.0,
        ("host_disk_read_bytes_total", "n1:sda"): 20.0,
    }
    assert Problem.UNKNOWN_METRIC not in {f.problem for f in batch.findings}


def test_interfaces_of_pods_bonds_and_vlans_are_left_out():
    names = ("eth0", "ens1f0np0", "ib0", "lo", "veth12ab", "cali0", "docker0", "bond0", "eth0.100", "br-1", "cni0")
    text = "".join(f'node_network_transmit_bytes_total{{device="{name}"}} 7\n' for name in names)
    kept = {entity for _, entity in values(read(text))}
    assert kept == {"n1:eth0", "n1:ens1f0np0", "n1:ib0"}


def test_pause_frames_of_all_priorities_are_one_counter():
    text = "".join(f'node_ethtool_received_prio{i}_pause{{device="ens1f0"}} {i}\n' for i in range(8))
    text += 'node_ethtool_transmitted_prio3_pause{device="ens1f0"} 9\n'
    text += 'node_ethtool_received_discards_phy{device="ens1f0"} 4\n'
    assert values(read(text)) == {
        ("host_net_pause_rx_total", "n1:ens1f0"): 28.0,
        ("host_net_pause_tx_total", "n1:ens1f0"): 9.0,
        ("host_net_discards_rx_total", "n1:ens1f0"): 4.0,
    }


def test_shares_and_mounts_are_named_by_what_they_hold():
    text = (
        'node_mountstats_nfs_total_read_bytes_total{export="nas:/data",mountaddr="10.0.0.9",protocol="tcp"} 5\n'
        'node_mountstats_nfs_total_read_bytes_total{export="nas:/data",mountaddr="10.0.0.8",protocol="tcp"} 6\n'
        'node_filesystem_avail_bytes{device="/dev/sda1",fstype="ext4",mountpoint="/scratch"} 7\n'
        'node_filesystem_avail_bytes{device="tmpfs",fstype="tmpfs",mountpoint="/run"} 8\n'
        "node_memory_MemAvailable_bytes 9\nnode_load1 1.5\n"
    )
    assert values(read(text)) == {
        ("host_share_read_bytes_total", "n1:nas_/data"): 11.0,
        ("host_filesystem_available_bytes", "n1:/scratch"): 7.0,
        ("node_memory_available_bytes", "n1"): 9.0,
        ("node_load_count", "n1"): 1.5,
    }


def test_the_host_is_named_as_for_its_ports():
    text = 'node_uname_info{nodename="real"} 1\nnode_load1 2\nnode_disk_read_bytes_total{device="sda"} 1\n'
    assert {entity for _, entity in values(read(text, "10.0.0.1"))} == {"real", "real:sda"}


def test_roce_counters_of_a_port():
    labels = '{device="mlx5_0",port="1"}'
    names = {
        "node_infiniband_np_ecn_marked_roce_packets_received_total": "port_ecn_marked_packets_total",
        "node_infiniband_rp_cnp_packets_handled_total": "port_cnp_handled_total",
        "node_infiniband_packet_sequence_errors_total": "port_packet_sequence_error_total",
        "node_infiniband_local_ack_timeout_errors_total": "port_local_ack_timeout_total",
        "node_infiniband_port_discards_received_total": "port_discards_rx_total",
    }
    text = "".join(f"{name}{labels} {i}\n" for i, name in enumerate(names, 1))
    assert values(read(text)) == {(ours, "n1:mlx5_0:1"): float(i) for i, ours in enumerate(names.values(), 1)}


def test_a_server_adds_only_what_is_whole():
    """A moment at which a core is missing has no sum: it would look like a counter that fell."""

    def series(core: int, *pairs: list[object]) -> dict[str, object]:
        metric = {"__name__": "node_cpu_seconds_total", "cpu": str(core), "mode": "user", "instance": "n1:9100"}
        return {"metric": metric, "values": list(pairs)}

    result = [series(0, [10, "1"], [20, "2"]), series(1, [10, "3"])]
    document = {"status": "success", "data": {"resultType": "matrix", "result": result}}
    batch = SeriesMapper("server").batch([read_answer(document, "server")], 30.0)
    validate_batch(batch)
    assert batch.keys[0].entity == "n1"
    assert batch.value[0] == 4.0
    assert np.isnan(batch.value[1])
    assert batch.reason.tolist() == [Reason.OK, Reason.NOT_OBSERVED]


@pytest.mark.parametrize("name", ["node_disk_read_bytes_total", "node_network_transmit_bytes_total"])
def test_a_line_without_a_device_is_left_out(name):
    assert len(read(f"{name} 5\n")) == 0
