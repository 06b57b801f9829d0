"""Merging cold files, growing old by policy, the limit of series, and an older schema."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from features.store.cold import exact_decimal
from features.store.duck import DuckStore
from features.store.policy import StorePolicy, ageing
from features.store.verify import verify_cold
from telemetry.errors import StoreError
from telemetry.ids import SeriesKey
from telemetry.samples import SampleBatch

START_S = 1_767_225_600.0
DAY_S = 86_400.0
UTIL, XID = SeriesKey("gpu_util_ratio", "n:G"), SeriesKey("gpu_xid_last_code", "n:G")


def _fill(store: DuckStore, rounds: int = 3) -> None:
    """Each round spills ten samples a series, and the last sample of the round before once more."""
    for number in range(rounds):
        times = [START_S + 10 * number + i for i in range(-1 if number else 0, 10)]
        rows = [(key, at_s, at_s - START_S) for key in (UTIL, XID) for at_s in times]
        store.append([SampleBatch.of(rows, received_s=START_S + 100)])
        store.spill(START_S + DAY_S)


def _read(store: DuckStore, as_of_s: float = START_S + 1e6) -> list[tuple[list[float], list[float]]]:
    return [(s.at_s.tolist(), s.value.tolist()) for s in store.read([UTIL, XID], as_of_s, 1e8)]


def test_compacting_changes_files_and_nothing_that_is_read(tmp_path: Path):
    """Three files of a day and metric become one with the same samples, each once; again there is nothing to do."""
    store = DuckStore(tmp_path / "s.duckdb")
    _fill(store)
    before = _read(store)
    assert len(before[0][0]) == 30
    done = store.compact(START_S)
    assert (done.merged, done.files_before, done.files_after) == (2, 6, 2)
    assert _read(store) == before
    assert store.compact(START_S).merged == 0
    (count,) = duckdb.sql(f"select count(*) from '{tmp_path}/s.cold/*/*/*.parquet'").fetchall()[0]
    assert count == 60
    _fill(store, 4)
    assert len(_read(store)[0][0]) == 40
    store.close()


@pytest.mark.parametrize("crash_at", range(9))
def test_a_crash_inside_a_merge_neither_loses_nor_doubles(tmp_path: Path, monkeypatch, crash_at: int):
    """Whichever rename or flush it dies before, the next start has every sample once, and can merge again."""
    store = DuckStore(tmp_path / "s.duckdb")
    _fill(store)
    before = _read(store)
    calls = iter(range(100))

    def dying(real):
        def call(*args):
            if next(calls) == crash_at:
                raise KeyboardInterrupt
            return real(*args)

        return call

    from features.store import compact

    monkeypatch.setattr("features.store.compact.sync", dying(compact.sync))
    monkeypatch.setattr("features.store.compact.os.replace", dying(compact.os.replace))
    with pytest.raises(KeyboardInterrupt):
        store.compact(START_S)
    monkeypatch.undo()
    store.close()
    store = DuckStore(tmp_path / "s.duckdb")
    assert _read(store) == before
    (count,) = duckdb.sql(f"select count(*) from '{tmp_path}/s.cold/*/*/*.parquet'").fetchall()[0]
    store.compact(START_S)
    assert store.stat().cold_files == 2
    assert _read(store) == before
    left = [file for file in (tmp_path / "s.cold").rglob("*") if file.is_file()]
    assert sorted(file.suffix for file in left) == [".parquet"] * 2 + [".sha256"] * 2
    with store.using() as connection:
        assert verify_cold(connection, store.cold).problems == ()
    assert count in (60, 62, 64)
    store.close()


def test_a_damaged_journal_is_named_and_harms_nothing(tmp_path: Path):
    """The store opens and reads; the next compaction says which file to delete."""
    store = DuckStore(tmp_path / "s.duckdb")
    _fill(store)
    before = _read(store)
    store.close()
    journal = next((tmp_path / "s.cold").glob("*/*")) / "merge.json"
    journal.write_text("{}")
    store = DuckStore(tmp_path / "s.duckdb")
    assert _read(store) == before
    with pytest.raises(StoreError, match=r"merge\.json is damaged"):
        store.compact(START_S)
    store.close()


def test_old_days_become_summaries(tmp_path: Path):
    """A step keeps mean, least, greatest and count of its good samples at its last moment; a code keeps the last."""
    store = DuckStore(tmp_path / "s.duckdb", policy=StorePolicy(downsample_after_days=2, downsample_to_s=10.0))
    rows = [(key, START_S + i, float(i)) for key in (UTIL, XID) for i in range(30)]
    rows += [(UTIL, START_S + 30 + i, float("nan")) for i in range(5)]
    store.append([SampleBatch.of(rows, received_s=START_S + 100)])
    store.spill(START_S + DAY_S)
    assert store.compact(START_S + 2 * DAY_S).downsampled == 0
    assert store.compact(START_S + 4 * DAY_S).downsampled == 2
    (util, xid) = store.read([UTIL, XID], START_S + 100, 1000)
    np.testing.assert_array_equal(util.at_s, START_S + np.array([9.0, 19.0, 29.0, 34.0]))
    np.testing.assert_array_equal(util.value, [4.5, 14.5, 24.5, np.nan])
    assert (util.reason != 0).tolist() == [False, False, False, True]
    np.testing.assert_array_equal(xid.value, [9.0, 19.0, 29.0])
    assert store.read([UTIL], START_S + 15, 1000)[0].at_s.tolist() == [START_S + 9]
    files = f"{tmp_path}/s.cold/*/metric=gpu_util_ratio/*.parquet"
    found = duckdb.sql(f"select min, max, count, step_s from '{files}' order by at_s").fetchall()
    assert found == [(0.0, 9.0, 10, 10.0), (10.0, 19.0, 10, 10.0), (20.0, 29.0, 10, 10.0), (None, None, 0, 10.0)]
    assert store.compact(START_S + 4 * DAY_S).merged == 0
    store.append([SampleBatch.of([(UTIL, START_S + 9.5, 20.5)], received_s=START_S + 4 * DAY_S)])
    store.spill(START_S + DAY_S)
    assert store.compact(START_S + 4 * DAY_S).downsampled == 1
    found = duckdb.sql(f"select value, min, max, count from '{files}' order by at_s limit 1").fetchall()
    assert found == [((45 + 20.5) / 11, 0.0, 20.5, 11)]
    store.close()


def test_the_periodic_call_follows_the_policy(tmp_path: Path):
    """``tidy`` deletes days beyond ``keep_days`` and leaves younger ones."""
    store = DuckStore(tmp_path / "s.duckdb", hot_window_s=DAY_S, policy=StorePolicy(keep_days=2))
    store.append([SampleBatch.of([(UTIL, START_S + i * DAY_S, 0.5) for i in range(6)])])
    store.tidy(START_S + 6.5 * DAY_S)
    assert store.read([UTIL], START_S + 1e7, 1e8)[0].at_s.tolist() == [START_S + i * DAY_S for i in (4, 5)]
    store.close()


@given(
    st.lists(st.integers(0, 100), max_size=20),
    st.one_of(st.none(), st.floats(0.5, 50)),
    st.one_of(st.none(), st.floats(0.5, 50)),
    st.floats(0, 150 * DAY_S),
)
def test_policy_touches_only_days_that_are_old_enough(days, keep, down, now_s):
    """No day is both dropped and down-sampled; each is past its limit, and every day past it is named."""
    plan = ageing(StorePolicy(keep, down), days, now_s)
    assert not set(plan.drop) & set(plan.downsample)
    assert set(plan.drop) == {d for d in days if keep is not None and now_s - (d + 1) * DAY_S > keep * DAY_S}
    past = {d for d in days if down is not None and now_s - (d + 1) * DAY_S > down * DAY_S}
    assert set(plan.downsample) == past - set(plan.drop)


def test_policy_refuses_nonsense():
    """A limit of no days or a step of nothing is named."""
    with pytest.raises(ValueError, match="keep_days"):
        StorePolicy(keep_days=0)
    with pytest.raises(ValueError, match="downsample_to_s"):
        StorePolicy(downsample_to_s=0.1)


def test_series_beyond_the_limit_are_refused_and_counted(tmp_path: Path):
    """New series beyond the limit are left out and counted by metric; old ones go on, also after a restart."""
    store = DuckStore(tmp_path / "s.duckdb", max_series=2)
    keys = [SeriesKey("gpu_util_ratio", f"n:G{i}") for i in range(4)]
    assert store.append([SampleBatch.of([(key, START_S, 0.5) for key in keys[:1]])]) == 1
    batch = SampleBatch.of([(key, START_S + i, 0.5) for i in range(1, 4) for key in keys])
    assert store.append([batch]) == 6
    assert store.refused == {"gpu_util_ratio": 6}
    assert store.append([batch]) == 6
    assert [s.at_s.size for s in store.read(keys, START_S + 10, 100)] == [4, 3, 0, 0]
    store.close()
    store = DuckStore(tmp_path / "s.duckdb", max_series=1)
    assert store.append([SampleBatch.of([(key, START_S + 9, 0.5) for key in keys])]) == 2
    assert store.keys() == keys[:2]
    store.close()


@given(st.floats(0.0, 9e9))
def test_times_in_cold_files_are_exact(at_s: float):
    """From the year 2004 on a time comes back as the same double; earlier ones within 1e-7 s."""
    sql = f"select cast(at_s as DOUBLE) from (select {exact_decimal('at_s')} from (select ?::DOUBLE as at_s))"
    (back,) = duckdb.execute(sql, [at_s]).fetchall()[0]
    assert back == at_s if at_s >= 2.0**30 else abs(back - at_s) <= 1e-7


def test_a_store_of_schema_0_is_brought_up_to_date(tmp_path: Path):
    """A file without the order of writing keeps its samples, first good one first, and takes new ones."""
    path = tmp_path / "s.duckdb"
    old = duckdb.connect(str(path))
    old.execute("create table schema_version (version INTEGER); insert into schema_version values (0)")
    old.execute("create table series (id INTEGER, metric VARCHAR, entity VARCHAR)")
    old.execute("insert into series values (0, 'gpu_util_ratio', 'n:G')")
    old.execute("create table samples (series_id INTEGER, at_s DOUBLE, value DOUBLE, reason UTINYINT, seen_s DOUBLE)")
    old.execute("insert into samples values (0, 5, 0.5, 0, 6), (0, 7, 0.7, 0, 8), (0, 5, 0.9, 0, 9)")
    old.close()
    for _ in range(2):
        store = DuckStore(path)
        assert store.read([UTIL], 8.0, 100)[0].value.tolist() == [0.5, 0.7]
        store.close()
    store = DuckStore(path)
    store.append([SampleBatch.of([(UTIL, 7.0, 0.1), (UTIL, 8.0, 0.8)])])
    assert store.read([UTIL], 8.0, 100)[0].value.tolist() == [0.5, 0.7, 0.8]
    store.spill(100.0)
    store.close()
    assert duckdb.connect(str(path)).execute("select version from schema_version").fetchall() == [(1,)]
