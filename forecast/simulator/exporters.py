"""Pages of the three exporters that a site runs, as they print them: GPUs, host ports, switch ports.

Field names come from the catalogue. Values are those of ``SimCluster`` now; no line carries a timestamp.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from forecast.simulator.activity import (
    DRAM,
    ENGINE,
    NVLINK,
    OCCUPANCY,
    PCIE_RX,
    PCIE_TX,
    POWER,
    SM,
    TENSOR,
    TOTAL_MIB,
)
from forecast.simulator.cluster import SimCluster
from forecast.simulator.exposition import family, family_head, field_of, labels_text, metric_head
from forecast.simulator.fabric import Port
from forecast.simulator.faults import THROTTLED_CELSIUS, FaultKind, held_s, on_gpu, symbol_errors
from telemetry.catalogue import BY_NAME, MIB, NODE_NAME_FIELD, UPLINK_FIELD
from telemetry.ids import GpuId

FloatArray = NDArray[np.float64]

_MODEL = "NVIDIA H100 80GB HBM3"
_DRIVER = "580.95.05"
_BUS = (0x1B, 0x43, 0x52, 0x61, 0x9D, 0xC3, 0xD1, 0xDF)
"""PCI buses of the eight cards of a common host."""
_RESERVED_MIB = 620
_PACKET_BYTES = 4096.0
_WORD_BYTES = 4.0
"""Port data counters count words of four bytes."""

# What a page shows, in its order, and how DCGM prints it: integers bare, floats with six decimals.
_GPU_METRICS: tuple[tuple[str, str], ...] = (
    ("gpu_sm_clock_hertz", "%d"),
    ("gpu_mem_clock_hertz", "%d"),
    ("gpu_memory_temperature_celsius", "%d"),
    ("gpu_temperature_celsius", "%d"),
    ("gpu_power_watts", "%.6f"),
    ("gpu_energy_joules_total", "%d"),
    ("gpu_pcie_replay_total", "%d"),
    ("gpu_util_ratio", "%d"),
    ("gpu_mem_copy_util_ratio", "%d"),
    ("gpu_enc_util_ratio", "%d"),
    ("gpu_dec_util_ratio", "%d"),
    ("gpu_xid_last_code", "%d"),
    ("gpu_memory_free_bytes", "%d"),
    ("gpu_memory_used_bytes", "%d"),
    ("gpu_memory_reserved_bytes", "%d"),
    ("gpu_nvlink_bytes_per_s", "%d"),
    ("gpu_vgpu_license_flag", "%d"),
    ("gpu_uncorrectable_remapped_rows_total", "%d"),
    ("gpu_correctable_remapped_rows_total", "%d"),
    ("gpu_row_remap_failure_flag", "%d"),
    ("gpu_gr_engine_active_ratio", "%.6f"),
    ("gpu_sm_active_ratio", "%.6f"),
    ("gpu_sm_occupancy_ratio", "%.6f"),
    ("gpu_tensor_active_ratio", "%.6f"),
    ("gpu_dram_active_ratio", "%.6f"),
    ("gpu_pcie_tx_bytes_per_s", "%d"),
    ("gpu_pcie_rx_bytes_per_s", "%d"),
    ("gpu_nvlink_tx_bytes_per_s", "%d"),
    ("gpu_nvlink_rx_bytes_per_s", "%d"),
)

_FAULT_METRICS: tuple[tuple[str, str], ...] = (("gpu_thermal_throttle_seconds_total", "%d"),)
"""Shown too where something goes wrong: the default counters file leaves them out."""


def gpu_uuid(cluster_seed: int, node: str, gpu: int) -> str:
    """The card's UUID, the same for the same seed."""
    digest = hashlib.sha256(f"{cluster_seed}/{node}/{gpu}".encode()).hexdigest()
    return f"GPU-{digest[:8]}-{digest[8:12]}-4{digest[13:16]}-a{digest[17:20]}-{digest[20:32]}"


def gpu_ids(cluster: SimCluster, node: str) -> tuple[GpuId, ...]:
    """Ids of a host's cards, by index."""
    return tuple(GpuId(node, gpu_uuid(cluster.seed, node, gpu)) for gpu in range(cluster.spec.gpus_per_node))


