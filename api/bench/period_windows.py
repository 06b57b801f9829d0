"""Windows with a known period, and windows that have none or hide it, from the simulator and from plain chance."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from api.bench.period_jobs import KIND, Sampling, line_of, seen
from api.bench.random_jobs import random_spec
from features.frame import Context

Floats = NDArray[np.float64]

STEPS_S = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0)
POINTS = (96, 128, 256, 512, 600)
CHANCE = ("constant", "idle", "noise", "walk", "wander", "burst", "bursts", "switching", "requests", "ramp")
"""Kinds of windows in which nothing repeats."""
GENERATOR = "1"
"""Version of this generator, part of the digest."""


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """What an estimator is asked about.

    Args:
        task: name of its task.
        block: windows of one job or run are drawn together in the bootstrap.
        context: all rows belong to one job.
        true_s: its period; NaN where the right answer is that none can be told.
    """

    task: str
    block: str
    context: Context
    true_s: float


def simulated(seed: int, jobs: int) -> Iterator[Window]:
    """Windows of ``jobs`` jobs with at least 4 samples a period and 4 periods, evenly over the sampling steps."""
    for number in range(jobs):
        random = np.random.default_rng([seed, 1, number])
        step_s = STEPS_S[number % len(STEPS_S)]
        points = int(random.choice(POINTS))
        # Drift and jitter may lengthen or shorten the period by a few per cent.
        samples = float(np.exp(random.uniform(np.log(4.3), np.log(points / 4.6))))
        context, true_s = _job_window(random, step_s, points, samples)
        if 4.0 * step_s <= true_s <= points * step_s / 4.0:
            yield Window(f"sim-{_word(step_s)}", f"sim-{number}", context, true_s)


def between(seed: int, jobs: int) -> Iterator[Window]:
    """Windows of jobs with 2 to 4 samples a period: a right answer and none are both right."""
    for number in range(jobs):
        random = np.random.default_rng([seed, 2, number])
        step_s = STEPS_S[number % len(STEPS_S)]
        context, true_s = _job_window(random, step_s, int(random.choice(POINTS)), random.uniform(2.0, 4.0))
        yield Window("sim-2-to-4-samples", f"between-{number}", context, true_s)


def aliased(seed: int, jobs: int) -> Iterator[Window]:
    """Windows of jobs with fewer than two samples a period."""
    for number in range(jobs):
        random = np.random.default_rng([seed, 3, number])
        step_s = STEPS_S[number % len(STEPS_S)]
        samples = float(np.exp(random.uniform(np.log(0.05), np.log(1.9))))
        context, _ = _job_window(random, step_s, int(random.choice(POINTS)), samples)
        yield Window("none-aliased", f"aliased-{number}", context, float("nan"))


def chance(seed: int, jobs: int) -> Iterator[Window]:
    """Windows in which nothing repeats."""
    for number in range(jobs):
        random = np.random.default_rng([seed, 4, number])
        kind = CHANCE[number % len(CHANCE)]
        yield Window(f"none-{kind}", f"{kind}-{number}", _chance_window(random, kind), float("nan"))


def _word(step_s: float) -> str:
    return f"{step_s * 1000:.0f}ms" if step_s < 1.0 else f"{step_s:.0f}s"


def _job_window(random: np.random.Generator, step_s: float, points: int, samples: float) -> tuple[Context, float]:
    """A window of a random job with about so many samples a period, and its period."""
    how = Sampling(
        step_s=step_s,
        points=points,
        refresh_s=float(random.choice([step_s, min(step_s, 1.0), min(step_s, 0.1)])),
        jitter_ratio=float(random.choice([0.0, 0.02, 0.1])),
        lost_ratio=float(random.choice([0.0, 0.005, 0.03])),
        noise_ratio=random.uniform(0.01, 0.08),
        gpus=int(random.choice([1, 2, 4, 8])),
        network=bool(random.random() < 0.75),
    )
    period_s = samples * step_s
    lead_s = random.uniform(1.0, 3.0) * period_s + 2.0
    span_s = step_s * (points + 1)
    line = line_of(random_spec(random, period_s, KIND, pauses=samples >= 4.0), random, lead_s + span_s + 2 * period_s)
    return seen(line, how, lead_s, random), line.period_s(lead_s, lead_s + span_s)


def _chance_window(random: np.random.Generator, kind: str) -> Context:
    """Rows of one job of which the kind tells what they do; cards go together, with noise of their own."""
    points, step_s = int(random.choice(POINTS)), float(random.choice(STEPS_S))
    gpus = int(random.choice([1, 2, 4, 8]))
    common = _shape(random, kind, points)
    scale = {"gpu_sm_active_ratio": 0.8, "gpu_power_watts": 400.0, "gpu_nvlink_bytes_per_s": 5e10}
    rows, metric = [], []
    for name, unit in scale.items():
        for _ in range(gpus):
            level = 0.02 if kind == "idle" else common
            noise = random.choice([0.001, 0.02, 0.1]) if kind != "noise" else 0.0
            row = common * 0 if kind == "idle" else common
            own = _shape(random, kind, points) if kind == "noise" else row
            rows.append(unit * np.clip(own + noise * np.mean(level) * random.standard_normal(points), 0.0, 1.2))
            metric.append(name)
    n = len(metric)
    values = np.stack(rows)
    high = np.array([1.0 if name.endswith("_ratio") else np.inf for name in metric])
    return Context(np.minimum(values, high[:, None]), step_s, tuple(metric), np.zeros(n, np.int32), np.zeros(n), high)


def _shape(random: np.random.Generator, kind: str, n: int) -> Floats:
    """(n,) between 0 and about 1."""
    if kind in ("constant", "idle"):
        return np.full(n, random.uniform(0.2, 0.9))
    if kind == "ramp":
        return np.linspace(random.uniform(0.1, 0.9), random.uniform(0.1, 0.9), n)
    if kind == "burst":
        out = np.full(n, random.uniform(0.0, 0.3))
        start = int(random.integers(0, n - 4))
        out[start : start + int(random.integers(2, n // 3))] = random.uniform(0.5, 1.0)
        return out
    if kind == "bursts":
        out = np.full(n, 0.8)
        for start in random.integers(0, n - 2, int(random.integers(2, 7))):
            out[start : start + int(random.integers(1, max(2, n // 20)))] = 0.05
        return out
    if kind == "switching":
        chance_of_change = random.uniform(0.02, 0.3)
        return np.asarray(0.1 + 0.7 * (np.cumsum(random.random(n) < chance_of_change) % 2))
    if kind == "requests":
        arrivals = random.poisson(random.uniform(0.05, 1.0), n).astype(float)
        decay = np.exp(-np.arange(60) / random.uniform(1.0, 15.0))
        load: Floats = np.convolve(arrivals, decay)[:n]
        return np.clip(load / max(float(load.max()), 1e-9), 0.0, 1.0)
    memory = {"noise": 0.0, "walk": 1.0}.get(kind, random.uniform(0.5, 0.98))
    return _wander(random, memory, n)


def _wander(random: np.random.Generator, memory: float, n: int) -> Floats:
    """(n,) an autoregressive walk, scaled into 0.1..0.9."""
    out = np.empty(n)
    last = 0.0
    for k, step in enumerate(random.standard_normal(n)):
        last = memory * last + step
        out[k] = last
    low, high = float(out.min()), float(out.max())
    return np.asarray(0.1 + 0.8 * (out - low) / max(high - low, 1e-9))
