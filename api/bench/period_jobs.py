"""Seeded telemetry of simulated jobs whose period is known, as exporters of several kinds would show it.

A job of the simulator runs alone; its phases are laid on a time line and averaged over what each exporter averages, at
the moments at which it is read. Nothing of the estimator is used.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from api.bench.random_jobs import Kind, Pauses
from features.frame import Context
from forecast.predict.types import PhaseName
from forecast.simulator.activity import ENGINE, NVLINK, PCIE_RX, POWER, SM, TENSOR, levels
from forecast.simulator.workload import JobSpec, SimJob

Floats = NDArray[np.float64]

KIND = Kind((0.08, 0.6), (0.02, 0.2), 2, Pauses(0.4, (8, 60), (0.5, 4.0)), Pauses(0.15, (20, 80), (1.0, 5.0)))
POWER_MEAN_S = 1.0
"""A card's power is itself a mean over about a second."""
FABRIC = len((SM, TENSOR, ENGINE, PCIE_RX, NVLINK, POWER))
"""Place of the network's bytes among the columns that are kept."""
COLUMNS: tuple[tuple[str, int], ...] = (
    ("gpu_sm_active_ratio", SM),
    ("gpu_tensor_active_ratio", TENSOR),
    ("gpu_gr_engine_active_ratio", ENGINE),
    ("gpu_pcie_rx_bytes_per_s", PCIE_RX),
    ("gpu_nvlink_bytes_per_s", NVLINK),
    ("gpu_power_watts", POWER),
)
"""Metric -> column of the simulator's levels."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a job is seen.

    Args:
        step_s: spacing of the grid.
        points: of the window.
        refresh_s: an exporter's value is the mean over this long, and changes so often.
        jitter_ratio: how far reads stray from the grid, standard deviation as a share of ``step_s``.
        lost_ratio: share of reads that are missing.
        noise_ratio: standard deviation of a value.
        gpus: cards that are read.
        network: the host's network ports are read too.
    """

    step_s: float
    points: int
    refresh_s: float
    jitter_ratio: float
    lost_ratio: float
    noise_ratio: float
    gpus: int
    network: bool


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """What one GPU of a job does over time, constant between the edges.

    Args:
        edge_s: (n + 1,) seconds.
        level: (n, n_columns) between them, the last column being the network's bytes per second.
        total: (n + 1, n_columns) their running integral at the edges.
        plain_s: (n_iterations,) ends of the iterations that held neither checkpoint nor evaluation.
        length_s: (n_iterations,) their lengths.
    """

    edge_s: Floats
    level: Floats
    total: Floats
    plain_s: Floats
    length_s: Floats

    def mean(self, column: int, from_s: Floats, to_s: Floats) -> Floats:
        """Mean of a column over each span."""
        total = self.total[:, column]
        seen: Floats = np.interp(to_s, self.edge_s, total) - np.interp(from_s, self.edge_s, total)
        return seen / (to_s - from_s)

    def period_s(self, from_s: float, to_s: float) -> float:
        """Median length of the plain iterations that ended in the span."""
        inside = (self.plain_s > from_s) & (self.plain_s <= to_s)
        return float(np.median(self.length_s[inside])) if inside.any() else float("nan")


