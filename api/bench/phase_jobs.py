"""Simulated jobs with known phases: what they did when, what telemetry shows of it, and what they say themselves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from api.bench.random_jobs import Kind, Pauses, random_spec
from features.frame import CheckpointStamps, Context, JobFrame, StepStamps
from features.transforms.checkpoints import step_before
from forecast.predict.types import PhaseName
from forecast.simulator.activity import DRAM, ENGINE, NVLINK, PCIE_RX, PCIE_TX, SM, TENSOR, levels
from forecast.simulator.workload import JobSpec, SimJob
from models.phase_occurrences import Floats
from telemetry.ids import JobId
from telemetry.jobs import JobView

COLUMNS: dict[str, int] = {
    "gpu_sm_active_ratio": SM,
    "gpu_tensor_active_ratio": TENSOR,
    "gpu_dram_active_ratio": DRAM,
    "gpu_gr_engine_active_ratio": ENGINE,
    "gpu_pcie_tx_bytes_per_s": PCIE_TX,
    "gpu_pcie_rx_bytes_per_s": PCIE_RX,
    "gpu_nvlink_tx_bytes_per_s": NVLINK,
}
FABRIC = "job_fabric_tx_bytes_per_s"
GENERATOR = "1"
KIND = Kind((0.15, 0.5), (0.05, 0.2), 1, Pauses(1.0, (6, 40), (0.6, 4.0)), Pauses(0.4, (12, 50), (1.5, 5.0)))
"""Every job saves."""
GPUS_PER_NODE = 8
WINDOW = 600
WINDOWS = 8
LATE_CHANCE = 0.04
"""How often a save or an evaluation takes up to three times as long: storage is shared."""


@dataclass(frozen=True, slots=True, eq=False)
class Told:
    """A simulated job.

    Args:
        step_s: spacing of its telemetry.
        values: (n_rows, n_points) of the job's totals.
        metric: of the rows.
        truth: (n_points,) phase that lasted longest in each slot, as its place in ``PhaseName``.
        start_s: starts of its checkpoints and of its evaluations, by phase.
        end_s: their ends.
        step_at_s: when its iterations ended.
        by_clock: it saves every so many seconds, not every so many iterations.
    """

    step_s: float
    values: Floats
    metric: tuple[str, ...]
    truth: NDArray[np.intp]
    start_s: dict[PhaseName, Floats]
    end_s: dict[PhaseName, Floats]
    step_at_s: Floats
    by_clock: bool

    def frame(self, column: int, *, stamped: bool, from_column: int = 0) -> JobFrame:
        """What was known after ``column`` slots of the newest window, not before ``from_column``."""
        first = max(from_column, column - WINDOW)
        now_s = column * self.step_s
        values = self.values[:, first:column]
        n = values.shape[0]
        high = np.array([1.0 if name.endswith("_ratio") else np.inf for name in self.metric])
        totals = Context(values, self.step_s, self.metric, np.zeros(n, np.int32), np.zeros(n), high)
        view = JobView(JobId("slurm", "1"), ("node-0",), (), 0.0, now_s)
        steps = saves = None
        if stamped:
            ended = np.flatnonzero(self.step_at_s <= now_s)
            recent = ended[self.step_at_s[ended] > first * self.step_s]
            steps = StepStamps(self.step_at_s[recent], (recent + 1).astype(np.float64)) if recent.size else None
            saves = self._saves(now_s, ended)
        return JobFrame(view, now_s, now_s, totals, (), totals, {}, {}, steps, None, saves)

    def _saves(self, now_s: float, ended: NDArray[np.intp]) -> CheckpointStamps | None:
        start_s, end_s = self.start_s[PhaseName.CHECKPOINT], self.end_s[PhaseName.CHECKPOINT]
        begun = start_s <= now_s
        if not begun.any():
            return None
        stop_s = np.where(end_s[begun] <= now_s, end_s[begun], np.nan)
        return CheckpointStamps(
            start_s[begun], stop_s, step_before(start_s[begun], self.step_at_s[ended], (ended + 1).astype(np.float64))
        )


def simulated(seed: int, number: int) -> Told:
    """One job; the same seed and number give the same."""
    random = np.random.default_rng([seed, 7, number])
    step_s = float(random.choice([0.5, 1.0, 2.0]))
    period_s = step_s * float(np.exp(random.uniform(np.log(5.0), np.log(25.0))))
    span_s = step_s * WINDOW * WINDOWS
    spec = random_spec(random, period_s, KIND)
    by_clock = bool(random.random() < 0.35)
    spans = _spans(spec, random, span_s, by_clock)
    edge_s = np.concatenate([[0.0], np.cumsum([took_s for took_s, _ in spans])])
    names = [name for _, name in spans]
    points = WINDOW * WINDOWS
    slot_s: Floats = step_s * np.arange(points + 1, dtype=np.float64)
    rows = _seen(spec, edge_s, names, slot_s, random)
    start_s = {p: edge_s[:-1][[n is p for n in names]] for p in (PhaseName.CHECKPOINT, PhaseName.EVALUATE)}
    end_s = {p: edge_s[1:][[n is p for n in names]] for p in (PhaseName.CHECKPOINT, PhaseName.EVALUATE)}
    sends = np.array([n is PhaseName.COMMUNICATE for n in names])
    metric = (*COLUMNS, FABRIC)
    truth = _truth(edge_s, names, slot_s)
    return Told(step_s, rows, metric, truth, start_s, end_s, edge_s[1:][sends], by_clock)


def _spans(spec: JobSpec, random: np.random.Generator, span_s: float, by_clock: bool) -> list[tuple[float, PhaseName]]:
    """Phases in turn, (seconds, phase), over at least ``span_s``."""
    job = SimJob(spec, int(random.integers(1 << 31)), 0)
    every_s = spec.checkpoint_every * spec.period_s
    uneven = float(random.choice([0.02, 0.05, 0.15]))
    drift = float(random.choice([0.0, 0.0, random.uniform(-0.05, 0.05)]))
    spans: list[tuple[float, PhaseName]] = []
    at_s, saved_s = 0.0, 0.0
    while at_s < span_s:
        job.next_phase(at_s)
        rare = job.phase in (PhaseName.CHECKPOINT, PhaseName.EVALUATE)
        if by_clock and job.phase is PhaseName.CHECKPOINT:
            continue  # this job saves by the clock, below
        took_s = job.remaining_bytes / spec.rate_bytes_per_s if job.communicating else job.ends_s - at_s
        took_s *= _stretch(random, uneven) if rare else 1.0 + drift * (at_s / span_s - 0.5)
        spans.append((took_s, job.phase))
        at_s += took_s
        if by_clock and job.communicating and at_s - saved_s >= every_s:
            saved_s = at_s
            took_s = spec.checkpoint_s * _stretch(random, uneven)
            spans.append((took_s, PhaseName.CHECKPOINT))
            at_s += took_s
    return spans


def _stretch(random: np.random.Generator, uneven: float) -> float:
    late = random.uniform(1.5, 3.0) if random.random() < LATE_CHANCE else 1.0
    return float(np.exp(uneven * random.standard_normal()) * late)


def _seen(spec: JobSpec, edge_s: Floats, names: list[PhaseName], slot_s: Floats, random: np.random.Generator) -> Floats:
    """(n_rows, n_points) means over each slot, with noise."""
    rows = []
    kinds = list(PhaseName)
    row_of = {p: levels(spec, p, spec.rate_bytes_per_s if p is PhaseName.COMMUNICATE else 0.0, 8) for p in kinds}
    fabric = {p: spec.rate_bytes_per_s if p is PhaseName.COMMUNICATE else 1e6 for p in kinds}
    level = np.array([np.append(row_of[p][list(COLUMNS.values())], fabric[p]) for p in names])
    total = np.concatenate([np.zeros((1, level.shape[1])), np.cumsum(level * np.diff(edge_s)[:, None], axis=0)])
    noise = random.uniform(0.01, 0.06)
    for column, name in enumerate((*COLUMNS, FABRIC)):
        row = np.diff(np.interp(slot_s, edge_s, total[:, column])) / np.diff(slot_s)
        row *= 1.0 + noise * random.standard_normal(row.size)
        row[random.random(row.size) < 0.003] = np.nan
        rows.append(np.clip(row, 0.0, 1.0) if name.endswith("_ratio") else np.maximum(row, 0.0) * GPUS_PER_NODE)
    return np.stack(rows)


def _truth(edge_s: Floats, names: list[PhaseName], slot_s: Floats) -> NDArray[np.intp]:
    """(n_points,) the phase that lasted longest in each slot."""
    kinds = list(PhaseName)
    held = []
    for phase in kinds:
        inside = np.array([name is phase for name in names], np.float64) * np.diff(edge_s)
        held.append(np.diff(np.interp(slot_s, edge_s, np.append(0.0, np.cumsum(inside)))))
    longest: NDArray[np.intp] = np.argmax(np.stack(held), axis=0)
    return longest
