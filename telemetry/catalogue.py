"""The metric catalogue: the only place that names a source's field.

One row per metric of ours: name with unit, kind, legal range, which numbers mean "blank", at which level it is
read, and every name that exporters gave it over the years. Everything else speaks our names.

Rows of hosts and AMD's names have files of their own. Sources of the rows: dcgm-exporter default-counters.csv and DCGM 4.6 headers, node_exporter's infiniband
collector, infiniband_exporter's switch collector; blank values from dcgm_structs.h.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from telemetry.catalogue_amd import AMD_SOURCES
from telemetry.catalogue_hosts import HOST_METRICS
from telemetry.catalogue_nccl import NCCL_METRICS
from telemetry.catalogue_scheduler import SCHEDULER_METRICS
from telemetry.catalogue_steps import RANK_STEP_METRIC, STEP_METRICS
from telemetry.metric import INF, KIB, MIB, Blank, Kind, Level, Metric, Source

__all__ = [
    "ACTIVE_PORT_STATE",
    "BY_FIELD",
    "BY_NAME",
    "DERIVED_RATE",
    "EXPORTER_POD_HINT",
    "FLOAT_BLANKS",
    "IGNORED_FIELDS",
    "INF",
    "INT32_BLANKS",
    "INT64_BLANK_FROM",
    "KIB",
    "METRICS",
    "MIB",
    "NODE_NAME_FIELD",
    "PER_CORE_FIELDS",
    "PER_WORKLOAD",
    "PROFILED",
    "SOURCES_OF",
    "TEXT_BLANKS",
    "UPLINK_FIELD",
    "Blank",
    "Kind",
    "Level",
    "Metric",
    "Source",
    "canonical_field",
    "left_out",
    "meaning_of",
]


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


MB_PER_S = 1000 * KIB
"""DCGM's "MB/s" of its NVLink fields: KiB per second, divided by 1000."""
_BY_LABEL = "nvlink{nvlink}"
_LANES = range(18)


def _mb_per_s(*names: str) -> tuple[Source, ...]:
    return _fields(*names, scale=MB_PER_S, zero_first=True)


def _also(metric: Metric, *sources: Source) -> Metric:
    return replace(metric, sources=(*metric.sources, *sources))


def _by_number(field: str, scale: float = 1.0, *, zero_first: bool = False) -> tuple[Source, ...]:
    """Fields with the number of the link in their name."""
    return tuple(Source(field.format(lane), scale, zero_first, device=f"nvlink{lane}") for lane in _LANES)


def _lane_rate(name: str, way: str, meaning: str) -> Metric:
    sources = (
        *_by_number(f"DCGM_FI_PROF_NVLINK_L{{}}_{way}_BYTES"),
        Source(f"DCGM_FI_PROF_NVLINK_{way}_BYTES_PER_LINK", device=_BY_LABEL),
        *_by_number(f"DCGM_FI_DEV_NVLINK_{way}_BANDWIDTH_L{{}}", MB_PER_S, zero_first=True),
        *_by_number(f"DCGM_FI_DEV_NVLINK_{way}_THROUGHPUT_L{{}}", MB_PER_S, zero_first=True),
        Source(f"DCGM_FI_DEV_NVLINK_{way}_THROUGHPUT_PER_LINK", MB_PER_S, zero_first=True, device=_BY_LABEL),
    )
    return Metric(
        name, "bytes per second", Kind.RATE, Level.LANE, sources, high=4e12, blank=Blank.INT64, meaning=meaning
    )


def _throttled(cause: str, field: str, meaning: str) -> Metric:
    name = f"gpu_{cause}_throttle_seconds_total"
    return _count(name, field, meaning=f"time with clocks held down by {meaning}", unit="seconds", scale=1e-9)


