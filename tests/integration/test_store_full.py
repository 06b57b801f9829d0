"""A store on a full disk loses nothing it acknowledged and goes on once there is room."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from features.store.duck import DuckStore
from telemetry.errors import StoreError
from telemetry.ids import SeriesKey
from telemetry.samples import SampleBatch

REPOSITORY = Path(__file__).resolve().parents[2]
START_S = 1_767_225_600.0
N_SERIES, N_TIMES = 200, 40
KEYS = tuple(SeriesKey("gpu_power_watts", f"n:GPU-{i}") for i in range(N_SERIES))
FULL_BYTES = 19 * 2**20
"""Above the 16 MB at which DuckDB folds its log into the file, so that it is the fold that fails: a fatal fault."""
MOST_APPENDS = 400


def _batch(number: int, dice: np.random.Generator) -> SampleBatch:
    n = N_SERIES * N_TIMES
    first_s = START_S + number * N_TIMES
    return SampleBatch(
        KEYS,
        np.tile(np.arange(N_SERIES, dtype=np.int32), N_TIMES),
        np.repeat(first_s + np.arange(N_TIMES, dtype=np.float64), N_SERIES),
        dice.random(n),
        np.zeros(n, np.uint8),
        received_s=first_s,
    )


def _limit(n_bytes: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))


def fill_and_go_on(path: Path) -> None:
    """Append until files may not grow any more, then go on with room; runs in a process of its own."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    dice = np.random.default_rng(1)
    store = DuckStore(path)
    _limit(FULL_BYTES)
    acknowledged, number = _append_until_refused(store, 0, dice)
    more, number = _append_until_refused(store, number, dice)  # the log alone may still have had room for some
    acknowledged += more
    _limit(resource.RLIM_INFINITY)
    for later in range(number, number + 3):
        acknowledged += store.append([_batch(later, dice)])
    _check(store, acknowledged)
    store.close()
    again = DuckStore(path)
    _check(again, acknowledged)
    again.close()


def _append_until_refused(store: DuckStore, number: int, dice: np.random.Generator) -> tuple[int, int]:
    """How many samples were acknowledged, and the number of the next batch."""
    acknowledged, refusal = 0, ""
    for each in range(number, number + MOST_APPENDS):
        try:
            acknowledged += store.append([_batch(each, dice)])
        except StoreError as error:
            refusal = str(error)
            break
    assert "Free disk space" in refusal, refusal or "the store never got full"
    return acknowledged, each + 1


def _check(store: DuckStore, acknowledged: int) -> None:
    found = sum(series.at_s.size for series in store.read(KEYS, START_S + 1e7, 1e8))
    assert found >= acknowledged, (found, acknowledged)


@pytest.mark.slow
def test_a_full_disk_is_told_and_survived(tmp_path: Path) -> None:
    """Every acknowledged sample is there afterwards, in the same process and in the next."""
    code = f"import sys; sys.path[:0] = [{str(REPOSITORY)!r}, {str(Path(__file__).parent)!r}]\n"
    code += f"from pathlib import Path; import test_store_full; test_store_full.fill_and_go_on(Path({str(tmp_path / 's.duckdb')!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
