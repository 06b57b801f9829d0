"""``gpucast store`` on a small store: what it tells, refuses and brings back."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from api.cli import main
from features.store.duck import DuckStore
from telemetry.ids import SeriesKey
from telemetry.samples import SampleBatch

REPOSITORY = Path(__file__).resolve().parents[4]
START_S = 1_767_225_600.0
KEYS = [SeriesKey("gpu_util_ratio", f"n:G{i}") for i in range(4)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store with two cold files and some hot samples; one value is missing."""
    store = _open(tmp_path / "data")
    for number in range(3):
        rows = [(key, START_S + 10 * number + i, 0.1 * i) for key in KEYS for i in range(10)]
        rows += [(KEYS[0], START_S + 100.0 + number, float("nan"))]
        store.append([SampleBatch.of(rows, received_s=START_S + 200)])
        if number < 2:
            store.spill(START_S + 1000)
    store.close()
    return tmp_path / "data"


def _open(folder: Path) -> DuckStore:
    return DuckStore(folder / "samples.duckdb", cold_dir=folder / "cold")


def _contents(folder: Path) -> list[tuple[list[float], list[float]]]:
    store = _open(folder)
    found = [(s.at_s.tolist(), [repr(v) for v in s.value.tolist()]) for s in store.read(KEYS, START_S + 1e6, 1e7)]
    store.close()
    return found


def _run(capsys, *args: object) -> tuple[int, dict]:
    code = main(["store", *map(str, args), "--json"])
    out, err = capsys.readouterr()
    return code, json.loads(out) if out.strip() else {"error": err}


def test_stat_and_compact(folder: Path, capsys):
    """Counts are those of what was written; compacting changes files only."""
    before = _contents(folder)
    code, told = _run(capsys, "stat", "--data-dir", folder)
    assert code == 0
    assert (told["series"], told["hot_samples"], told["cold_samples"], told["cold_files"]) == (4, 41, 82, 2)
    assert (told["oldest_s"], told["newest_s"]) == (START_S, START_S + 102)
    assert told["largest_metrics"][0]["metric"] == "gpu_util_ratio"
    code, told = _run(capsys, "compact", "--data-dir", folder)
    assert (code, told["merged"], told["files_before"], told["files_after"]) == (0, 1, 2, 1)
    assert _contents(folder) == before
    assert main(["store", "stat", "--data-dir", str(folder)]) == 0
    assert "82 samples" in capsys.readouterr().out


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_export_is_read_by_other_tools(folder: Path, tmp_path: Path, capsys, form: str):
    """DuckDB reads the folder as it lies: each sample once, missing is NULL, day and metric from the names."""
    into = tmp_path / "out"
    code, told = _run(
        capsys,
        "export",
        "--data-dir",
        folder,
        "--into",
        into,
        "--format",
        form,
        "--from-s",
        START_S + 5,
        "--to-s",
        START_S + 102,
    )
    assert (code, told["samples"]) == (0, 4 * 25 + 2)
    files = f"{into}/date=*/metric=*/*.{form}"
    query = f"select count(*), count(value), min(at_s), max(at_s) from read_{form}('{files}', hive_partitioning = true)"
    assert duckdb.sql(query).fetchall() == [(102, 100, START_S + 5, START_S + 101)]
    query = f"select distinct cast(date as VARCHAR), metric from read_{form}('{files}', hive_partitioning = true)"
    assert duckdb.sql(query).fetchall() == [("2026-01-01", "gpu_util_ratio")]
    code, told = _run(capsys, "export", "--data-dir", folder, "--into", into)
    assert code == 2
    assert "not an empty folder" in told["error"]


def test_export_of_a_metric_that_is_not_there_is_nothing(folder: Path, tmp_path: Path, capsys):
    """A metric without samples gives none."""
    code, told = _run(capsys, "export", "--data-dir", folder, "--into", tmp_path / "o", "--metric", "gpu_power_watts")
    assert (code, told["samples"]) == (0, 0)


