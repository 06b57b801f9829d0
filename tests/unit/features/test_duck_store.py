"""The DuckDB store: cold partitions, crashes in between, and files that cannot be used."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import duckdb
import numpy as np
import pytest

from features.store.duck import DuckStore
from telemetry.errors import StoreError
from telemetry.ids import GpuId, JobId, SeriesKey
from telemetry.samples import SampleBatch, Sighting

REPOSITORY = Path(__file__).resolve().parents[3]
START_S = 1_767_225_600.0
DAY_S = 86_400.0
KEYS = (SeriesKey("gpu_util_ratio", "n:G"), SeriesKey("gpu_power_watts", "n:G"))
JOB, GPU = JobId("slurm", "1"), GpuId("n", "G")


def _batch(at_s: float, util: float, watts: float = 300.0, seen_s: float | None = None) -> SampleBatch:
    rows = [(KEYS[0], at_s, util), (KEYS[1], at_s, watts)]
    made = SampleBatch.of(rows, received_s=at_s if seen_s is None else seen_s)
    sighting = Sighting(GPU, at_s, JOB, sharers=1)
    return SampleBatch(made.keys, made.series, made.at_s, made.value, made.reason, (sighting,), (), "", made.received_s)


def _fill(store: DuckStore, start: int, stop: int, step_s: float = 1.0) -> None:
    store.append([_batch(START_S + i * step_s, i / 1000.0) for i in range(start, stop)])


def _read(store: DuckStore, as_of_s: float = START_S + 1e7, window_s: float = 1e8):
    return [(one.at_s.tolist(), one.value.tolist()) for one in store.read(KEYS, as_of_s, window_s)]


def test_cold_and_hot_read_as_one(tmp_path: Path):
    """What was moved to Parquet reads back the same, together with what is still hot."""
    store = DuckStore(tmp_path / "s.duckdb")
    _fill(store, 0, 100, step_s=3600.0)
    before = _read(store)
    allocations = store.allocations(START_S + 99 * 3600.0, 1e8)
    assert store.spill(START_S + 60 * 3600.0) == 120
    assert _read(store) == before
    assert store.allocations(START_S + 99 * 3600.0, 1e8) == allocations
    assert store.spill(START_S + 60 * 3600.0) == 0
    store.close()
    store = DuckStore(tmp_path / "s.duckdb")
    assert _read(store) == before
    assert store.allocations(START_S + 99 * 3600.0, 1e8) == allocations
    (util,) = store.read(KEYS[:1], START_S + 30 * 3600.0, 10 * 3600.0)
    np.testing.assert_array_equal(util.at_s, START_S + 3600.0 * np.arange(20, 31))
    assert util.received_s == START_S + 30 * 3600.0
    store.close()


def test_partitions_are_plain_parquet_by_day_and_metric(tmp_path: Path):
    """Any tool reads the cold files: one folder per day (UTC) and metric, names instead of numbers."""
    store = DuckStore(tmp_path / "s.duckdb", cold_dir=tmp_path / "cold")
    _fill(store, 0, 48, step_s=3600.0)
    store.spill(START_S + 1e7)
    store.close()
    names = sorted(str(file.relative_to(tmp_path / "cold")) for file in (tmp_path / "cold").rglob("*.parquet"))
    assert names == [
        f"date={day}/metric={metric}/part-00000001.parquet"
        for day in ("2026-01-01", "2026-01-02")
        for metric in ("gpu_power_watts", "gpu_util_ratio")
    ]
    rows = duckdb.sql(f"select entity, count(*) from '{tmp_path}/cold/*/*/*.parquet' group by all").fetchall()
    assert rows == [("n:G", 96)]


def test_repeats_are_folded_when_they_turn_cold(tmp_path: Path):
    """A sample stored twice is one row in the cold partitions, and the first good value stays."""
    store = DuckStore(tmp_path / "s.duckdb")
    store.append([_batch(START_S, float("nan"))])
    store.append([_batch(START_S, 0.5), _batch(START_S, 0.7)])
    before = _read(store)
    store.spill(START_S + 1)
    assert _read(store) == before == [([START_S], [0.5]), ([START_S], [300.0])]
    assert duckdb.sql(f"select count(*) from '{tmp_path}/s.cold/*/*/*.parquet'").fetchall() == [(2,)]
    store.append([_batch(START_S, 0.9)])
    assert _read(store) == before
    store.close()


@pytest.mark.parametrize("crash_in", ["write", "delete"])
def test_a_crash_inside_a_spill_neither_loses_nor_doubles(tmp_path: Path, monkeypatch, crash_in: str):
    """Whether files were written or not when it crashed, the next start finishes the same spill."""
    store = DuckStore(tmp_path / "s.duckdb")
    _fill(store, 0, 50)
    before = _read(store)

    def crash(*_args: object) -> None:
        raise KeyboardInterrupt

    if crash_in == "write":
        monkeypatch.setattr("features.store.cold.os.replace", crash)
    else:
        monkeypatch.setattr(store, "_fold_sightings", crash)
    with pytest.raises(KeyboardInterrupt):
        store.spill(START_S + 30)
    assert _read(store) == before
    _fill(store, 50, 60)
    store.close()
    monkeypatch.undo()
    store = DuckStore(tmp_path / "s.duckdb")
    assert [len(at_s) for at_s, _ in _read(store)] == [60, 60]
    assert store.stat().hot_samples == 60
    assert store.stat().cold_files == 2
    store.close()


def test_a_new_database_beside_old_partitions_goes_on(tmp_path: Path):
    """When only the database was lost, the cold samples are still known and never overwritten."""
    path = tmp_path / "s.duckdb"
    store = DuckStore(path)
    _fill(store, 0, 10)
    store.spill(START_S + 100)
    store.close()
    path.unlink()
    store = DuckStore(path)
    assert sorted(store.keys()) == sorted(KEYS)
    _fill(store, 10, 20)
    store.spill(START_S + 100)
    assert [len(at_s) for at_s, _ in _read(store)] == [20, 20]
    store.close()


def test_retention_drops_whole_days(tmp_path: Path):
    """Only days that lie wholly before the moment go; empty folders go with them."""
    store = DuckStore(tmp_path / "s.duckdb", hot_window_s=DAY_S)
    _fill(store, 0, 5 * 24, step_s=3600.0)
    store.tidy(START_S + 5 * DAY_S)
    assert store.stat().cold_files == 8
    assert store.drop_cold(START_S + 2.5 * DAY_S) == 4
    assert _read(store)[0][0][0] == START_S + 2 * DAY_S
    assert len(list((tmp_path / "s.cold").iterdir())) == 2
    store.close()


def test_what_was_known_when(tmp_path: Path):
    """A read as of an arrival time leaves out what arrived later."""
    store = DuckStore(tmp_path / "s.duckdb")
    store.append([_batch(START_S, 0.1, seen_s=START_S + 1)])
    store.append([_batch(START_S + 1, 0.2, seen_s=START_S + 500)])
    for _ in range(2):
        (util, _) = store.read(KEYS, START_S + 10, 100, known_by_s=START_S + 100)
        assert util.value.tolist() == [0.1]
        (util, _) = store.read(KEYS, START_S + 10, 100)
        assert util.value.tolist() == [0.1, 0.2]
        store.spill(START_S + 100)
    store.close()


def test_allocations_survive_a_restart(tmp_path: Path):
    """Who had what is known again after closing and opening."""
    store = DuckStore(tmp_path / "s.duckdb")
    _fill(store, 0, 47)
    before = store.allocations(START_S + 47, 100)
    store.close()
    store = DuckStore(tmp_path / "s.duckdb")
    assert store.allocations(START_S + 47, 100) == before
    assert store.allocations(START_S + 46 + 61, 100)[0].to_s == START_S + 46
    store.close()


def test_a_second_process_is_told_who_has_the_file(tmp_path: Path):
    """A store in use is refused with the number of the process that holds it."""
    path = tmp_path / "s.duckdb"
    store = DuckStore(path)
    code = (
        "import sys; from pathlib import Path; from features.store.duck import DuckStore\n"
        "from telemetry.errors import StoreError\n"
        "try: DuckStore(Path(sys.argv[1]))\n"
        "except StoreError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True, cwd=REPOSITORY
    )
    store.close()
    assert f"{path} is in use by process {os.getpid()}" in done.stdout
    assert "Stop it, or name another folder" in done.stdout


def _damage_header(path: Path) -> None:
    path.write_bytes(b"\xff" * 9000)


def _truncate(path: Path) -> None:
    DuckStore(path).close()
    path.write_bytes(path.read_bytes()[:3000])


def _write_text(path: Path) -> None:
    path.write_text("hello")


def _other_database(path: Path) -> None:
    connection = duckdb.connect(str(path))
    connection.execute("create table flowers (name VARCHAR)")
    connection.close()


def _newer_version(path: Path) -> None:
    DuckStore(path).close()
    connection = duckdb.connect(str(path))
    connection.execute("update schema_version set version = 99")
    connection.close()


def _make_folder(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize(
    ("spoil", "sentence", "mend"),
    [
        (_damage_header, "damaged or not a gpucast store", "Move it"),
        (_truncate, "damaged or not a gpucast store", "Move it"),
        (_write_text, "damaged or not a gpucast store", "Move it"),
        (_other_database, "DuckDB file of something else", "Name another file"),
        (_newer_version, "schema version 99", "Upgrade gpucast"),
        (_make_folder, "is a folder", "Name a file"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_the_mend(tmp_path: Path, spoil, sentence: str, mend: str):
    """Each kind of unusable file gives one sentence with its name and what to do, and is left as it is."""
    path = tmp_path / "s.duckdb"
    spoil(path)
    before = path.read_bytes() if path.is_file() else b""
    with pytest.raises(StoreError) as caught:
        DuckStore(path)
    assert str(path) in str(caught.value)
    assert sentence in str(caught.value)
    assert mend in str(caught.value)
    assert (path.read_bytes() if path.is_file() else b"") == before


def test_an_empty_file_is_a_new_store(tmp_path: Path):
    """A file of no bytes holds nothing that could be lost."""
    path = tmp_path / "s.duckdb"
    path.touch()
    store = DuckStore(path)
    _fill(store, 0, 3)
    store.close()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path):
    """A file where a folder is needed gives a sentence."""
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"folder .* cannot be made"):
        DuckStore(tmp_path / "file" / "s.duckdb")


def test_a_full_disk_stores_nothing_and_recovers(tmp_path: Path):
    """A write that does not fit is refused whole, with a sentence; once there is room the store goes on."""
    code = f"""
