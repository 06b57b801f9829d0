"""What to add to dcgm-exporter's counters file for fields that nobody gives, and what their absence costs."""

from __future__ import annotations

from collections.abc import Iterable

from telemetry.catalogue import BY_NAME, Kind, Metric

_NVIDIA = "DCGM_"
_COSTS: dict[str, str] = {
    "gpu_gr_engine_active_ratio": "iterations and idle time are then read from coarser utilisation, which is always high",
    "gpu_sm_active_ratio": "phases of an iteration are then told apart by power alone, which lags by about a second",
    "gpu_tensor_active_ratio": "compute phases cannot be told from memory-bound ones",
    "gpu_dram_active_ratio": "memory-bound phases and data loading look like idleness",
    "gpu_nvlink_tx_bytes_per_s": "exchange inside a host is not seen, so phases of communication are found late or not",
    "gpu_nvlink_rx_bytes_per_s": "exchange inside a host is not seen, so phases of communication are found late or not",
    "gpu_pcie_tx_bytes_per_s": "checkpoints and offloading are not seen",
    "gpu_pcie_rx_bytes_per_s": "data loading is not seen",
    "gpu_power_watts": "there is no forecast of power, and no witness when the profiling counters stop",
    "gpu_memory_used_bytes": "there is no forecast of memory and no warning before it runs out",
    "gpu_util_ratio": "there is no witness when the profiling counters stop, and old cards have no activity at all",
    "job_fabric_tx_bytes_per_s": "bursts on the network cannot be foreseen, and no advice on links is given",
    "job_fabric_rx_bytes_per_s": "bursts on the network cannot be foreseen, and no advice on links is given",
}
"""Metric -> what its absence costs. Metrics that are not here refine a figure and cost no forecast of their own."""


def cost_of(metric: str) -> str:
    """What forecasts lose without a metric, a clause without a full stop; empty when nothing of their own."""
    return _COSTS.get(metric, "")


def counter_lines(missing: Iterable[str]) -> list[str]:
    """Lines for dcgm-exporter's counters file that would bring these metrics, sorted; none for what DCGM has not.

    The file has three columns, ``field, type, help``, so the help has no comma. A file given to the exporter replaces
    its own, so these lines go to the end of the one in use.

    Args:
        missing: catalogue names.
    """
    rows = (BY_NAME[name] for name in sorted(set(missing)) if name in BY_NAME)
    return [_line(row) for row in rows if row.sources and row.sources[0].field.startswith(_NVIDIA)]


def _line(row: Metric) -> str:
    kind = "counter" if row.kind is Kind.COUNTER else "gauge"
    return f"{row.sources[0].field}, {kind}, {row.meaning.replace(',', ';')}."