class DcgmPages:
    """dcgm-exporter pages. Text is laid out once per host; a page is one ``%`` with all numbers."""

    def __init__(self, cluster: SimCluster) -> None:
        self._cluster = cluster
        self._templates: dict[str, str] = {}
        self._pages: dict[str, tuple[int, bytes]] = {}
        self._metrics = (*_GPU_METRICS, *(_FAULT_METRICS if cluster.spec.faults else ()))

    def page(self, node: str) -> bytes:
        """The page of one host; the same bytes until the exporter refreshes."""
        index = self._cluster.fabric.node_index[node]
        version = int(self._cluster.gauges.version[index])
        cached = self._pages.get(node)
        if cached is not None and cached[0] == version:
            return cached[1]
        if node not in self._templates:
            self._templates[node] = self._layout(node)
        page = (self._templates[node] % tuple(self._numbers(node, index).ravel().tolist())).encode()
        self._pages[node] = (version, page)
        return page

    def _layout(self, node: str) -> str:
        labels = [self._labels(node, gpu) for gpu in range(self._cluster.spec.gpus_per_node)]
        blocks = []
        for metric, number in self._metrics:
            field, _ = field_of(metric)
            blocks.append(metric_head(metric).replace("%", "%%"))
            for card in labels:
                extra = {"err_code": "0", "err_msg": "No Error"} if metric == "gpu_xid_last_code" else {}
                blocks.append(f"{field}{labels_text(card | extra).replace('%', '%%')} {number}\n")
        return "".join(blocks)

    def _labels(self, node: str, gpu: int) -> dict[str, str]:
        labels = {
            "gpu": str(gpu),
            "UUID": gpu_uuid(self._cluster.seed, node, gpu),
            "pci_bus_id": f"00000000:{_BUS[gpu % len(_BUS)]:02X}:{gpu // len(_BUS):02X}.0",
            "device": f"nvidia{gpu}",
            "modelName": _MODEL,
            "Hostname": node,
            "DCGM_FI_DRIVER_VERSION": _DRIVER,
        }
        job = self._cluster.job_of_node(node)
        if job is not None and job.spec.scheduler == "slurm":
            labels["hpc_job"] = job.spec.name
        elif job is not None:
            rank = job.spec.nodes.index(node)
            labels |= {"container": "main", "namespace": job.spec.namespace, "pod": f"{job.spec.name}-{rank}"}
        return labels

    def _numbers(self, node: str, index: int) -> FloatArray:
        """What is printed, (n_metrics, n_gpus)."""
        gauges, job = self._cluster.gauges, self._cluster.job_of_node(node)
        value = gauges.values[index]
        busy = value[:, ENGINE] > 0.0
        used_mib = np.where(busy | (job is not None), (job.spec.memory_bytes if job else 4 * MIB) / MIB, 4.0)
        temperature = gauges.temperature_celsius[index]
        ours = {
            "gpu_sm_clock_hertz": np.where(busy, 1.98e9, 3.45e8),
            "gpu_mem_clock_hertz": np.full(busy.shape, 2.619e9),
            "gpu_memory_temperature_celsius": temperature + 8.0,
            "gpu_temperature_celsius": temperature,
            "gpu_power_watts": value[:, POWER].copy(),
            "gpu_energy_joules_total": gauges.energy_joules[index],
            "gpu_util_ratio": np.round(value[:, ENGINE], 2),
            "gpu_mem_copy_util_ratio": np.round(np.minimum(value[:, DRAM] * 1.1, 1.0), 2),
            "gpu_memory_free_bytes": (TOTAL_MIB - _RESERVED_MIB - used_mib) * MIB,
            "gpu_memory_used_bytes": used_mib * MIB,
            "gpu_memory_reserved_bytes": np.full(busy.shape, _RESERVED_MIB * MIB),
            "gpu_nvlink_bytes_per_s": 2.0 * value[:, NVLINK],
            "gpu_gr_engine_active_ratio": value[:, ENGINE],
            "gpu_sm_active_ratio": value[:, SM],
            "gpu_sm_occupancy_ratio": value[:, OCCUPANCY],
            "gpu_tensor_active_ratio": value[:, TENSOR],
            "gpu_dram_active_ratio": value[:, DRAM],
            "gpu_pcie_tx_bytes_per_s": value[:, PCIE_TX],
            "gpu_pcie_rx_bytes_per_s": value[:, PCIE_RX],
            "gpu_nvlink_tx_bytes_per_s": value[:, NVLINK],
            "gpu_nvlink_rx_bytes_per_s": value[:, NVLINK],
        }
        self._spoil(node, busy, ours)
        zeros = np.zeros(busy.shape)
        # 1e-6 undoes the rounding of the division before DCGM's integers are cut.
        return np.array(
            [ours.get(metric, zeros) / field_of(metric)[1] + _nudge(number) for metric, number in self._metrics]
        )

    def _spoil(self, node: str, busy: NDArray[np.bool_], ours: dict[str, FloatArray]) -> None:
        """What a fault changes of a host's numbers, in place."""
        faults, at_s = self._cluster.spec.faults, self._cluster.now_s
        if not faults:
            return
        held = [held_s(faults, node, gpu, at_s) for gpu in range(busy.size)]
        ours["gpu_thermal_throttle_seconds_total"] = np.array(held)
        for gpu, fault in on_gpu(faults, node, at_s).items():
            if busy[gpu]:
                ours["gpu_sm_clock_hertz"][gpu] *= fault.ratio
                # Power goes with the clock and, below the top, a little less than with its square.
                ours["gpu_power_watts"][gpu] *= fault.ratio
            if fault.kind is FaultKind.THROTTLED_GPU:
                for name in ("gpu_temperature_celsius", "gpu_memory_temperature_celsius"):
                    ours[name] = ours[name].copy()
                    ours[name][gpu] = max(float(ours[name][gpu]), THROTTLED_CELSIUS)


