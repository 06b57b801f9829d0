"""Seeded recordings with the same names and shapes as the recorded ones, for a machine without the data."""

from __future__ import annotations

import numpy as np

from api.bench.datasets import POD_STEP_S, ROCE_STEP_S, Dataset, Floats, Recording

GENERATOR = "1"
"""Version of the generator; part of the digest, so that figures of different generators are never compared."""


def simulated_datasets(seed: int, quick: bool) -> list[Dataset]:
    """The four data sets, each prefixed ``sim-``."""
    random = np.random.default_rng(seed)
    jobs = [_job(random, name, period_s, 0.1, 2700) for name, period_s in (("fast", 1.7), ("slow", 5.3), ("none", 0.0))]
    jobs = jobs[:2] if quick else jobs
    origins = 1 if quick else 3
    ports = 12 if quick else 80
    return [
        Dataset("sim-h100-100ms", tuple(jobs), 512, 48, origins=origins),
        Dataset("sim-h100-1s", tuple(_mean_of_ten(job) for job in jobs), 512, 30, origins=origins),
        Dataset("sim-pods-57s", (_pods(random, 6 if quick else 40),), 512, 30, origins=origins, trained_served=True),
        Dataset("sim-roce-5s", (_ports(random, ports),), 512, 60, (1, 6, 12, 60), origins=origins, trained_served=True),
    ]


def wave(random: np.random.Generator, points: int, period: float, duty: float, jitter: float) -> Floats:
    """(points,) 1 in the busy part of each iteration and 0 in the rest; iterations vary in length, some are checkpoints."""
    out = np.zeros(points)
    start, count = -random.uniform(0, period), 0
    while start < points:
        length = max(2.0, period * (1 + jitter * random.normal()))
        out[max(0, round(start)) : max(0, round(start + duty * length))] = 1.0
        count += 1
        # Every fortieth iteration writes a checkpoint, during which nothing computes.
        start += length + (2.5 * period if count % 40 == 0 else 0.0)
    return out


def _job(random: np.random.Generator, name: str, period_s: float, step_s: float, points: int) -> Recording:
    busy = wave(random, points, period_s / step_s, 0.7, 0.02) if period_s else np.full(points, 0.6)
    values, metric, entity = [], [], []
    for gpu in range(4):
        shapes = {
            "gpu_sm_active_ratio": 0.05 + 0.85 * busy,
            "gpu_tensor_active_ratio": 0.02 + 0.5 * busy,
            "gpu_power_watts": 120 + 500 * np.convolve(busy, np.full(8, 1 / 8), "same"),
            "gpu_nvlink_tx_bytes_per_s": 1e9 + 4e10 * (1 - busy),
        }
        for ours, shape in shapes.items():
            values.append(np.maximum(shape * (1 + 0.06 * random.normal(size=points)), 0.0))
            metric.append(ours)
            entity.append(f"{name}.{gpu}")
    high = np.array([1.0 if ours.endswith("_ratio") else 5000.0 if "watts" in ours else 4e12 for ours in metric])
    stacked = np.minimum(np.stack(values), high[:, None])
    return Recording(name, stacked, step_s, tuple(metric), tuple(entity), np.zeros(len(values), np.int32), high)


def _mean_of_ten(job: Recording) -> Recording:
    n, t = job.values.shape
    values = job.values[:, : t - t % 10].reshape(n, -1, 10).mean(axis=2)
    return Recording(job.name, values, job.step_s * 10, job.metric, job.entity, job.group, job.high)


def _pods(random: np.random.Generator, pods: int) -> Recording:
    values = np.zeros((pods, 1440))
    for pod in range(pods):
        at = 0
        while at < 1440:
            idle, work = int(random.exponential(120)) + 1, int(random.exponential(60)) + 1
            values[pod, at + idle : at + idle + work] = np.clip(random.normal(0.4, 0.15, size=work), 0, 1)[
                : max(0, 1440 - at - idle)
            ]
            at += idle + work
    names = tuple(str(pod) for pod in range(pods))
    group = np.arange(pods, dtype=np.int32)
    return Recording("pods", values, POD_STEP_S, ("gpu_util_ratio",) * pods, names, group, np.ones(pods))


def _ports(random: np.random.Generator, ports: int) -> Recording:
    values = np.empty((ports, 720))
    leaf = np.arange(ports, dtype=np.int32) // 8
    for number in range(int(leaf.max()) + 1):
        burst = wave(random, 720, random.uniform(5, 24), 0.6, 0.03)
        for port in np.flatnonzero(leaf == number):
            values[port] = np.maximum(2e8 + 8e9 * burst * (1 + 0.1 * random.normal(size=720)), 0.0)
    values[:, 200:203] = np.nan
    names = tuple(f"leaf-{leaf[port]} port-{port}" for port in range(ports))
    metric = ("port_tx_bytes_per_s",) * ports
    return Recording("roce", values, ROCE_STEP_S, metric, names, leaf, np.full(ports, np.inf))