import resource, sys
from pathlib import Path
import numpy as np
from features.store.duck import DuckStore
from telemetry.errors import StoreError
from telemetry.ids import SeriesKey
from telemetry.samples import SampleBatch
keys = tuple(SeriesKey("gpu_util_ratio", f"n:G{{i}}") for i in range(2000))
def batch(number):
    value = np.random.default_rng(number).random(2000)
    return SampleBatch(keys, np.arange(2000, dtype=np.int32), np.full(2000, {START_S} + number), value, np.zeros(2000, np.uint8))
store = DuckStore(Path(sys.argv[1]))
store.append([batch(0)])
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, hard))
good, refused = [0], ""
for number in range(1, 40):
    try:
        store.append([batch(number)])
        good.append(number)
    except StoreError as error:
        refused = str(error)
        break
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
store.append([batch(100)])
store.close()
store = DuckStore(Path(sys.argv[1]))
found = store.read(keys, {START_S} + 1000, 1e6)
assert all((one.at_s - {START_S}).tolist() == [*map(float, good), 100.0] for one in found), found[0].at_s
store.close()
print(refused)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "s.duckdb")], capture_output=True, text=True, cwd=REPOSITORY
    )
    assert done.returncode == 0, done.stderr
    assert "cannot be written" in done.stdout
    assert "Free disk space" in done.stdout


def test_memory_has_no_cold_partitions():
    """Spilling needs a folder; the sentence says how to give one."""
    store = DuckStore(None)
    with pytest.raises(StoreError, match="cold_dir"):
        store.spill(START_S)
    store.close()


def test_a_closed_store_says_so():
    """Using a closed store is a sentence; closing it again is fine."""
    store = DuckStore(None)
    store.close()
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.read(KEYS, START_S, 10)


def test_storing_imports_no_pandas():
    """The service process stays light: storing and reading samples never loads pandas."""
    code = """
import sys
import numpy as np
from features.store.duck import DuckStore
from telemetry.ids import SeriesKey
from telemetry.samples import SampleBatch
store = DuckStore(None)
key = SeriesKey("gpu_util_ratio", "n:G")
store.append([SampleBatch.of([(key, 1.0, 0.5), (key, 2.0, float("nan"))])])
assert store.read([key], 9.0, 9.0)[0].value[0] == 0.5
store.close()
assert "pandas" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=REPOSITORY)
    assert done.returncode == 0, done.stderr
