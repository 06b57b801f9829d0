"""Names that AMD's device-metrics-exporter gives our metrics; ``telemetry.catalogue`` adds them to its rows.

Names are lower case and may carry a site's prefix such as ``amd_``. Every family is declared a gauge, the cumulative
ones too. Units: percent for shares, MB for memory, micro joules, MHz, KB (cumulative) for xGMI, Mb/s (bits) for PCIe.

Sources: the exporter's metrics list (docs/configuration/metricslist). KB and MB are taken as 1024 and 1024^2 bytes,
as the driver counts them; where an exporter means powers of ten the figures are 2.4 % and 4.9 % too high.
"""

from __future__ import annotations

from telemetry.metric import KIB, MIB, Source

# Every line of this exporter names its GPU; a family of the same name from elsewhere does not.
_CARD = (("gpu_id", ".+"),)
_SYSTEM_CLOCK = (*_CARD, ("clock_type", "(?i).*system.*"), ("clock_index", "0?"))
_MEMORY_CLOCK = (*_CARD, ("clock_type", "(?i).*mem.*"), ("clock_index", "0?"))


def _amd(field: str, scale: float = 1.0) -> Source:
    return Source(field, scale, only=_CARD, zero_on_slice=True)


def _lane(field: str) -> Source:
    return Source(field, KIB, only=(*_CARD, ("link_index", ".+")), device="xgmi{link_index}")


AMD_SOURCES: dict[str, tuple[Source, ...]] = {
    "gpu_util_ratio": (_amd("gpu_gfx_activity", 0.01),),
    "gpu_mem_copy_util_ratio": (_amd("gpu_umc_activity", 0.01),),
    "gpu_gr_engine_active_ratio": (_amd("gpu_prof_gui_util_percent", 0.01),),
    "gpu_sm_active_ratio": (_amd("gpu_prof_sm_active", 0.01),),
    "gpu_sm_occupancy_ratio": (_amd("gpu_prof_occupancy_percent", 0.01),),
    "gpu_tensor_active_ratio": (_amd("gpu_prof_tensor_active_percent", 0.01),),
    "gpu_power_watts": (
        _amd("gpu_package_power"),
        _amd("gpu_average_package_power"),
        _amd("gpu_power_usage"),
    ),
    "gpu_energy_joules_total": (_amd("gpu_energy_consumed", 1e-6),),
    "gpu_memory_used_bytes": (_amd("gpu_used_vram", MIB),),
    "gpu_memory_free_bytes": (_amd("gpu_free_vram", MIB),),
    "gpu_memory_total_bytes": (_amd("gpu_total_vram", MIB),),
    "gpu_temperature_celsius": (_amd("gpu_junction_temperature"), _amd("gpu_edge_temperature")),
    "gpu_memory_temperature_celsius": (_amd("gpu_memory_temperature"),),
    "gpu_sm_clock_hertz": (Source("gpu_clock", 1e6, only=_SYSTEM_CLOCK),),
    "gpu_mem_clock_hertz": (Source("gpu_clock", 1e6, only=_MEMORY_CLOCK),),
    "gpu_pcie_bytes_per_s": (_amd("pcie_bandwidth", 1e6 / 8),),
    "gpu_health_flag": (Source("gpu_health", only=_CARD),),
    "lane_tx_bytes_total": (_lane("gpu_xgmi_link_tx"),),
    "lane_rx_bytes_total": (_lane("gpu_xgmi_link_rx"),),
}
"""Our metric -> the exporter's families."""