def line_of(spec: JobSpec, random: np.random.Generator, span_s: float) -> Line:
    """The job's time line over at least ``span_s``, with micro-batches and a slow drift of its pace in some."""
    job = SimJob(spec, int(random.integers(1 << 31)), 0)
    micro = int(random.choice([1, 1, 1, 2, 4, 8]))
    dip = random.uniform(0.3, 0.9)
    drift = float(random.choice([0.0, 0.0, random.uniform(-0.03, 0.03)]))
    spans: list[tuple[float, PhaseName, float]] = []
    ends: list[tuple[int, bool]] = []
    at_s = 0.0
    begun = -1
    while at_s < span_s:
        job.next_phase(at_s)
        if job.iteration != begun:
            begun = job.iteration
            ends.append((len(spans), True))
        plain = job.phase not in (PhaseName.CHECKPOINT, PhaseName.EVALUATE)
        if not plain:
            ends[-1] = (ends[-1][0], False)
        sends = job.phase is PhaseName.COMMUNICATE
        took_s = job.remaining_bytes / spec.rate_bytes_per_s if sends else job.ends_s - at_s
        # A drifting pace stretches everything alike.
        took_s *= 1.0 + drift * (at_s / span_s - 0.5)
        for share, factor in _micro_batches(job.phase, micro, dip):
            spans.append((took_s * share, job.phase, factor))
        at_s += took_s
    edge_s = np.concatenate([[0.0], np.cumsum([one[0] for one in spans])])
    level = np.array([_level(spec, phase, factor) for _, phase, factor in spans])
    start_s = edge_s[[one[0] for one in ends]]
    steady = np.array([one[1] for one in ends])[:-1]
    total = np.concatenate([np.zeros((1, level.shape[1])), np.cumsum(level * np.diff(edge_s)[:, None], axis=0)])
    return Line(edge_s, level, total, start_s[1:][steady], np.diff(start_s)[steady])


def _micro_batches(phase: PhaseName, micro: int, dip: float) -> list[tuple[float, float]]:
    """Parts of a phase: (share of its time, factor of its levels)."""
    if phase is not PhaseName.COMPUTE or micro == 1:
        return [(1.0, 1.0)]
    return [(share / micro, factor) for _ in range(micro) for share, factor in ((0.85, 1.0), (0.15, 1.0 - dip))]


def _level(spec: JobSpec, phase: PhaseName, factor: float) -> Floats:
    sends = phase is PhaseName.COMMUNICATE
    row = levels(spec, phase, spec.rate_bytes_per_s if sends else 0.0, 8) * factor
    return np.append(row[[column for _, column in COLUMNS]], spec.rate_bytes_per_s if sends else 1e6)


def seen(line: Line, how: Sampling, start_s: float, random: np.random.Generator) -> Context:
    """The window that ends ``points`` samples after ``start_s``, as a collector would lay it on its grid."""
    grid_s = start_s + how.step_s * np.arange(1, how.points + 1)
    rows: list[Floats] = []
    metric: list[str] = []
    # One exporter reads all cards of a host at once; it renews its values by its own clock and shows the last until then.
    renewed_s = random.uniform(0, how.refresh_s)
    read_s = grid_s + how.step_s * np.clip(how.jitter_ratio * random.standard_normal(how.points), -0.45, 0.45)
    for _ in range(how.gpus):
        to_s = read_s - np.mod(read_s - renewed_s, how.refresh_s)
        for place, (name, _) in enumerate(COLUMNS):
            over_s = max(how.refresh_s, POWER_MEAN_S) if name == "gpu_power_watts" else how.refresh_s
            value = line.mean(place, np.maximum(to_s - over_s, 0.0), np.maximum(to_s, over_s * 1e-3))
            rows.append(value * (1.0 + 0.02 * random.standard_normal()))
            metric.append(name)
    if how.network:
        # Ports count bytes, so that two reads give the mean between them whatever the refresh.
        read_s = grid_s + how.step_s * np.clip(how.jitter_ratio * random.standard_normal(how.points), -0.45, 0.45)
        before_s = np.concatenate([[read_s[0] - how.step_s], read_s[:-1]])
        rows.append(line.mean(FABRIC, before_s, read_s))
        metric.append("port_tx_bytes_per_s")
    values = np.stack(rows)
    values *= 1.0 + how.noise_ratio * random.standard_normal(values.shape)
    values[random.random(values.shape) < how.lost_ratio] = np.nan
    high = np.array([1.0 if name.endswith("_ratio") else np.inf for name in metric])
    values = np.clip(values, 0.0, high[:, None])
    n = len(metric)
    return Context(values, how.step_s, tuple(metric), np.zeros(n, np.int32), np.zeros(n), high)
