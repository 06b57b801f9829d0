"""Laws of the store over made-up histories."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from features.ring import Ring
from features.store.base import Series
from features.store.content import content_digest
from features.store.duck import DuckStore
from telemetry.ids import SeriesKey
from telemetry.samples import Reason, SampleBatch

START_S = 1_767_225_600.0
KEYS = tuple(SeriesKey(metric, f"n:G{i}") for metric in ("gpu_util_ratio", "gpu_power_watts") for i in range(2))
LAYOUTS = (KEYS, KEYS[:2], (KEYS[3], KEYS[1]))


@st.composite
def _cell(draw, layout: tuple[SeriesKey, ...]):
    return draw(st.integers(0, len(layout) - 1)), draw(st.integers(0, 15))


@st.composite
def _batches(draw, agreeing: bool):
    """Batches of a few instants; ``agreeing``: a value depends on series and instant only, so order cannot matter."""
    batches = []
    for _ in range(draw(st.integers(1, 6))):
        layout = draw(st.sampled_from(LAYOUTS))
        cells = draw(st.lists(_cell(layout), min_size=1, max_size=12))
        series = np.array([place for place, _ in cells], np.int32)
        at_s = START_S + np.array([second for _, second in cells], float)
        missing = np.array([draw(st.booleans()) and draw(st.booleans()) for _ in cells])
        number = np.array([KEYS.index(layout[place]) * 100 + second for place, second in cells], float)
        value = number if agreeing else np.array([float(draw(st.integers(0, 3))) for _ in cells])
        reason = np.where(missing, Reason.BLANK, Reason.OK).astype(np.uint8)
        received_s = START_S + draw(st.integers(0, 30))
        batches.append(
            SampleBatch(layout, series, at_s, np.where(missing, np.nan, value), reason, received_s=received_s)
        )
    return batches


def _contents(reader, as_of_s: float = START_S + 100, window_s: float = 1000.0):
    return [_content(one) for one in reader.read(KEYS, as_of_s, window_s)]


def _content(one: Series):
    return one.at_s.tolist(), np.nan_to_num(one.value, nan=-1.0).tolist(), one.reason.tolist()


def _store(batches) -> DuckStore:
    store = DuckStore(None)
    for batch in batches:
        store.append([batch])
    return store


def _by_hand(batches, as_of_s: float, window_s: float):
    """The contract written out: the first good value of an instant, else the first."""
    kept: dict[tuple[SeriesKey, float], tuple[float, int]] = {}
    for batch in batches:
        rows = zip(batch.series, batch.at_s, batch.value, batch.reason, strict=True)
        for place, at_s, value, reason in rows:
            cell = (batch.keys[place], float(at_s))
            if cell not in kept or (kept[cell][1] != 0 and reason == 0):
                kept[cell] = (float(value), int(reason))
    found = []
    for key in KEYS:
        times = sorted(t for k, t in kept if k == key and as_of_s - window_s <= t <= as_of_s)
        values = [-1.0 if np.isnan(kept[key, t][0]) else kept[key, t][0] for t in times]
        found.append((times, values, [kept[key, t][1] for t in times]))
    return found


@settings(max_examples=40, deadline=None)
@given(_batches(agreeing=False))
def test_reads_are_exact(batches):
    """Store and ring give, for any history, what the contract written out by hand gives."""
    store, ring = _store(batches), Ring(1000.0)
    for batch in batches:
        ring.append(batch)
    for as_of_s, window_s in ((START_S + 100, 1000.0), (START_S + 7, 1000.0), (START_S + 12, 4.0)):
        expected = _by_hand(batches, as_of_s, window_s)
        assert _contents(store, as_of_s, window_s) == expected
        assert _contents(ring, as_of_s, window_s) == expected
    store.close()


@settings(max_examples=25, deadline=None)
@given(_batches(agreeing=False), st.data())
def test_appending_again_changes_nothing(batches, data):
    """Any part of a history appended once more is already there."""
    store = _store(batches)
    before = _contents(store)
    store.append(data.draw(st.lists(st.sampled_from(batches), max_size=4)))
    assert _contents(store) == before
    store.close()


@settings(max_examples=25, deadline=None)
@given(_batches(agreeing=True), st.randoms(use_true_random=False))
def test_order_does_not_matter(batches, random):
    """Batches that do not contradict each other give the same reads in any order, one call or many."""
    turned = list(batches)
    random.shuffle(turned)
    one, other = _store(batches), DuckStore(None)
    other.append(turned)
    assert _contents(one) == _contents(other)
    one.close()
    other.close()


def _spilled(folder: Path, batches, data) -> tuple[str, list]:
    """Digest and reads of a store on disk that is spilled and merged at any times while the batches come."""
    store = DuckStore(folder / "s.duckdb")
    for batch in batches:
        store.append([batch])
        if data.draw(st.booleans()):
            store.spill(START_S + data.draw(st.integers(0, 30)))
        if data.draw(st.integers(0, 3)) == 0:
            store.compact(START_S)
    with store.using() as connection:
        digest = content_digest(connection, store.cold)
    found = _contents(store)
    store.close()
    return digest, found


@settings(max_examples=25, deadline=None)
@given(_batches(agreeing=True), st.data())
def test_three_times_in_any_order_is_the_same_content(batches, data):
    """Each batch three times, shuffled, spilled and merged in between, leaves the very content of once in order."""
    shuffled = data.draw(st.permutations(batches * 3))
    with TemporaryDirectory() as one, TemporaryDirectory() as other:
        assert _spilled(Path(one), batches, data) == _spilled(Path(other), shuffled, data)


@settings(max_examples=25, deadline=None)
@given(_batches(agreeing=False), st.data())
def test_a_digest_tells_other_content(batches, data):
    """One more sample, or one with another value, gives another digest; taken in again as it is, the same."""
    store, other = _store(batches), _store(batches)
    with store.using() as one, other.using() as two:
        assert content_digest(one, store.cold) == content_digest(two, other.cold)
    other.append([SampleBatch.of([(KEYS[data.draw(st.integers(0, 3))], START_S + 16, 5.0)])])
    with store.using() as one, other.using() as two:
        assert content_digest(one, store.cold) != content_digest(two, other.cold)
    store.close()
    other.close()


@settings(max_examples=25, deadline=None)
@given(_batches(agreeing=False), st.integers(-1, 16), st.data())
def test_the_future_changes_no_read_of_cold_files(batches, second, data):
    """The same where samples lie in cold files, merged or not, beside hot ones."""
    as_of_s = START_S + second
    past = DuckStore(None)
    with TemporaryDirectory() as folder:
        store = DuckStore(Path(folder) / "s.duckdb")
        for batch in batches:
            store.append([batch])
            if data.draw(st.booleans()):
                store.spill(START_S + data.draw(st.integers(0, 30)))
            _append_known(past, batch, as_of_s)
        if data.draw(st.booleans()):
            store.compact(START_S)
        assert _contents(store, as_of_s) == _contents(past, as_of_s)
        store.close()
    past.close()


def _append_known(past: DuckStore, batch: SampleBatch, as_of_s: float) -> None:
    """Only what lies before the moment."""
    known = batch.at_s <= as_of_s
    if known.any():
        columns = (batch.series[known], batch.at_s[known], batch.value[known], batch.reason[known])
        past.append([SampleBatch(batch.keys, *columns, received_s=batch.received_s)])


@settings(max_examples=25, deadline=None)
@given(_batches(agreeing=False), st.integers(-1, 16))
def test_the_future_changes_no_read(batches, second):
    """A read as of a moment is the same before and after later samples are stored."""
    as_of_s = START_S + second
    store, past = _store(batches), DuckStore(None)
    for batch in batches:
        _append_known(past, batch, as_of_s)
    assert _contents(store, as_of_s) == _contents(past, as_of_s)
    store.close()
    past.close()
