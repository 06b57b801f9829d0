"""What ``kill -9`` costs: acknowledged samples lost or doubled, and seconds until the service is ready again."""

from __future__ import annotations

import hashlib
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from api.bench.pushed import Fleet, Sender
from api.bench.result import Row
from api.bench.served import Served
from features.store.duck import DuckStore
from features.store.stat import cold_stat

KILLS = 20
_N_NODES = 128
_SENDERS = 4
_SAMPLES_PER_S = 15_000.0
"""What is offered: half as much again as the promise of 10,000, so that waiting senders do not fall below it."""
_RUN_S = (1.0, 3.0)
"""Between becoming ready and the kill, uniform, seeded."""
_SEED = 20260101

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Killed:
    """What a run of kills came to.

    Args:
        ready_s: of each start after a kill, from the start of the process to 200 from ``/readyz``.
        ready_cpu_s: of each such start, CPU seconds of the service's process by then.
        samples_per_s: of each life, samples acknowledged from becoming ready to the kill.
        acknowledged: samples.
        lost: of those, how many are not in the store with their own value.
        doubled: samples that are there twice once all is in cold files.
        stored: samples in the store; more than ``acknowledged`` where an answer was cut off.
        refusals: statuses other than 204 that a sender saw.
    """

    ready_s: tuple[float, ...]
    ready_cpu_s: tuple[float, ...]
    samples_per_s: tuple[float, ...]
    acknowledged: int
    lost: int
    doubled: int
    stored: int
    refusals: tuple[int, ...]


def rows(progress: Progress, *, quick: bool = False) -> tuple[list[Row], str]:
    """Task ``kill``, and the digest of what was done."""
    kills = 3 if quick else KILLS
    with tempfile.TemporaryDirectory(prefix="gpucast-bench-") as folder:
        found = kill_and_count(Path(folder), kills, progress)
    counts = {"acknowledged": found.acknowledged, "lost": found.lost, "doubled": found.doubled, "stored": found.stored}
    told = [Row("kill", "gpucast", f"{name}_samples", float(n), np.nan, np.nan, kills) for name, n in counts.items()]
    told.append(_spread("samples_per_s", found.samples_per_s))
    told.append(_spread("ready_s", found.ready_s))
    told.append(_spread("ready_cpu_s", found.ready_cpu_s))
    told.append(Row("kill", "gpucast", "ready_max_s", max(found.ready_s), np.nan, np.nan, kills))
    return told, hashlib.sha256(f"kill {_SEED} {kills} {_N_NODES} {_SAMPLES_PER_S}".encode()).hexdigest()


def _spread(metric: str, figures: Sequence[float]) -> Row:
    low, middle, high = np.quantile(figures, [0.025, 0.5, 0.975])
    return Row("kill", "gpucast", metric, float(middle), float(low), float(high), len(figures))


def kill_and_count(folder: Path, kills: int, progress: Progress, *, n_nodes: int = _N_NODES) -> Killed:
    """Push into a running service, kill it ``kills`` times at seeded moments, and look at what is in its store."""
    dice = random.Random(_SEED)
    fleet = Fleet(n_nodes, time.time() - 60.0)
    served = Served(folder)
    served.start()
    every_s = _SENDERS * len(fleet.keys) / _SAMPLES_PER_S
    senders = [Sender(fleet, served.port, first, _SENDERS, every_s) for first in range(_SENDERS)]
    ready_s: list[float] = []
    cpu_s: list[float] = []
    rates: list[float] = []
    try:
        for sender in senders:
            sender.start()
        served.ready_after_s()
        for number in range(1, kills + 1):
            rates.append(_live(senders, len(fleet.keys), dice.uniform(*_RUN_S)))
            served.kill()
            served.start()
            ready_s.append(served.ready_after_s())
            cpu_s.append(served.cpu_s())
            progress(f"kill {number} of {kills}: {rates[-1]:.0f} samples/s before it, ready after {ready_s[-1]:.2f} s")
        _live(senders, len(fleet.keys), 1.0)
    finally:
        for sender in senders:
            sender.over.set()
        for sender in senders:
            sender.join(60.0)
        served.kill()
        served.stop()
    progress("looking at what is in the store")
    numbers = [number for sender in senders for number in sender.acknowledged]
    lost, doubled, stored = count_stored(served.data, fleet, numbers)
    refusals = sorted({status for sender in senders for status in sender.refusals})
    acknowledged = len(numbers) * len(fleet.keys)
    return Killed(tuple(ready_s), tuple(cpu_s), tuple(rates), acknowledged, lost, doubled, stored, tuple(refusals))


def _live(senders: Sequence[Sender], n_series: int, seconds: float) -> float:
    """Let it run; gives back the samples acknowledged per second."""
    before, began_s = sum(len(sender.acknowledged) for sender in senders), time.perf_counter()
    time.sleep(seconds)
    count = sum(len(sender.acknowledged) for sender in senders) - before
    return count * n_series / (time.perf_counter() - began_s)


def count_stored(data: Path, fleet: Fleet, numbers: Sequence[int]) -> tuple[int, int, int]:
    """(acknowledged samples that are not there, samples there twice, samples there)."""
    expected_ms = np.array(sorted(fleet.at_ms(number) for number in numbers))
    store = DuckStore(data / "samples.duckdb", cold_dir=data / "cold")
    try:
        lost = stored = 0
        for series in store.read(fleet.keys, time.time() + 3600.0, 1e6):
            at_ms = np.round(series.at_s * 1000.0).astype(np.int64)
            right = series.value == [fleet.value(fleet.number(at)) for at in at_ms.tolist()]
            lost += int((~np.isin(expected_ms, at_ms[right])).sum())
            stored += at_ms.size
        # Reads fold what is there twice; cold files must not hold it.
        store.spill(time.time() + 3600.0)
        with store.using() as connection:
            doubled = cold_stat(connection, store.cold).samples - stored
    finally:
        store.close()
    return lost, doubled, stored
