"""CPU time of a forecast as the service makes it: round after round over the same series, some seconds apart."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from api.bench.result import Row
from api.bench.simulated import wave
from features.frame import Context
from models.gate import Served
from models.metrics import bootstrap_interval
from models.rounds import Rounds

POINTS, HORIZON = 512, 48
STEP_S = 0.1
APART = 20
"""Points between two rounds: 2 s."""
ROUNDS, QUICK_ROUNDS = 30, 6
PERIODS = (17.0, 34.6, 58.1)
"""Points of an iteration, one job each."""
SHAPES: tuple[tuple[str, float, float, float], ...] = (
    ("gpu_sm_active_ratio", 0.05, 0.85, 1.0),
    ("gpu_tensor_active_ratio", 0.02, 0.5, 1.0),
    ("gpu_dram_active_ratio", 0.05, 0.4, 1.0),
    ("gpu_util_ratio", 0.1, 0.9, 1.0),
    ("gpu_mem_copy_util_ratio", 0.05, 0.3, 1.0),
    ("gpu_power_watts", 120.0, 500.0, 5000.0),
    ("gpu_temperature_celsius", 40.0, 5.0, 150.0),
    ("gpu_pcie_tx_bytes_per_s", 1e8, 5e9, 4e12),
    ("gpu_pcie_rx_bytes_per_s", 1e8, 8e9, 4e12),
    ("gpu_nvlink_tx_bytes_per_s", 1e9, 4e10, 4e12),
    ("gpu_nvlink_rx_bytes_per_s", 1e9, 4e10, 4e12),
)
"""Metric, its level at rest, what work adds, and its greatest legal value."""


def forecast_rows(seed: int, quick: bool, say: Callable[[str], None]) -> list[Row]:
    """CPU per series of 48 steps, 11 levels, calibrated: for a host of 8 GPUs, and for the totals of one job.

    ``first`` is the first round, in which every candidate is asked at every past origin; ``round`` is the mean over the
    rounds after it, each of which counts once in the interval.
    """
    rounds = QUICK_ROUNDS if quick else ROUNDS
    rows: list[Row] = []
    for task, gpus in (("forecast-host", 8), ("forecast-job", 1)):
        say(f"{task}: {rounds} rounds of {len(SHAPES) * gpus} series in {len(PERIODS)} jobs")
        first, later = zip(*(_job_ms(seed, k, gpus, rounds) for k in range(len(PERIODS))), strict=True)
        for model, spent in (("first", np.array(first)), ("round", np.concatenate(later))):
            ends = bootstrap_interval(spent, lambda ms: float(ms.mean()))
            rows.append(Row(task, model, "cpu_ms_per_series", float(spent.mean()), *ends, spent.size))
    return rows


def _job_ms(seed: int, job: int, gpus: int, rounds: int) -> tuple[float, list[float]]:
    """Milliseconds per series of the first round, and of each later one."""
    random = np.random.default_rng([seed, job])
    values, metric, high = _series(random, PERIODS[job], gpus, POINTS + APART * rounds)
    n = values.shape[0]
    served = Served(rounds=Rounds())
    spent = []
    for k in range(rounds):
        part = np.ascontiguousarray(values[:, APART * k : APART * k + POINTS])
        context = Context(part, STEP_S, metric, np.zeros(n, np.int32), np.zeros(n), high)
        began = time.process_time()
        served.predict_served(context, HORIZON)
        spent.append(1000.0 * (time.process_time() - began) / n)
    return spent[0], spent[1:]


def _series(
    random: np.random.Generator, period: float, gpus: int, points: int
) -> tuple[np.ndarray, tuple[str, ...], np.ndarray]:
    """(n, points) of one job whose GPUs share a rhythm, with metric names and greatest values."""
    busy = wave(random, points, period, 0.7, 0.02)
    rows, metric, high = [], [], []
    for _ in range(gpus):
        for name, rest, work, most in SHAPES:
            # A device averages power over about a second, and warms far more slowly.
            width = {"gpu_power_watts": 8, "gpu_temperature_celsius": 80}.get(name, 1)
            shape = np.convolve(busy, np.full(width, 1.0 / width), "same")
            rows.append(np.clip((rest + work * shape) * (1 + 0.05 * random.normal(size=points)), 0.0, most))
            metric.append(name)
            high.append(most)
    return np.stack(rows), tuple(metric), np.array(high)
