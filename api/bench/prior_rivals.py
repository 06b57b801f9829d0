"""What the prior is compared with: nearest system, ratio of peaks, median of all, a log-linear fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from forecast.priors.hardware import ACCELERATORS
from forecast.priors.runs import Floats, Runs

Rival = Callable[[Runs, Runs], Floats]
"""(known runs, wanted) -> log of samples a second and device, (n wanted,). Workloads not among the known runs are given by
their FLOPs; then throughput is carried over as FLOP/s."""


def _peer_rates(known: Runs, workload: str) -> tuple[Runs, Floats]:
    """Runs of the same workload and their log rates; of all with known FLOPs, as log FLOP/s, where there is none."""
    same = [i for i, name in enumerate(known.workload) if name == workload]
    if same:
        peers = known.take(same)
        return peers, np.log(peers.samples_per_s / peers.gpus)
    peers = known.take(np.flatnonzero(known.known_work))
    return peers, np.log(peers.samples_per_s / peers.gpus * peers.flops)


def _each(known: Runs, wanted: Runs, choose: Callable[[Runs, Floats, str, float], float]) -> Floats:
    found = np.empty(len(wanted))
    for i, (workload, device) in enumerate(zip(wanted.workload, wanted.accelerator, strict=True)):
        peers, rates = _peer_rates(known, workload)
        value = choose(peers, rates, device, float(wanted.gpus[i]))
        found[i] = value if workload in known.workload else value - np.log(wanted.flops[i])
    return found


def _peaks(runs: Runs) -> Floats:
    return np.log([ACCELERATORS[name].peak("bf16") for name in runs.accelerator])


def nearest_system(known: Runs, wanted: Runs) -> Floats:
    """The rate of the nearest run: the same device where there is one, else the nearest peak; then the nearest size."""

    def choose(peers: Runs, rates: Floats, device: str, gpus: float) -> float:
        away = np.abs(_peaks(peers) - np.log(ACCELERATORS[device].peak("bf16")))
        other = np.array([name != device for name in peers.accelerator], dtype=np.float64)
        return float(rates[np.argmin(100.0 * other + 10.0 * away + np.abs(np.log(peers.gpus / gpus)))])

    return _each(known, wanted, choose)


def peak_ratio(known: Runs, wanted: Runs) -> Floats:
    """The median share of the peak, times the peak."""
    return _each(
        known,
        wanted,
        lambda peers, rates, device, _: float(
            np.median(rates - _peaks(peers)) + np.log(ACCELERATORS[device].peak("bf16"))
        ),
    )


def overall_median(known: Runs, wanted: Runs) -> Floats:
    """The median rate: what persistence is for series."""
    return _each(known, wanted, lambda _, rates, __, ___: float(np.median(rates)))


def log_linear(known: Runs, wanted: Runs) -> Floats:
    """Least squares on device, workload and log of the size per workload; a light ridge keeps rare columns in place."""
    if not set(wanted.workload) <= set(known.workload):
        # Levels of workloads without known FLOPs would say nothing about one that was never seen.
        known = known.take(np.flatnonzero(known.known_work))
    devices, workloads = sorted(set(known.accelerator)), sorted(set(known.workload))

    def design(runs: Runs) -> Floats:
        device = np.array([[name == column for column in devices] for name in runs.accelerator], dtype=np.float64)
        work = np.array([[name == column for column in workloads] for name in runs.workload], dtype=np.float64)
        size = np.log(runs.gpus / 16.0)[:, None]
        return np.hstack([np.ones((len(runs), 1)), device, work, size, work * size])

    matrix, target = design(known), known.efficiency_log
    ridge = np.full(matrix.shape[1], 1e-2)
    ridge[0] = 1e-9
    solution = np.linalg.solve(matrix.T @ matrix + np.diag(ridge), matrix.T @ target)
    return np.asarray(design(wanted) @ solution + wanted.ideal_log)


RIVALS: Mapping[str, Rival] = MappingProxyType(
    {
        "overall-median": overall_median,
        "peak-ratio": peak_ratio,
        "nearest-system": nearest_system,
        "log-linear": log_linear,
    }
)
"""Name -> rival."""
