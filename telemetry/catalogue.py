"""The metric catalogue: the only place that names a source's field.

One row per metric of ours: name with unit, kind, legal range, which numbers mean "blank", at which level it is
read, and every name that exporters gave it over the years. Everything else speaks our names.

Sources of the rows: dcgm-exporter default-counters.csv and DCGM 4.6 headers, node_exporter's infiniband
collector, infiniband_exporter's switch collector; blank values from dcgm_structs.h.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

KIB = 1024.0
MIB = 1024.0**2
INF = float("inf")


class Kind(StrEnum):
    """What a number means over time. It overrules the TYPE that an exporter declares."""

    GAUGE = "gauge"
    COUNTER = "counter"
    RATE = "rate"
    """Already per second; never differentiate it again."""
    LAST_CODE = "last_code"
    """The last error number seen; sticky, never averaged or summed."""
    WINDOW_COUNT = "window_count"
    """A count inside a sliding window; it falls, never differentiate it."""


class Level(StrEnum):
    """What the number belongs to."""

    GPU = "gpu"
    """The card. Repeated on each MIG instance line; counts once per card."""
    DEVICE = "device"
    """The schedulable device: each MIG instance has its own value, a whole card has one."""
    NODE = "node"
    PORT = "port"
    JOB = "job"


class Blank(StrEnum):
    """Which 'no value' numbers a field can hold (dcgm_structs.h)."""

    NONE = "none"
    FLOAT = "float"
    """2^47 + 0..3, and the int64 blanks."""
    INT32 = "int32"
    """2147483632..2147483635, and the int64 blanks."""
    INT64 = "int64"
    """9223372036854775792..795; after a float64, anything >= 2^63 - 1024."""


@dataclass(frozen=True, slots=True)
class Source:
    """One name that an exporter gives a metric.

    Args:
        field: the family name on the page.
        scale: multiply the printed number by this to get the catalogue's unit.
        zero_first: True when the first 0 after the exporter starts means "no earlier reading".
    """

    field: str
    scale: float = 1.0
    zero_first: bool = False


@dataclass(frozen=True, slots=True)
class Metric:
    """One row of the catalogue.

    Args:
        name: our name, unit at the end.
        unit: the unit in words.
        kind: what the number means over time.
        level: what it belongs to.
        low: least legal value, in the catalogue's unit.
        high: greatest legal value.
        tolerance: values up to ``high + tolerance`` are sampling noise and are clipped to ``high``.
        blank: which blank numbers apply, tested on the printed number before scaling.
        sources: names over the years, the canonical one first.
        meaning: what it tells, in a line.
    """

    name: str
    unit: str
    kind: Kind
    level: Level
    sources: tuple[Source, ...]
    low: float = 0.0
    high: float = INF
    tolerance: float = 0.0
    blank: Blank = Blank.NONE
    meaning: str = ""


def _fields(*names: str, scale: float = 1.0, zero_first: bool = False) -> tuple[Source, ...]:
    return tuple(Source(name, scale, zero_first) for name in names)


def _ratio(name: str, *fields: str, meaning: str, level: Level = Level.DEVICE) -> Metric:
    return Metric(
        name, "ratio", Kind.GAUGE, level, _fields(*fields), high=1.0, tolerance=0.05, blank=Blank.FLOAT, meaning=meaning
    )


def _percent(name: str, *fields: str, meaning: str, level: Level = Level.GPU) -> Metric:
    return Metric(
        name, "ratio", Kind.GAUGE, level, _fields(*fields, scale=0.01), high=1.0, blank=Blank.INT32, meaning=meaning
    )


def _rate(
    name: str, *fields: str, meaning: str, high: float = 4e12, scale: float = 1.0, zero_first: bool = False
) -> Metric:
    # No GPU link moves 4 TB/s in one direction today (NVLink 5 sums to 0.9 TB/s).
    return Metric(
        name,
        "bytes per second",
        Kind.RATE,
        Level.DEVICE,
        _fields(*fields, scale=scale, zero_first=zero_first),
        high=high,
        blank=Blank.FLOAT,
        meaning=meaning,
    )


def _count(
    name: str, *fields: str, meaning: str, level: Level = Level.GPU, unit: str = "count", scale: float = 1.0
) -> Metric:
    return Metric(name, unit, Kind.COUNTER, level, _fields(*fields, scale=scale), blank=Blank.INT64, meaning=meaning)


def _port(name: str, *fields: str, meaning: str, unit: str = "count") -> Metric:
    return Metric(name, unit, Kind.COUNTER, Level.PORT, _fields(*fields), meaning=meaning)


METRICS: tuple[Metric, ...] = (
    # GPU activity. GPU_UTIL says "a kernel was running", not how much work was done.
    _percent(
        "gpu_util_ratio",
        "DCGM_FI_DEV_GPU_UTIL",
        "DCGM_FI_DEV_GPU_UTIL_RATIO",
        "dcgm_gpu_utilization",
        meaning="share of time in which a kernel was running",
    ),
    _percent(
        "gpu_mem_copy_util_ratio",
        "DCGM_FI_DEV_MEM_COPY_UTIL",
        "DCGM_FI_DEV_MEM_COPY_UTIL_RATIO",
        "dcgm_mem_copy_utilization",
        meaning="share of time in which memory was read or written",
    ),
    _percent("gpu_enc_util_ratio", "DCGM_FI_DEV_ENC_UTIL", "dcgm_enc_utilization", meaning="video encoder use"),
    _percent("gpu_dec_util_ratio", "DCGM_FI_DEV_DEC_UTIL", "dcgm_dec_utilization", meaning="video decoder use"),
    _ratio(
        "gpu_gr_engine_active_ratio",
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
        "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO",
        "dcgm_fi_prof_gr_engine_active",
        meaning="share of time in which the graphics or compute engine was active",
    ),
    _ratio(
        "gpu_sm_active_ratio",
        "DCGM_FI_PROF_SM_ACTIVE",
        "DCGM_FI_PROF_SM_UTIL_RATIO",
        "dcgm_fi_prof_sm_active",
        meaning="share of cycles with a warp on an SM, mean over SMs",
    ),
    _ratio(
        "gpu_sm_occupancy_ratio",
        "DCGM_FI_PROF_SM_OCCUPANCY",
        "dcgm_fi_prof_sm_occupancy",
        meaning="resident warps as share of the most possible",
    ),
    _ratio(
        "gpu_tensor_active_ratio",
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
        "DCGM_FI_PROF_TENSOR_UTIL_RATIO",
        "dcgm_fi_prof_pipe_tensor_active",
        meaning="share of cycles in which the tensor pipe was active",
    ),
    _ratio(
        "gpu_dram_active_ratio",
        "DCGM_FI_PROF_DRAM_ACTIVE",
        "DCGM_FI_PROF_DRAM_UTIL_RATIO",
        "dcgm_fi_prof_dram_active",
        meaning="share of cycles in which memory moved data; about 0.8 is the practical top",
    ),
    _ratio(
        "gpu_fp64_active_ratio",
        "DCGM_FI_PROF_PIPE_FP64_ACTIVE",
        "DCGM_FI_PROF_FP64_UTIL_RATIO",
        "dcgm_fi_prof_pipe_fp64_active",
        meaning="FP64 pipe",
    ),
    _ratio(
        "gpu_fp32_active_ratio",
        "DCGM_FI_PROF_PIPE_FP32_ACTIVE",
        "DCGM_FI_PROF_FP32_UTIL_RATIO",
        "dcgm_fi_prof_pipe_fp32_active",
        meaning="FP32 pipe",
    ),
    _ratio(
        "gpu_fp16_active_ratio",
        "DCGM_FI_PROF_PIPE_FP16_ACTIVE",
        "DCGM_FI_PROF_FP16_UTIL_RATIO",
        "dcgm_fi_prof_pipe_fp16_active",
        meaning="FP16 pipe; 0 for bf16 work",
    ),
    # GPU data movement. All rates, whatever TYPE says.
    _rate(
        "gpu_pcie_tx_bytes_per_s",
        "DCGM_FI_PROF_PCIE_TX_BYTES",
        "dcgm_fi_prof_pcie_tx_bytes",
        meaning="PCIe from device to host",
    ),
    _rate(
        "gpu_pcie_rx_bytes_per_s",
        "DCGM_FI_PROF_PCIE_RX_BYTES",
        "dcgm_fi_prof_pcie_rx_bytes",
        meaning="PCIe from host to device",
    ),
    _rate("gpu_nvlink_tx_bytes_per_s", "DCGM_FI_PROF_NVLINK_TX_BYTES", meaning="NVLink sent, all links"),
    _rate("gpu_nvlink_rx_bytes_per_s", "DCGM_FI_PROF_NVLINK_RX_BYTES", meaning="NVLink received, all links"),
    # Field 449: KiB over all links, both directions, per second, divided by 1000.
    _rate(
        "gpu_nvlink_bytes_per_s",
        "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL",
        "DCGM_FI_DEV_NVLINK_THROUGHPUT_TOTAL",
        "dcgm_nvlink_bandwidth_total",
        meaning="NVLink both ways, all links",
        scale=1000 * KIB,
        zero_first=True,
    ),
    _count(
        "gpu_nvlink_tx_bytes_total",
        "DCGM_FI_DEV_NVLINK_COUNT_TX_BYTES",
        "DCGM_FI_DEV_NVLINK_TX_BYTES_TOTAL",
        meaning="NVLink bytes sent",
        unit="bytes",
    ),
    _count(
        "gpu_nvlink_rx_bytes_total",
        "DCGM_FI_DEV_NVLINK_COUNT_RX_BYTES",
        "DCGM_FI_DEV_NVLINK_RX_BYTES_TOTAL",
        meaning="NVLink bytes received",
        unit="bytes",
    ),
    _count(
        "gpu_pcie_replay_total", "DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "dcgm_pcie_replay_counter", meaning="PCIe retries"
    ),
    # GPU memory, power, heat, clocks.
    Metric(
        "gpu_memory_used_bytes",
        "bytes",
        Kind.GAUGE,
        Level.DEVICE,
        _fields("DCGM_FI_DEV_FB_USED", "dcgm_fb_used", scale=MIB),
        high=2e12,
        blank=Blank.INT32,
        meaning="framebuffer used",
    ),
    Metric(
        "gpu_memory_free_bytes",
        "bytes",
        Kind.GAUGE,
        Level.DEVICE,
        _fields("DCGM_FI_DEV_FB_FREE", "dcgm_fb_free", scale=MIB),
        high=2e12,
        blank=Blank.INT32,
        meaning="framebuffer free",
    ),
    Metric(
        "gpu_memory_reserved_bytes",
        "bytes",
        Kind.GAUGE,
        Level.DEVICE,
        _fields("DCGM_FI_DEV_FB_RESERVED", scale=MIB),
        high=2e12,
        blank=Blank.INT32,
        meaning="framebuffer held by the driver",
    ),
    Metric(
        "gpu_memory_used_ratio",
        "ratio",
        Kind.GAUGE,
        Level.DEVICE,
        _fields("DCGM_FI_DEV_FB_USED_PERCENT", "DCGM_FI_DEV_FB_USED_RATIO"),
        high=1.0,
        tolerance=0.05,
        blank=Blank.FLOAT,
        meaning="used / (total - reserved)",
    ),
    Metric(
        "gpu_power_watts",
        "watts",
        Kind.GAUGE,
        Level.GPU,
        _fields("DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_BOARD_POWER_WATTS", "dcgm_power_usage"),
        high=5000.0,
        blank=Blank.FLOAT,
        meaning="board power, mean of about 1 s",
    ),
    Metric(
        "gpu_power_raw_watts",
        "watts",
        Kind.GAUGE,
        Level.GPU,
        _fields("DCGM_FI_DEV_POWER_USAGE_INSTANT", "DCGM_FI_DEV_BOARD_POWER_RAW_WATTS"),
        high=5000.0,
        blank=Blank.FLOAT,
        meaning="board power, instant",
    ),
    _count(
        "gpu_energy_joules_total",
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
        "dcgm_total_energy_consumption",
        meaning="energy since the driver loaded",
        unit="joules",
        scale=1e-3,
    ),
    Metric(
        "gpu_temperature_celsius",
        "celsius",
        Kind.GAUGE,
        Level.GPU,
        _fields("DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_TEMP_CELSIUS", "dcgm_gpu_temp"),
        low=-40.0,
        high=200.0,
        blank=Blank.INT32,
        meaning="GPU die",
    ),
    Metric(
        "gpu_memory_temperature_celsius",
        "celsius",
        Kind.GAUGE,
        Level.GPU,
        _fields("DCGM_FI_DEV_MEMORY_TEMP", "DCGM_FI_DEV_MEMORY_TEMP_CELSIUS", "dcgm_memory_temp"),
        low=-40.0,
        high=200.0,
        blank=Blank.INT32,
        meaning="GPU memory; blank on many cards",
    ),
    Metric(
        "gpu_sm_clock_hertz",
        "hertz",
        Kind.GAUGE,
        Level.GPU,
        _fields("DCGM_FI_DEV_SM_CLOCK", "dcgm_sm_clock", scale=1e6),
        high=1e10,
        blank=Blank.INT32,
        meaning="SM clock",
    ),
    Metric(
        "gpu_mem_clock_hertz",
        "hertz",
        Kind.GAUGE,
        Level.GPU,
        _fields("DCGM_FI_DEV_MEM_CLOCK", "dcgm_memory_clock", scale=1e6),
        high=1e11,
        blank=Blank.INT32,
        meaning="memory clock",
    ),
    # GPU health.
    Metric(
        "gpu_xid_last_code",
        "code",
        Kind.LAST_CODE,
        Level.GPU,
        _fields("DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_XID_ERROR", "dcgm_xid_errors"),
        high=100000.0,
        blank=Blank.INT64,
        meaning="number of the last XID; sticky",
    ),
    Metric(
        "gpu_xid_window_count",
        "count",
        Kind.WINDOW_COUNT,
        Level.GPU,
        _fields("DCGM_EXP_XID_ERRORS_COUNT"),
        blank=Blank.INT64,
        meaning="XIDs inside a sliding window",
    ),
    Metric(
        "gpu_clock_event_window_count",
        "count",
        Kind.WINDOW_COUNT,
        Level.GPU,
        _fields("DCGM_EXP_CLOCK_EVENTS_COUNT"),
        blank=Blank.INT64,
        meaning="throttling events inside a sliding window",
    ),
    Metric(
        "gpu_row_remap_failure_flag",
        "flag",
        Kind.GAUGE,
        Level.GPU,
        _fields("DCGM_FI_DEV_ROW_REMAP_FAILURE"),
        high=1.0,
        blank=Blank.INT32,
        meaning="row remapping failed",
    ),
    _count(
        "gpu_uncorrectable_remapped_rows_total",
        "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
        meaning="rows remapped after uncorrectable errors",
        unit="rows",
    ),
    _count(
        "gpu_correctable_remapped_rows_total",
        "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
        meaning="rows remapped after correctable errors",
        unit="rows",
    ),
    _count(
        "gpu_ecc_dbe_volatile_total",
        "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
        meaning="double-bit ECC errors since the driver loaded",
    ),
    _count(
        "gpu_ecc_sbe_volatile_total",
        "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL",
        meaning="single-bit ECC errors since the driver loaded",
    ),
    Metric(
        "gpu_vgpu_license_flag",
        "flag",
        Kind.GAUGE,
        Level.GPU,
        _fields("DCGM_FI_DEV_VGPU_LICENSE_STATUS"),
        high=1.0,
        blank=Blank.INT32,
        meaning="vGPU licence held",
    ),
    Metric(
        "gpu_fabric_clique_id",
        "id",
        Kind.GAUGE,
        Level.GPU,
        _fields("DCGM_FI_DEV_FABRIC_CLIQUE_ID"),
        blank=Blank.INT64,
        meaning="NVLink fabric clique",
    ),
    # Host NIC ports: node_exporter has already multiplied the 4-byte words.
    _port(
        "port_tx_bytes_total",
        "node_infiniband_port_data_transmitted_bytes_total",
        "infiniband_switch_port_transmit_data_bytes_total",
        meaning="bytes sent",
        unit="bytes",
    ),
    _port(
        "port_rx_bytes_total",
        "node_infiniband_port_data_received_bytes_total",
        "infiniband_switch_port_receive_data_bytes_total",
        meaning="bytes received",
        unit="bytes",
    ),
    _port(
        "port_tx_packets_total",
        "node_infiniband_port_packets_transmitted_total",
        "infiniband_switch_port_transmit_packets_total",
        meaning="packets sent",
    ),
    _port(
        "port_rx_packets_total",
        "node_infiniband_port_packets_received_total",
        "infiniband_switch_port_receive_packets_total",
        meaning="packets received",
    ),
    _port(
        "port_tx_wait_ticks_total",
        "node_infiniband_port_transmit_wait_total",
        "infiniband_switch_port_transmit_wait_total",
        meaning="ticks in which data waited; relative only, never seconds",
        unit="ticks",
    ),
    _port(
        "port_ecn_marked_packets_total",
        "node_infiniband_np_ecn_marked_roce_packets_received_total",
        meaning="RoCE packets that arrived with a congestion mark",
    ),
    _port("port_cnp_sent_total", "node_infiniband_np_cnp_packets_sent_total", meaning="congestion notifications sent"),
    _port(
        "port_cnp_handled_total",
        "node_infiniband_rp_cnp_packets_handled_total",
        meaning="congestion notifications obeyed",
    ),
    _port(
        "port_out_of_sequence_total",
        "node_infiniband_out_of_sequence_packets_received_total",
        meaning="packets out of order",
    ),
    _port(
        "port_discards_tx_total",
        "node_infiniband_port_discards_transmitted_total",
        meaning="packets dropped on sending",
    ),
    _port("port_errors_rx_total", "node_infiniband_port_errors_received_total", meaning="bad packets received"),
    _port("port_symbol_error_total", "node_infiniband_symbol_error_total", meaning="bit errors on the cable"),
    _port("port_link_downed_total", "node_infiniband_link_downed_total", meaning="times the link went down"),
    Metric(
        "port_capacity_bytes_per_s",
        "bytes per second",
        Kind.GAUGE,
        Level.PORT,
        _fields("node_infiniband_rate_bytes_per_second", "infiniband_switch_port_rate_bytes_per_second"),
        meaning="link speed of one direction",
    ),
    Metric(
        "port_state_id",
        "state",
        Kind.GAUGE,
        Level.PORT,
        _fields("node_infiniband_state_id"),
        high=15.0,
        meaning="4 is active",
    ),
    Metric(
        "port_physical_state_id",
        "state",
        Kind.GAUGE,
        Level.PORT,
        _fields("node_infiniband_physical_state_id"),
        high=15.0,
        meaning="5 is link up",
    ),
    # Derived by features.transforms; no exporter prints them.
    Metric(
        "port_tx_bytes_per_s", "bytes per second", Kind.RATE, Level.PORT, (), meaning="sent, from port_tx_bytes_total"
    ),
    Metric(
        "port_rx_bytes_per_s",
        "bytes per second",
        Kind.RATE,
        Level.PORT,
        (),
        meaning="received, from port_rx_bytes_total",
    ),
    Metric(
        "job_fabric_tx_bytes_per_s",
        "bytes per second",
        Kind.RATE,
        Level.JOB,
        (),
        meaning="sent on all NIC ports of the job's hosts",
    ),
    Metric(
        "job_fabric_rx_bytes_per_s",
        "bytes per second",
        Kind.RATE,
        Level.JOB,
        (),
        meaning="received on all NIC ports of the job's hosts",
    ),
)

BY_NAME: dict[str, Metric] = {metric.name: metric for metric in METRICS}
BY_FIELD: dict[str, tuple[Metric, Source]] = {
    source.field: (metric, source) for metric in METRICS for source in metric.sources
}
DERIVED_RATE: dict[str, str] = {
    "port_tx_bytes_total": "port_tx_bytes_per_s",
    "port_rx_bytes_total": "port_rx_bytes_per_s",
}
"""Counter -> the rate that the transforms derive from it."""

IGNORED_FIELDS: frozenset[str] = frozenset(
    {
        # The same traffic in an older 64-bit extension; adding it would double the bytes.
        "node_infiniband_legacy_data_transmitted_bytes_total",
        "node_infiniband_legacy_data_received_bytes_total",
    }
)

EXPORTER_POD_HINT = "dcgm-exporter"
"""A pod whose name holds this is the scrape target itself, never a workload."""

TEXT_BLANKS: frozenset[str] = frozenset({"<<<NULL>>>", "<<<NOT_FOUND>>>", "<<<NOT_SUPPORTED>>>", "<<<NOT_PERM>>>"})
INT32_BLANKS = (2147483632.0, 2147483635.0)
FLOAT_BLANKS = (140737488355328.0, 140737488355331.0)
INT64_BLANK_FROM = 9223372036854774784.0
"""2^63 - 1024: the four int64 blanks all read 2^63 once they have been a float64."""

UPLINK_FIELD = "infiniband_switch_uplink_info"
"""Always 1; its labels say what is plugged into a switch port."""
NODE_NAME_FIELD = "node_uname_info"
"""Always 1; its label ``nodename`` is the host's own name."""
PART_LABELS = ("xid", "clock_event")
"""Labels that split one window count into kinds; the kinds of one GPU are added."""
ACTIVE_PORT_STATE = 4.0
"""``port_state_id`` of a port that carries traffic (InfiniBand specification, PortState)."""
