"""A store that is killed keeps what it acknowledged."""

from __future__ import annotations

import os
import random
import select
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from features.store.duck import DuckStore
from telemetry.ids import SeriesKey

REPOSITORY = Path(__file__).resolve().parents[2]
START_S = 1_767_225_600.0
N_SERIES = 200
KEYS = [SeriesKey("gpu_power_watts", f"node-{i // 8}:GPU-{i % 8}") for i in range(N_SERIES)]
ROUNDS = 10


def _run_and_kill(path: Path, first: int, moment: random.Random) -> list[int]:
    """Start a writer, kill it with SIGKILL at a random moment after its first acknowledgement."""
    child = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("store_child.py")), str(path), str(first)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )
    assert child.stdout is not None
    assert child.stderr is not None
    told = b""
    try:
        while b"\n" not in told:
            ready, _, _ = select.select([child.stdout], [], [], 60.0)
            assert ready, "the writer acknowledged nothing within 60 s"
            piece = os.read(child.stdout.fileno(), 65536)
            assert piece, child.stderr.read().decode()
            told += piece
        select.select([], [], [], moment.uniform(0.0, 0.5))
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    told += child.stdout.read()
    child.stdout.close()
    child.stderr.close()
    return [int(line) for line in told[: told.rfind(b"\n")].split()]


@pytest.mark.slow
def test_no_acknowledged_sample_is_lost_over_ten_kills(tmp_path: Path):
    """After each of ten kill -9 during ingest and spilling, every acknowledged sample is there, and none twice."""
    path = tmp_path / "killed.duckdb"
    moment = random.Random(7)
    acknowledged: list[int] = []
    first = 0
    for _ in range(ROUNDS):
        acknowledged += _run_and_kill(path, first, moment)
        store = DuckStore(path)
        found = store.read(KEYS, START_S + 1e6, 2e6)
        for series in found:
            # A batch may have been stored and killed before it was acknowledged; never the other way round.
            assert set(acknowledged) <= set((series.at_s - START_S).astype(int).tolist())
            np.testing.assert_array_equal(series.value, series.at_s - START_S)
            assert (np.diff(series.at_s) > 0).all()
        stored = {series.at_s.tobytes() for series in found}
        assert len(stored) == 1, "a batch was stored in part"
        stat = store.stat()
        newest = int(found[0].at_s[-1] - START_S)
        assert stat.hot_samples <= N_SERIES * found[0].at_s.shape[0]
        (allocation, *_) = store.allocations(START_S + newest, 1e6)
        assert allocation.from_s == START_S
        store.close()
        first = newest + 1
    assert len(acknowledged) >= ROUNDS
    assert sorted(set(acknowledged)) == sorted(acknowledged)