def _nudge(number: str) -> float:
    return 1e-6 if number == "%d" else 0.0


def _words(byte_count: float) -> float:
    """Bytes as a counter of four-byte words gives them."""
    return float(byte_count // _WORD_BYTES) * _WORD_BYTES


def node_page(cluster: SimCluster, node: str) -> bytes:
    """The node_exporter page of one host: its name, load and InfiniBand ports."""
    ports = [port for port in cluster.fabric.ports if port.id.node == node]
    sent, waited = cluster.link_bytes(), cluster.wait_ticks()
    tags = [labels_text({"device": port.id.device.partition(":")[2], "port": port.id.port}) for port in ports]
    tx = [float(sent[port.tx_link]) * port.share_ratio for port in ports]
    rx = [float(sent[port.rx_link]) * port.share_ratio for port in ports]
    columns = {
        "port_tx_bytes_total": [_words(value) for value in tx],
        "port_rx_bytes_total": [_words(value) for value in rx],
        "port_tx_packets_total": [float(value // _PACKET_BYTES) for value in tx],
        "port_rx_packets_total": [float(value // _PACKET_BYTES) for value in rx],
        "port_tx_wait_ticks_total": [float(waited[port.tx_link] // 1.0) * port.share_ratio // 1.0 for port in ports],
        "port_capacity_bytes_per_s": [port.capacity_bytes_per_s for port in ports],
        "port_state_id": [4.0] * len(ports),
        "port_physical_state_id": [5.0] * len(ports),
    }
    if cluster.spec.faults:
        columns["port_symbol_error_total"] = [symbol_errors(cluster.spec.faults, node, cluster.now_s)] * len(ports)
    parts = [
        family(metric_head(metric), field_of(metric)[0], zip(tags, values, strict=True))
        for metric, values in columns.items()
    ]
    job = cluster.job_of_node(node)
    load = 9.0 if job is not None else 0.08
    name = labels_text(
        {"domainname": "(none)", "machine": "x86_64", "nodename": node, "release": "6.8.0", "sysname": "Linux"}
    )
    parts += [
        family(family_head("node_load1", "1m load average.", counter=False), "node_load1", [("", load)]),
        family(
            family_head(NODE_NAME_FIELD, "Names that the kernel gives the host.", counter=False),
            NODE_NAME_FIELD,
            [(name, 1.0)],
        ),
    ]
    return "".join(parts).encode()


def switch_page(cluster: SimCluster, switch: str) -> bytes:
    """The infiniband_exporter page of one switch: bytes, speed and the far end of each port."""
    ports = [port for port in cluster.fabric.ports if port.id.device == switch]
    sent = cluster.link_bytes()
    own = {"guid": _guid(cluster.seed, switch)}
    tags = [labels_text(own | {"port": port.id.port, "switch": switch}) for port in ports]
    columns = {
        "port_rx_bytes_total": [_words(float(sent[port.rx_link]) * port.share_ratio) for port in ports],
        "port_tx_bytes_total": [_words(float(sent[port.tx_link]) * port.share_ratio) for port in ports],
        "port_capacity_bytes_per_s": [port.capacity_bytes_per_s for port in ports],
    }
    parts = []
    for metric, values in columns.items():
        field = switch_field(metric)
        parts.append(family(metric_head(metric, field), field, zip(tags, values, strict=True)))
    info = [(labels_text(own | _far_end(cluster, port, switch)), 1.0) for port in ports]
    head = family_head(UPLINK_FIELD, "What stands at the other end of a port.", counter=False)
    parts.append(family(head, UPLINK_FIELD, info))
    return "".join(parts).encode()


def switch_field(metric: str) -> str:
    """The name under which infiniband_exporter prints a port metric."""
    return next(source.field for source in BY_NAME[metric].sources if source.field.startswith("infiniband_switch_"))


def _far_end(cluster: SimCluster, port: Port, switch: str) -> dict[str, str]:
    return {
        "port": port.id.port,
        "switch": switch,
        "uplink": port.peer,
        "uplink_guid": _guid(cluster.seed, port.peer),
        "uplink_lid": str(1 + int(_guid(0, port.peer), 16) % 48000),
        "uplink_port": port.peer_port,
        "uplink_type": "SW" if port.peer_is_switch else "CA",
    }


def _guid(seed: int, name: str) -> str:
    return "0x" + hashlib.sha256(f"{seed}/{name}".encode()).hexdigest()[:16]