def test_verify_names_the_file_at_fault(folder: Path, capsys):
    """A whole store gives 0; a cut file, a doubled sample and a foreign day give 1 and are named."""
    code, told = _run(capsys, "verify", "--data-dir", folder)
    assert (code, told["files"], told["samples"], told["sealed"], told["problems"]) == (0, 2, 82, 2, [])
    first, second = sorted(folder.glob("cold/*/*/*.parquet"))
    copy = first.with_name("part-00000009.parquet")
    copy.write_bytes(first.read_bytes())
    foreign = folder / "cold" / "date=2026-01-02" / "metric=gpu_util_ratio" / "part-00000009.parquet"
    foreign.parent.mkdir(parents=True)
    foreign.write_bytes(first.read_bytes())
    second.write_bytes(second.read_bytes()[:-40])
    old = second.with_name("part-00000008.parquet")
    old.write_bytes(second.read_bytes())
    code, told = _run(capsys, "verify", "--data-dir", folder)
    assert code == 1
    text = "\n".join(told["problems"])
    assert f"{second}: its bytes are not those that were written" in text
    assert f"{old}: cannot be read" in text
    assert "41 samples are there more than once" in text
    assert f"{foreign}: 41 samples are not of 2026-01-02" in text


def test_backup_and_restore(folder: Path, tmp_path: Path, capsys):
    """A backup restores to the same samples; it never overwrites, and a changed file is refused by name."""
    before = _contents(folder)
    code, told = _run(capsys, "backup", "--data-dir", folder, "--into", tmp_path / "b")
    assert (code, told["files"]) == (0, 5)
    code, told = _run(capsys, "restore", "--data-dir", tmp_path / "new", "--backup", tmp_path / "b")
    assert (code, told["files"]) == (0, 5)
    assert _contents(tmp_path / "new") == before
    code, told = _run(capsys, "verify", "--data-dir", tmp_path / "new")
    assert (code, told["sealed"]) == (0, 2)
    code, told = _run(capsys, "restore", "--data-dir", folder, "--backup", tmp_path / "b")
    assert code == 2
    assert "is there already" in told["error"]
    changed = next((tmp_path / "b").rglob("*.parquet"))
    changed.write_bytes(changed.read_bytes() + b"x")
    code, told = _run(capsys, "restore", "--data-dir", tmp_path / "third", "--backup", tmp_path / "b")
    assert code == 1
    assert f"{changed} is missing or not what the manifest says" in told["error"]
    assert not (tmp_path / "third").exists()
    (tmp_path / "b" / "manifest.json").unlink()
    code, told = _run(capsys, "restore", "--data-dir", tmp_path / "third", "--backup", tmp_path / "b")
    assert code == 1
    assert "no usable manifest.json" in told["error"]


def test_digest_is_that_of_the_samples(folder: Path, tmp_path: Path, capsys):
    """Merging and restoring leave it, one sample more changes it."""
    _, told = _run(capsys, "digest", "--data-dir", folder)
    before = told["sha256"]
    _run(capsys, "backup", "--data-dir", folder, "--into", tmp_path / "b")
    _run(capsys, "restore", "--data-dir", tmp_path / "new", "--backup", tmp_path / "b")
    _run(capsys, "compact", "--data-dir", folder)
    for same in (folder, tmp_path / "new"):
        assert _run(capsys, "digest", "--data-dir", same) == (0, {"sha256": before})
    store = _open(folder)
    store.append([SampleBatch.of([(KEYS[0], START_S + 500, 0.5)])])
    store.close()
    assert _run(capsys, "digest", "--data-dir", folder)[1] != {"sha256": before}


def test_a_store_in_use_is_named(folder: Path):
    """Who has it open is said; what only needs the cold files goes on without the rest."""
    store = _open(folder)
    try:
        for action, code in (("compact", 1), ("backup", 1), ("stat", 0), ("verify", 0)):
            command = [sys.executable, "-m", "api", "store", action, "--data-dir", str(folder), "--into", "x"]
            done = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY)
            assert done.returncode == code, done.stderr
            assert "is in use by process" in done.stderr
            assert ("82 samples" in done.stdout) == (code == 0)
    finally:
        store.close()


def test_no_store_is_a_sentence(tmp_path: Path, capsys):
    """A folder without a store is not made into one."""
    code, told = _run(capsys, "stat", "--data-dir", tmp_path / "nothing")
    assert code == 2
    assert "there is no store in" in told["error"]
    assert not (tmp_path / "nothing").exists()
