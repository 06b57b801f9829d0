"""What a GPU does in each phase, and how an exporter sees it: means over its refresh interval, with noise."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from forecast.predict.types import PhaseName
from forecast.simulator.workload import JobSpec

FloatArray = NDArray[np.float64]

COLUMNS = ("sm", "tensor", "dram", "engine", "occupancy", "pcie_tx", "pcie_rx", "nvlink", "power")
"""What is tracked per job: ratios, bytes per second and direction of one GPU, watts."""
SM, TENSOR, DRAM, ENGINE, OCCUPANCY, PCIE_TX, PCIE_RX, NVLINK, POWER = range(len(COLUMNS))
N_RATIOS = PCIE_TX
"""The first columns are ratios in 0..1."""

IDLE_WATTS = 72.0
TOTAL_MIB = 81559
"""Framebuffer of an 80 GB card."""

# Levels in the manner of public 10 Hz records of H100 training: compute busy and hot, communication with few
# SMs and much NVLink, loading and checkpoints almost idle with PCIe in use.
_LEVELS: dict[PhaseName, tuple[float, ...]] = {
    PhaseName.LOAD: (0.07, 0.01, 0.06, 0.35, 0.04, 4e8, 9e9, 1e8, 165.0),
    PhaseName.COMPUTE: (1.00, 0.58, 0.50, 0.99, 0.40, 6e8, 7e8, 4e9, 640.0),
    PhaseName.COMMUNICATE: (0.24, 0.01, 0.20, 0.97, 0.09, 1e8, 1e8, 1e8, 245.0),
    PhaseName.CHECKPOINT: (0.01, 0.00, 0.03, 0.08, 0.00, 1.1e10, 1e8, 0.0, 120.0),
    PhaseName.EVALUATE: (0.72, 0.46, 0.36, 0.95, 0.30, 3e8, 2.5e9, 2e9, 430.0),
    PhaseName.INIT: (0.0, 0.0, 0.0, 0.0, 0.0, 1e6, 1e6, 0.0, IDLE_WATTS + 40.0),
    PhaseName.IDLE: (0.0, 0.0, 0.0, 0.0, 0.0, 1e6, 1e6, 0.0, IDLE_WATTS + 40.0),
}
UNUSED = np.array((0.0, 0.0, 0.0, 0.0, 0.0, 4e5, 4e5, 0.0, IDLE_WATTS))
"""A GPU that nobody holds."""
_NVLINK_PER_FABRIC = 8.0
"""Bytes inside a host for each byte that leaves it, per GPU, in a hierarchical all-reduce over 8 GPUs."""


def levels(spec: JobSpec, phase: PhaseName, rate_bytes_per_s: float, gpus_per_node: int) -> FloatArray:
    """What one GPU of the job does now, (n_columns,); ``rate_bytes_per_s`` is what its ring edge carries."""
    row = np.array(_LEVELS[phase])
    if phase in (PhaseName.COMPUTE, PhaseName.EVALUATE):
        row[:N_RATIOS] *= spec.intensity_ratio
        row[ENGINE] = _LEVELS[phase][ENGINE]
        row[POWER] = IDLE_WATTS + (row[POWER] - IDLE_WATTS) * spec.intensity_ratio
    if phase is PhaseName.COMMUNICATE:
        # NIC traffic passes the GPU's PCIe lanes (GPUDirect RDMA), each GPU with its part of it.
        share = rate_bytes_per_s / gpus_per_node
        row[PCIE_TX] += share
        row[PCIE_RX] += share
        row[NVLINK] += share * _NVLINK_PER_FABRIC
    return row


class GpuGauges:
    """What the exporter of every host shows: arrays over (node, gpu), renewed one host at a time.

    Args:
        n_nodes: hosts.
        n_gpus: cards per host.
        seed: of the noise and of the small lasting differences between cards.
        noise_ratio: standard deviation of the noise.
    """

    def __init__(self, n_nodes: int, n_gpus: int, seed: int, noise_ratio: float) -> None:
        shape = (n_nodes, n_gpus)
        self._noise_ratio = noise_ratio
        rng = np.random.default_rng([seed, 2])
        self._bias = 1.0 + 0.02 * np.clip(rng.standard_normal((*shape, len(COLUMNS))), -2.0, 2.0)
        # One stream per host, so that pages do not depend on who is asked first.
        self._rngs = [np.random.default_rng([seed, 3, node]) for node in range(n_nodes)]
        self.values: FloatArray = np.broadcast_to(UNUSED, (*shape, len(COLUMNS))).copy()
        self.energy_joules: FloatArray = 1e8 * (1.0 + rng.random(shape))
        self.temperature_celsius: FloatArray = 32.0 + 4.0 * rng.random(shape)
        self._ambient = self.temperature_celsius.copy()
        self.version = np.zeros(n_nodes, dtype=np.int64)
        """Counts the renewals of each host's values."""

    def renew(self, node: int, mean: FloatArray, over_s: float) -> None:
        """Show the means (n_columns,) over the last ``over_s`` seconds on one host."""
        noise = self._rngs[node].standard_normal(self.values.shape[1:])
        row = mean * self._bias[node] * (1.0 + self._noise_ratio * np.clip(noise, -4.0, 4.0))
        np.clip(row[:, :N_RATIOS], 0.0, 1.0, out=row[:, :N_RATIOS])
        self.values[node] = row
        power = row[:, POWER]
        self.energy_joules[node] += power * over_s
        # The die follows its power within about 15 s; 0.07 K per watt above idle.
        goal = self._ambient[node] + 0.07 * (power - IDLE_WATTS)
        self.temperature_celsius[node] += (goal - self.temperature_celsius[node]) * -np.expm1(-over_s / 15.0)
        self.version[node] += 1
