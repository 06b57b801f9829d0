"""Digests of cold files, and damaged ones that are set aside by name."""

from __future__ import annotations

import subprocess
from pathlib import Path

import duckdb
import pytest

from features.store.duck import DuckStore
from features.store.seal import reading, seal_of, sealed_digest, sound
from features.store.verify import verify_cold
from telemetry.ids import SeriesKey
from telemetry.samples import SampleBatch

START_S = 1_767_225_600.0
DAY_S = 86_400.0
KEYS = [SeriesKey("gpu_util_ratio", "n:G0"), SeriesKey("gpu_power_watts", "n:G0")]


def _filled(folder: Path, files: int = 3) -> DuckStore:
    """So many cold files of two metrics, ten samples in each."""
    store = DuckStore(folder / "s.duckdb")
    for number in range(files):
        rows = [(key, START_S + 10 * number + i, 0.5 + i / 100) for key in KEYS for i in range(10)]
        store.append([SampleBatch.of(rows, received_s=START_S + 100)])
        store.spill(START_S + DAY_S)
    return store


def _times(store: DuckStore) -> list[list[float]]:
    return [(one.at_s - START_S).tolist() for one in store.read(KEYS, START_S + 1e6, 1e7)]


def _util_files(store: DuckStore) -> list[Path]:
    return [file for file in store.cold.files() if "gpu_util_ratio" in str(file)]


def _turn_one_byte(file: Path, place: int) -> None:
    content = bytearray(file.read_bytes())
    content[place] ^= 0xFF
    file.write_bytes(bytes(content))


def test_every_cold_file_has_a_digest_that_other_tools_check(tmp_path: Path) -> None:
    """Spilled and merged files alike; a file without one is no fault."""
    store = _filled(tmp_path)
    for _ in range(2):
        for file in store.cold.files():
            assert len(sealed_digest(file)) == 64
            done = subprocess.run(["sha256sum", "-c", seal_of(file).name], cwd=file.parent, capture_output=True)
            assert done.returncode == 0, done.stderr
        store.compact(START_S + DAY_S)
    file = store.cold.files()[0]
    seal_of(file).write_text("")  # as a machine that lost power leaves it
    with store.using() as connection:
        verdict = verify_cold(connection, store.cold)
    assert (verdict.files, verdict.sealed, verdict.problems) == (2, 1, ())
    store.close()


@pytest.mark.parametrize("place", [0, 200, -3])
def test_one_turned_byte_is_found(tmp_path: Path, place: int) -> None:
    """Wherever it is, also where the file still opens."""
    store = _filled(tmp_path, 1)
    file = _util_files(store)[0]
    _turn_one_byte(file, place)
    with store.using() as connection:
        verdict = verify_cold(connection, store.cold)
    assert verdict.problems == (f"{file}: its bytes are not those that were written (SHA-256 differs)",)
    store.close()


def test_a_damaged_file_stops_no_merge(tmp_path: Path) -> None:
    """It is set aside by name and told; the other files of its day are merged, and ``verify`` goes on naming it."""
    store = _filled(tmp_path)
    file = _util_files(store)[1]
    _turn_one_byte(file, 200)
    done = store.compact(START_S + DAY_S)
    aside = file.with_name(file.name + ".damaged")
    assert done.merged == 2
    (sentence,) = done.aside
    assert str(file) in sentence
    assert aside.name in sentence
    assert aside.is_file()
    assert _times(store) == [[float(i) for i in range(30) if i // 10 != 1], [float(i) for i in range(30)]]
    with store.using() as connection:
        (problem,) = verify_cold(connection, store.cold).problems
    assert problem.startswith(f"{aside}: set aside as damaged")
    assert store.compact(START_S + DAY_S).aside == ()
    store.close()


@pytest.mark.parametrize("sealed", [True, False])
def test_a_damaged_file_stops_no_read(tmp_path: Path, sealed: bool) -> None:
    """The samples of the other files are read, in the same call."""
    store = _filled(tmp_path)
    file = _util_files(store)[2]
    file.write_bytes(file.read_bytes()[:-40])
    if not sealed:
        seal_of(file).unlink()
    assert _times(store) == [[float(i) for i in range(20)], [float(i) for i in range(30)]]
    assert [str(file) in sentence for sentence in store.cold.aside] == [True]
    assert not file.exists()
    store.close()


def test_a_day_with_damaged_files_only_reads_as_empty(tmp_path: Path) -> None:
    """And a new database beside them opens."""
    store = _filled(tmp_path, 1)
    for file in store.cold.files():
        file.write_bytes(b"PAR1 no more PAR1")
    assert _times(store) == [[], []]
    assert store.compact(START_S + DAY_S).files_after == 0
    store.close()
    other = DuckStore(tmp_path / "new.duckdb", cold_dir=tmp_path / "s.cold")
    assert other.keys() == []
    other.close()


def test_no_file_is_set_aside_for_a_fault_of_another_kind(tmp_path: Path) -> None:
    """A query that fails on whole files is reported, and the files stay."""
    store = _filled(tmp_path)
    told: list[str] = []

    def ask(_: list[str]) -> None:
        raise duckdb.OutOfMemoryException("no room for the answer")

    with pytest.raises(duckdb.OutOfMemoryException):
        reading(store.cold.files(), told, ask)
    assert told == []
    assert len(_times(store)[0]) == 30
    store.close()


def test_retention_takes_digests_and_damaged_files_too(tmp_path: Path) -> None:
    """No folder of a dropped day stays behind."""
    store = _filled(tmp_path)
    _util_files(store)[0].write_bytes(b"x")
    store.compact(START_S + DAY_S)
    assert store.drop_cold(START_S + 2 * DAY_S) == 2
    assert list((tmp_path / "s.cold").iterdir()) == []
    store.close()


def test_where_nothing_can_be_read_no_file_is_set_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process without threads or memory says nothing about the file."""
    file = tmp_path / "part-00000001.parquet"
    duckdb.sql(f"copy (select 1 as entity) to '{file}' (format parquet)")

    def no_threads() -> None:
        raise duckdb.IOException("thread creation failed")

    monkeypatch.setattr(duckdb, "connect", no_threads)
    told: list[str] = []
    with pytest.raises(duckdb.IOException, match="thread"):
        sound([file], told)
    assert file.exists()
    assert not told
