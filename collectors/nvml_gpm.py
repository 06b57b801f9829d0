"""GPU performance monitoring (GPM) through NVML: SM, tensor and memory activity, PCIe and NVLink rates. Hopper and newer.

A figure is what happened between two snapshots of the GPU's counters, so each device keeps the one before.
"""

from __future__ import annotations

from typing import Any

from telemetry.catalogue import MIB

LEAST_SPACING_S = 0.1
"""Closer snapshots give noise; NVIDIA asks for 100 ms at least."""

# Our metric -> the library's constant, and what its number is multiplied with to get our unit.
_RATIO = 0.01
METRICS: dict[str, tuple[str, float]] = {
    "gpu_gr_engine_active_ratio": ("NVML_GPM_METRIC_GRAPHICS_UTIL", _RATIO),
    "gpu_sm_active_ratio": ("NVML_GPM_METRIC_SM_UTIL", _RATIO),
    "gpu_sm_occupancy_ratio": ("NVML_GPM_METRIC_SM_OCCUPANCY", _RATIO),
    "gpu_int_active_ratio": ("NVML_GPM_METRIC_INTEGER_UTIL", _RATIO),
    "gpu_tensor_active_ratio": ("NVML_GPM_METRIC_ANY_TENSOR_UTIL", _RATIO),
    "gpu_dram_active_ratio": ("NVML_GPM_METRIC_DRAM_BW_UTIL", _RATIO),
    "gpu_fp64_active_ratio": ("NVML_GPM_METRIC_FP64_UTIL", _RATIO),
    "gpu_fp32_active_ratio": ("NVML_GPM_METRIC_FP32_UTIL", _RATIO),
    "gpu_fp16_active_ratio": ("NVML_GPM_METRIC_FP16_UTIL", _RATIO),
    "gpu_pcie_tx_bytes_per_s": ("NVML_GPM_METRIC_PCIE_TX_PER_SEC", MIB),
    "gpu_pcie_rx_bytes_per_s": ("NVML_GPM_METRIC_PCIE_RX_PER_SEC", MIB),
    "gpu_nvlink_tx_bytes_per_s": ("NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC", MIB),
    "gpu_nvlink_rx_bytes_per_s": ("NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC", MIB),
}
_SUCCESS = 0


class Gpm:
    """One device's, or one MIG instance's, pair of snapshots.

    Args:
        library: ``pynvml``.
        handle: of the card.
        instance: MIG instance id; None for the card.
    """

    def __init__(self, library: Any, handle: Any, instance: int | None = None) -> None:
        self._library = library
        self._handle = handle
        self._instance = instance
        self._before: Any = None
        self._before_at_s = 0.0
        self._spare: Any = None
        self._newest: dict[str, float] = {}

    def read(self, at_s: float) -> dict[str, float]:
        """Figures since the snapshot before, in our units; nothing at the first call, the same again when too early.

        Args:
            at_s: a monotonic time.

        Raises:
            library.NVMLError: the device does not do this, or is gone.
        """
        if self._before is not None and at_s - self._before_at_s < LEAST_SPACING_S:
            return self._newest
        sample = self._spare if self._spare is not None else self._library.nvmlGpmSampleAlloc()
        if self._instance is None:
            self._library.nvmlGpmSampleGet(self._handle, sample)
        else:
            self._library.nvmlGpmMigSampleGet(self._handle, self._instance, sample)
        if self._before is not None:
            self._newest = self._between(self._before, sample)
        self._before, self._spare, self._before_at_s = sample, self._before, at_s
        return self._newest

    def _between(self, before: Any, after: Any) -> dict[str, float]:
        question = self._library.c_nvmlGpmMetricsGet_t()
        question.version = self._library.NVML_GPM_METRICS_GET_VERSION
        question.numMetrics = len(METRICS)
        question.sample1, question.sample2 = before, after
        for place, (constant, _) in enumerate(METRICS.values()):
            question.metrics[place].metricId = getattr(self._library, constant)
        answer = self._library.nvmlGpmMetricsGet(question)
        return {
            name: answer.metrics[place].value * scale
            for place, (name, (_, scale)) in enumerate(METRICS.items())
            if answer.metrics[place].nvmlReturn == _SUCCESS
        }

    def close(self) -> None:
        """Release the snapshots."""
        for sample in (self._before, self._spare):
            if sample is not None:
                self._library.nvmlGpmSampleFree(sample)
        self._before = self._spare = None
