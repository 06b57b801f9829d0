"""CPU time of forecasting: a scan of very many series for periods, and the forecasts themselves."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from api.bench.result import BenchResult, Row
from api.bench.simulated import wave
from api.bench.speed_forecast import forecast_rows
from models.period_scan import scan_periods

Progress = Callable[[str], None]
SERIES, QUICK_SERIES = 200_000, 20_000
POINTS = 512
CHUNK = 20_000
"""Series made at once: 10,000 GPUs of 20 metrics would fill 800 MB."""
FLAT_SHARE = 0.3
"""Series that never move: clocks, memory, metrics of idle cards."""
GENERATOR = "1"


def run(data: Path | None, progress: Progress | None = None, *, quick: bool = False, seed: int = 0) -> BenchResult:
    """Time the scan on seeded series, a third of them flat, a third periodic; and rounds of forecasts.

    Args:
        data: unused.
        progress: told what is being done.
        quick: a tenth of the series.
        seed: of the series.
    """
    del data
    say = progress or (lambda _: None)
    total = QUICK_SERIES if quick else SERIES
    cpu_s, right, periodic, false, others = 0.0, 0, 0, 0, 0
    for start in range(0, total, CHUNK):
        size = min(CHUNK, total - start)
        say(f"{start + size} of {total} series")
        values, true_points = _series(np.random.default_rng([seed, start]), size)
        began = time.process_time()
        found = scan_periods(values).points
        cpu_s += time.process_time() - began
        has = np.isfinite(true_points)
        periodic += int(has.sum())
        right += int((np.abs(found[has] / true_points[has] - 1.0) <= 0.02).sum())
        others += int((~has).sum())
        false += int(np.isfinite(found[~has]).sum())
    none = float("nan")
    task = "period-scan"
    rows: tuple[Row, ...] = (
        Row(task, "scan", "series", float(total), none, none, total),
        Row(task, "scan", "cpu_s", cpu_s, none, none, total),
        Row(task, "scan", "cpu_us_per_series", 1e6 * cpu_s / total, none, none, total),
        Row(task, "scan", "cpu_s_per_200000", cpu_s * SERIES / total, none, none, total),
        Row(task, "scan", "within2", right / max(periodic, 1), none, none, periodic),
        Row(task, "scan", "false", false / max(others, 1), none, none, others),
    )
    rows += tuple(forecast_rows(seed, quick, say))
    return BenchResult("speed", hashlib.sha256(f"speed {GENERATOR} seed {seed}".encode()).hexdigest(), rows)


def _series(random: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """(n, POINTS) float32 and the true period of each in points, NaN where it has none."""
    kinds = 64
    shapes = np.empty((kinds, POINTS), np.float32)
    period = np.full(kinds, np.nan)
    for kind in range(kinds):
        if kind % 2:
            period[kind] = random.uniform(5.0, 60.0)
            shapes[kind] = wave(random, POINTS, float(period[kind]), random.uniform(0.3, 0.8), 0.004)
        else:
            shapes[kind] = random.standard_normal(POINTS)
    which = random.integers(0, kinds, n)
    values = shapes[which]
    values += 0.1 * random.standard_normal((n, POINTS), dtype=np.float32)
    flat = random.random(n) < FLAT_SHARE
    values[flat] = 0.5
    true = period[which]
    true[flat] = np.nan
    return values, true