_ROWS: tuple[Metric, ...] = (
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
        "DCGM_FI_PROF_SM_OCCUPANCY_RATIO",
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
        "gpu_tensor_imma_active_ratio",
        "DCGM_FI_PROF_PIPE_TENSOR_IMMA_ACTIVE",
        "DCGM_FI_PROF_IMMA_UTIL_RATIO",
        meaning="tensor pipe on integers",
    ),
    _ratio(
        "gpu_tensor_hmma_active_ratio",
        "DCGM_FI_PROF_PIPE_TENSOR_HMMA_ACTIVE",
        "DCGM_FI_PROF_HMMA_UTIL_RATIO",
        meaning="tensor pipe on 16-bit floats",
    ),
    _ratio(
        "gpu_tensor_dfma_active_ratio",
        "DCGM_FI_PROF_PIPE_TENSOR_DFMA_ACTIVE",
        "DCGM_FI_PROF_DFMA_UTIL_RATIO",
        meaning="tensor pipe on 64-bit floats",
    ),
    _ratio(
        "gpu_int_active_ratio",
        "DCGM_FI_PROF_PIPE_INT_ACTIVE",
        "DCGM_FI_PROF_INT_UTIL_RATIO",
        meaning="integer pipe",
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
    _rate("gpu_pcie_bytes_per_s", meaning="PCIe both ways, where a source does not tell them apart"),
    _also(
        _rate("gpu_nvlink_tx_bytes_per_s", "DCGM_FI_PROF_NVLINK_TX_BYTES", meaning="NVLink sent, all links"),
        *_mb_per_s("DCGM_FI_DEV_NVLINK_TX_BANDWIDTH_TOTAL", "DCGM_FI_DEV_NVLINK_TX_THROUGHPUT_TOTAL"),
    ),
    _also(
        _rate("gpu_nvlink_rx_bytes_per_s", "DCGM_FI_PROF_NVLINK_RX_BYTES", meaning="NVLink received, all links"),
        *_mb_per_s("DCGM_FI_DEV_NVLINK_RX_BANDWIDTH_TOTAL", "DCGM_FI_DEV_NVLINK_RX_THROUGHPUT_TOTAL"),
    ),
    _rate("gpu_c2c_tx_bytes_per_s", "DCGM_FI_PROF_C2C_TX_ALL_BYTES", meaning="chip to chip, GPU to CPU"),
    _rate("gpu_c2c_rx_bytes_per_s", "DCGM_FI_PROF_C2C_RX_ALL_BYTES", meaning="chip to chip, CPU to GPU"),
    # Field 449: KiB over all links, both directions, per second, divided by 1000.
    _rate(
        "gpu_nvlink_bytes_per_s",
        "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL",
        "DCGM_FI_DEV_NVLINK_THROUGHPUT_TOTAL",
        "dcgm_nvlink_bandwidth_total",
        meaning="NVLink both ways, all links",
        scale=MB_PER_S,
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
        "gpu_pcie_tx_bytes_total",
        "DCGM_FI_PROF_PCIE_TX_BYTES_TOTAL",
        meaning="PCIe bytes from device to host",
        unit="bytes",
        level=Level.DEVICE,
    ),
    _count(
        "gpu_pcie_rx_bytes_total",
        "DCGM_FI_PROF_PCIE_RX_BYTES_TOTAL",
        meaning="PCIe bytes from host to device",
        unit="bytes",
        level=Level.DEVICE,
    ),
    _count(
        "gpu_pcie_replay_total",
        "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
        "DCGM_FI_DEV_PCIE_REPLAY_TOTAL",
        "dcgm_pcie_replay_counter",
        meaning="PCIe retries",
    ),
    # One NVLink or xGMI link of a card. Old fields have the link's number in their name, newer ones in a label.
    _lane_rate("lane_tx_bytes_per_s", "TX", "sent on one NVLink"),
    _lane_rate("lane_rx_bytes_per_s", "RX", "received on one NVLink"),
    Metric(
        "lane_bytes_per_s",
        "bytes per second",
        Kind.RATE,
        Level.LANE,
        (
            *_by_number("DCGM_FI_DEV_NVLINK_BANDWIDTH_L{}", MB_PER_S, zero_first=True),
            *_by_number("DCGM_FI_DEV_NVLINK_THROUGHPUT_L{}", MB_PER_S, zero_first=True),
            Source("DCGM_FI_DEV_NVLINK_THROUGHPUT_PER_LINK", MB_PER_S, zero_first=True, device=_BY_LABEL),
        ),
        high=4e12,
        blank=Blank.INT64,
        meaning="both ways on one NVLink",
    ),
    Metric("lane_tx_bytes_total", "bytes", Kind.COUNTER, Level.LANE, (), meaning="bytes sent on one xGMI link"),
    Metric("lane_rx_bytes_total", "bytes", Kind.COUNTER, Level.LANE, (), meaning="bytes received on one xGMI link"),
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
        "gpu_memory_total_bytes",
        "bytes",
        Kind.GAUGE,
        Level.DEVICE,
        _fields("DCGM_FI_DEV_FB_TOTAL", scale=MIB),
        high=2e12,
        blank=Blank.INT32,
        meaning="framebuffer of the device",
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
        parts=("xid",),
    ),
    Metric(
        "gpu_clock_event_window_count",
        "count",
        Kind.WINDOW_COUNT,
        Level.GPU,
        _fields("DCGM_EXP_CLOCK_EVENTS_COUNT"),
        blank=Blank.INT64,
        meaning="throttling events inside a sliding window",
        parts=("clock_event",),
    ),
    Metric(
        "gpu_xid_total",
        "count",
        Kind.COUNTER,
        Level.GPU,
        _fields("DCGM_EXP_XID_ERRORS_TOTAL"),
        blank=Blank.INT64,
        meaning="XIDs since the exporter started",
        parts=("xid",),
    ),
    Metric(
        "gpu_clock_event_total",
        "count",
        Kind.COUNTER,
        Level.GPU,
        _fields("DCGM_EXP_CLOCK_EVENTS_TOTAL"),
        blank=Blank.INT64,
        meaning="throttling events since the exporter started",
        parts=("clock_event",),
    ),
    # Time in which the clocks were held down. DCGM counts nanoseconds, whatever an older help text says.
    _throttled("power", "DCGM_FI_DEV_POWER_VIOLATION", "a power limit"),
    _throttled("thermal", "DCGM_FI_DEV_THERMAL_VIOLATION", "heat"),
    _throttled("sync_boost", "DCGM_FI_DEV_SYNC_BOOST_VIOLATION", "a slower GPU of its sync-boost group"),
    _throttled("board_limit", "DCGM_FI_DEV_BOARD_LIMIT_VIOLATION", "a limit of the board"),
    _throttled("low_util", "DCGM_FI_DEV_LOW_UTIL_VIOLATION", "low use"),
    _throttled("reliability", "DCGM_FI_DEV_RELIABILITY_VIOLATION", "a reliability limit"),
    Metric(
        "gpu_row_remap_failure_flag",
        "flag",
        Kind.GAUGE,
        Level.GPU,
        _fields("DCGM_FI_DEV_ROW_REMAP_FAILURE", "DCGM_FI_DEV_ROW_REMAP_FAILED"),
        high=1.0,
        blank=Blank.INT32,
        meaning="row remapping failed",
    ),
    Metric(
        "gpu_row_remap_pending_flag",
        "flag",
        Kind.GAUGE,
        Level.GPU,
        _fields("DCGM_FI_DEV_ROW_REMAP_PENDING"),
        high=1.0,
        blank=Blank.INT32,
        meaning="a row waits for a reset to be remapped",
    ),
    Metric(
        "gpu_clock_event_reasons_bits",
        "bits",
        Kind.LAST_CODE,
        Level.GPU,
        _fields("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", "DCGM_FI_DEV_CLOCKS_EVENT_REASONS"),
        high=65535.0,
        blank=Blank.INT64,
        meaning="why the clocks are held down now, one bit for each reason",
    ),
    _count(
        "gpu_uncorrectable_remapped_rows_total",
        "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
        "DCGM_FI_DEV_ROW_REMAP_UNCORRECTABLE_TOTAL",
        meaning="rows remapped after uncorrectable errors",
        unit="rows",
    ),
    _count(
        "gpu_correctable_remapped_rows_total",
        "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
        "DCGM_FI_DEV_ROW_REMAP_CORRECTABLE_TOTAL",
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
    _count("gpu_ecc_dbe_total", "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", meaning="double-bit ECC errors of the card's life"),
    _count("gpu_ecc_sbe_total", "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL", meaning="single-bit ECC errors of the card's life"),
    _count(
        "gpu_nvlink_crc_flit_error_total",
        "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL",
        meaning="NVLink flow-control CRC errors, all links",
    ),
    _count(
        "gpu_nvlink_crc_data_error_total",
        "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL",
        meaning="NVLink data CRC errors, all links",
    ),
    _count(
        "gpu_nvlink_replay_total",
        "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL",
        meaning="NVLink retries, all links",
    ),
    _count(
        "gpu_nvlink_recovery_total",
        "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL",
        meaning="NVLink recoveries, all links",
    ),
    Metric("gpu_health_flag", "flag", Kind.GAUGE, Level.GPU, (), high=1.0, meaning="1 when the card says it is well"),
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
    _port(
        "port_discards_rx_total", "node_infiniband_port_discards_received_total", meaning="packets dropped on receiving"
    ),
    _port(
        "port_packet_sequence_error_total",
        "node_infiniband_packet_sequence_errors_total",
        meaning="answers that asked for packets again",
    ),
    _port(
        "port_local_ack_timeout_total",
        "node_infiniband_local_ack_timeout_errors_total",
        meaning="sends that were not acknowledged in time",
    ),
    _port(
        "port_rnr_nak_total",
        "node_infiniband_rnr_nak_retry_packets_received_total",
        meaning="answers that the receiver was not ready",
    ),
    _port(
        "port_adaptive_retransmit_total",
        "node_infiniband_roce_adp_retransmits_total",
        meaning="adaptive retransmissions",
    ),
    _port("port_slow_restart_total", "node_infiniband_roce_slow_restart_total", meaning="sends slowed after loss"),
    _port("port_link_recovery_total", "node_infiniband_link_error_recovery_total", meaning="times the link recovered"),
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
    *NCCL_METRICS,
    # A pod's own part of a device that it shares; newer exporters print it beside the device's own number.
    Metric("workload_gpu_util_ratio", "ratio", Kind.GAUGE, Level.WORKLOAD, (), high=1.0, meaning="a pod's own kernels"),
    Metric("workload_memory_used_bytes", "bytes", Kind.GAUGE, Level.WORKLOAD, (), meaning="a pod's own memory"),
    # What a site measures itself, brought in by a mapping of its own.
    Metric("link_latency_seconds", "seconds", Kind.GAUGE, Level.PORT, (), meaning="time from one end to the other"),
    Metric(
        "link_throughput_bytes_per_s", "bytes per second", Kind.RATE, Level.PORT, (), meaning="carried by a connection"
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
        "job_disk_read_bytes_per_s",
        "bytes per second",
        Kind.RATE,
        Level.JOB,
        (),
        meaning="read by the job's hosts from disks and network shares",
    ),
    Metric(
        "job_disk_write_bytes_per_s",
        "bytes per second",
        Kind.RATE,
        Level.JOB,
        (),
        meaning="written by the job's hosts to disks and network shares",
    ),
    Metric(
        "job_cpu_busy_ratio", "ratio", Kind.GAUGE, Level.JOB, (), high=1.0, meaning="processor use of the job's hosts"
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

METRICS: tuple[Metric, ...] = (
    *(_also(row, *AMD_SOURCES.get(row.name, ())) for row in _ROWS),
    *HOST_METRICS,
    *SCHEDULER_METRICS,
    *STEP_METRICS,
    RANK_STEP_METRIC,
)
"""Every row."""
BY_NAME: dict[str, Metric] = {metric.name: metric for metric in METRICS}
SOURCES_OF: dict[str, tuple[tuple[Metric, Source], ...]] = {}
"""Field -> what it may mean; most fields mean one thing, a few tell it by a label."""
for _metric in METRICS:
    for _source in _metric.sources:
        SOURCES_OF[_source.field] = (*SOURCES_OF.get(_source.field, ()), (_metric, _source))
BY_FIELD: dict[str, tuple[Metric, Source]] = {field: meanings[0] for field, meanings in SOURCES_OF.items()}
"""Field -> the first of its meanings."""
PROFILED: frozenset[str] = frozenset(
    metric.name for metric in METRICS if any(source.field.startswith("DCGM_FI_PROF_") for source in metric.sources)
)
"""Metrics from the GPU's profiling counters; they stop while another profiler holds those."""
_PREFIXED = frozenset(source.field for sources in AMD_SOURCES.values() for source in sources)
"""Fields that a site may give a prefix of its own."""
_LONGEST_NAME = 100
"""Longer names than any exporter's are not searched for a prefix."""


def canonical_field(name: str) -> str:
    """The field as the catalogue has it: without a site's prefix where fields may have one."""
    if name in SOURCES_OF or len(name) > _LONGEST_NAME:
        return name
    place = name.find("_")
    while place >= 0:
        if name[place + 1 :] in _PREFIXED:
            return name[place + 1 :]
        place = name.find("_", place + 1)
    return name


def meaning_of(name: str, labels: Mapping[str, str]) -> tuple[Metric, Source] | None:
    """Which metric a line is about and by which source; None when it is unknown or left out on purpose."""
    for metric, source in SOURCES_OF.get(canonical_field(name), ()):
        if not source.only or source.takes(labels):
            return metric, source
    return None


def left_out(name: str) -> bool:
    """Whether a line without a meaning is left out on purpose, as opposed to unknown."""
    return name in IGNORED_FIELDS or canonical_field(name) in SOURCES_OF


DERIVED_RATE: dict[str, str] = {
    "port_tx_bytes_total": "port_tx_bytes_per_s",
    "port_rx_bytes_total": "port_rx_bytes_per_s",
}
"""Counter -> the rate that the transforms derive from it."""

PER_WORKLOAD: dict[str, str] = {
    "gpu_util_ratio": "workload_gpu_util_ratio",
    "gpu_memory_used_bytes": "workload_memory_used_bytes",
}
"""Device metric -> the metric of a pod's line that stands beside the device's own."""

IGNORED_FIELDS: frozenset[str] = frozenset(
    {
        # The same traffic in an older 64-bit extension; adding it would double the bytes.
        "node_infiniband_legacy_data_transmitted_bytes_total",
        "node_infiniband_legacy_data_received_bytes_total",
        # Tells how old the text files are (TEXTFILE_MTIME_FIELD); no sample of its own.
        "node_textfile_mtime_seconds",
    }
)

EXPORTER_POD_HINT = "dcgm-exporter"
"""A pod whose name holds this is the scrape target itself, never a workload."""

TEXT_BLANKS: frozenset[str] = frozenset({"<<<NULL>>>", "<<<NOT_FOUND>>>", "<<<NOT_SUPPORTED>>>", "<<<NOT_PERM>>>"})
INT32_BLANKS = (2147483632.0, 2147483635.0)
FLOAT_BLANKS = (140737488355328.0, 140737488355331.0)
INT64_BLANK_FROM = 9223372036854774784.0
"""2^63 - 1024: the four int64 blanks all read 2^63 once they have been a float64."""

PER_CORE_FIELDS: frozenset[str] = frozenset({"node_cpu_seconds_total"})
"""Fields with a line for each core and mode of a host: left out when a whole server of a fleet is read."""
UPLINK_FIELD = "infiniband_switch_uplink_info"
"""Always 1; its labels say what is plugged into a switch port."""
TEXTFILE_MTIME_FIELD = "node_textfile_mtime_seconds"
"""When each text file that node_exporter reads was written, Unix seconds; its label ``file`` is the path."""
INSPECTOR_TEXTFILE_HINT = "nccl_inspector_metrics_"
"""Text files whose name holds this are NCCL Inspector's; they stay after their job has ended."""
NODE_NAME_FIELD = "node_uname_info"
"""Always 1; its label ``nodename`` is the host's own name."""
ACTIVE_PORT_STATE = 4.0
"""``port_state_id`` of a port that carries traffic (InfiniBand specification, PortState)."""
