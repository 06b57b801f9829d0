"""The signs from which phases are read: each between 0 and 1, relative to the job's own range.

Levels are relative because an absolute one would call a small model idle and a badly fed one busy; floors keep
noise on a quiet device from looking like work.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from features.frame import Context

FloatArray = NDArray[np.float64]

RATIO_FLOOR = 0.02
"""An activity ratio whose own top is below 2 % is not work."""
BYTES_FLOOR = 50e6
"""A job's sum of bytes per second whose own top is below 50 MB/s is background."""

COMPUTE = ("gpu_tensor_active_ratio", "gpu_dram_active_ratio")
ENGINE = ("gpu_sm_active_ratio", "gpu_gr_engine_active_ratio", "gpu_util_ratio")
NETWORK = ("job_fabric_tx_bytes_per_s", "gpu_nvlink_tx_bytes_per_s", "gpu_nvlink_bytes_per_s")
PCIE_IN = ("gpu_pcie_rx_bytes_per_s",)
PCIE_OUT = ("gpu_pcie_tx_bytes_per_s",)


@dataclass(frozen=True, slots=True, eq=False)
class Signals:
    """One column per slot, NaN where nothing was observed.

    Args:
        compute: tensor pipe (or memory, or engine) activity.
        engine: share of time in which kernels ran.
        network: fabric, or NVLink where no fabric is seen.
        pcie_in: host to device.
        pcie_out: device to host.
        used: which metric stands behind each sign; empty where none does.
    """

    compute: FloatArray
    engine: FloatArray
    network: FloatArray
    pcie_in: FloatArray
    pcie_out: FloatArray
    used: dict[str, str]

    @property
    def known(self) -> NDArray[np.bool_]:
        """Slots in which at least the engine or the compute sign was observed."""
        return np.isfinite(self.compute) | np.isfinite(self.engine)


def signals(totals: Context) -> Signals:
    """Read the signs off a job's totals."""
    used: dict[str, str] = {}
    engine = _sign(totals, ENGINE, RATIO_FLOOR, "engine", used)
    compute = _sign(totals, COMPUTE, RATIO_FLOOR, "compute", used)
    if "compute" not in used:
        compute = engine
    return Signals(
        compute=compute,
        engine=engine if "engine" in used else compute,
        network=_network(totals, used),
        pcie_in=_sign(totals, PCIE_IN, BYTES_FLOOR, "pcie_in", used),
        pcie_out=_sign(totals, PCIE_OUT, BYTES_FLOOR, "pcie_out", used),
        used=used,
    )


def _network(totals: Context, used: dict[str, str]) -> FloatArray:
    """Fabric where the job sends any, else NVLink: a one-host job still communicates."""
    found: list[tuple[FloatArray, dict[str, str]]] = []
    for metric in NETWORK:
        name: dict[str, str] = {}
        level = _sign(totals, (metric,), BYTES_FLOOR, "network", name)
        if name:
            found.append((level, name))
    if not found:
        return np.full(totals.n_points, np.nan)
    level, name = next((pair for pair in found if np.nanmax(pair[0]) > 0.0), found[0])
    used.update(name)
    return level


def _sign(totals: Context, metrics: tuple[str, ...], floor: float, name: str, used: dict[str, str]) -> FloatArray:
    """The first metric that has a row with data, scaled by the job's own range; NaN when there is none."""
    for metric in metrics:
        if metric in totals.metric:
            row = totals.values[totals.metric.index(metric)]
            if np.isfinite(row).any():
                used[name] = metric
                return relative(row, floor)
    return np.full(totals.n_points, np.nan)


def relative(row: FloatArray, floor: float) -> FloatArray:
    """A row between its own 2 % and 95 % quantile, 0..1; a row whose top is below ``floor`` is 0 throughout."""
    good = row[np.isfinite(row)]
    low, high = np.quantile(good, (0.02, 0.95))
    if high < floor:
        # Rare bursts lie above the 95 % quantile: their own top is the range then.
        high = float(good.max())
    if high < floor:
        return np.where(np.isfinite(row), 0.0, np.nan)
    # Chatter below a tenth of the top is not work; above it, the distance from nothing is what counts.
    base = low if low < 0.1 * high else 0.0
    return np.asarray(np.clip((row - base) / (high - base), 0.0, 1.0), np.float64)
