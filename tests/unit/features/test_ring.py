"""The ring holds the recent past, bounded, and answers as the store does."""

from __future__ import annotations

import numpy as np
import pytest

from features.ring import EVICT_EVERY, Ring
from features.store.base import Reader
from features.store.duck import DuckStore
from telemetry.errors import SchemaError
from telemetry.ids import SeriesKey
from telemetry.samples import SampleBatch

START_S = 1_767_225_600.0
KEYS = tuple(SeriesKey("gpu_util_ratio", f"n:G{i}") for i in range(4))


def _row(keys: tuple[SeriesKey, ...], at_s: float, values: list[float], received_s: float | None = None) -> SampleBatch:
    value = np.array(values)
    return SampleBatch(
        keys,
        np.arange(len(keys), dtype=np.int32),
        np.full(len(keys), at_s),
        value,
        np.where(np.isnan(value), 3, 0).astype(np.uint8),
        received_s=at_s + 0.1 if received_s is None else received_s,
    )


def _assert_same(ring: Ring, store: DuckStore, keys: list[SeriesKey], as_of_s: float, window_s: float) -> None:
    for one, other in zip(ring.read(keys, as_of_s, window_s), store.read(keys, as_of_s, window_s), strict=True):
        assert one.key == other.key
        np.testing.assert_array_equal(one.at_s, other.at_s)
        np.testing.assert_array_equal(one.value, other.value)
        np.testing.assert_array_equal(one.reason, other.reason)
        assert one.received_s == other.received_s


def test_answers_as_the_store_does():
    """Whole rows, parts of layouts, new layouts, missing and repeated values read the same from ring and store."""
    rng = np.random.default_rng(2)
    ring, store = Ring(1000.0), DuckStore(None)
    other = (KEYS[1], SeriesKey("gpu_power_watts", "n:G9"), KEYS[3])
    for i in range(60):
        values = rng.random(4)
        values[rng.random(4) < 0.2] = np.nan
        batches = [_row(KEYS, START_S + i, values.tolist())]
        if i % 3 == 0:
            batches.append(_row(other, START_S + i + (0.5 if i % 2 else 0.0), rng.random(3).tolist()))
        if i % 5 == 0:
            part = batches[0]
            batches.append(
                SampleBatch(
                    KEYS,
                    part.series[1:3],
                    part.at_s[1:3] + 0.25,
                    part.value[1:3],
                    part.reason[1:3],
                    received_s=part.at_s[0],
                )
            )
        for batch in batches:
            ring.append(batch)
        store.append(batches)
    keys = [*KEYS, *other, SeriesKey("gpu_util_ratio", "nobody")]
    for as_of_s, window_s in ((START_S + 100, 1000), (START_S + 30, 10), (START_S + 30.25, 5.0), (START_S - 1, 9)):
        _assert_same(ring, store, keys, as_of_s, window_s)
    assert isinstance(ring, Reader)


def test_a_history_in_one_batch_reads_the_same():
    """A batch that holds many instants, unsorted and with a repeat, lands in the right places."""
    rng = np.random.default_rng(4)
    series = np.repeat(np.arange(4, dtype=np.int32), 30)
    at_s = START_S + np.tile(np.arange(30.0), 4)
    turn = rng.permutation(120)
    repeat = np.r_[turn, turn[:5]]
    value = np.r_[rng.random(120), np.full(5, 9.0)]
    batch = SampleBatch(KEYS, series[repeat], at_s[repeat], value, np.zeros(125, np.uint8), received_s=START_S)
    ring, store = Ring(1000.0), DuckStore(None)
    ring.append(batch)
    store.append([batch])
    _assert_same(ring, store, list(KEYS), START_S + 29, 100)
    assert not any((series.value == 9.0).any() for series in ring.read(KEYS, START_S + 29, 100))


def test_a_changed_layout_keeps_the_history():
    """A series goes on where another layout brings it, without a break."""
    ring = Ring(1000.0)
    for i in range(10):
        ring.append(_row(KEYS, START_S + i, [float(i)] * 4))
    fewer = (KEYS[2], KEYS[0])
    for i in range(10, 20):
        ring.append(_row(fewer, START_S + i, [float(i)] * 2))
    kept, gone = ring.read([KEYS[2], KEYS[1]], START_S + 19, 100)
    np.testing.assert_array_equal(kept.value, np.arange(20.0))
    np.testing.assert_array_equal(gone.value, np.arange(10.0))


def test_an_equal_layout_in_another_tuple_is_the_same_layout():
    """Tuples that are equal but not the same object fill one block."""
    ring = Ring(1000.0)
    for i in range(10):
        ring.append(_row(tuple(SeriesKey(k.metric, k.entity) for k in KEYS), START_S + i, [float(i)] * 4))
    assert ring.read([KEYS[0]], START_S + 9, 100)[0].value.tolist() == [float(i) for i in range(10)]
    assert sorted(ring.keys()) == sorted(KEYS)


def test_the_oldest_go_first():
    """Never more instants than allowed; the newest stay."""
    ring = Ring(1e9, max_samples_per_target=16)
    for i in range(100):
        ring.append(_row(KEYS, START_S + i, [float(i)] * 4))
    (series,) = ring.read([KEYS[0]], START_S + 99, 1e9)
    np.testing.assert_array_equal(series.value, np.arange(84.0, 100.0))


def test_the_buffer_stops_growing_at_the_window():
    """With a short window old rows are used again long before the bound on samples."""
    ring = Ring(10.0, max_samples_per_target=100_000)
    for i in range(2000):
        ring.append(_row(KEYS, START_S + i, [0.0] * 4))
    (series,) = ring.read([KEYS[0]], START_S + 1999, 1e9)
    assert 11 <= series.at_s.shape[0] <= 64
    assert ring.read([KEYS[0]], START_S + 1999, 10.0)[0].at_s.shape[0] == 11


def test_layouts_that_are_over_are_dropped():
    """A cluster that changes its layout with every scrape does not fill the memory."""
    ring = Ring(50.0)
    for i in range(2 * EVICT_EVERY):
        passing = (SeriesKey("gpu_util_ratio", f"pod-{i}"),)
        ring.append(_row(passing, START_S + i, [1.0]))
    assert len(ring.keys()) <= 52
    assert ring.keys(["gpu_power_watts"]) == []


def test_newest_times_of_a_series():
    """The newest sample's time and its arrival are told per series; unknown is None."""
    ring = Ring(100.0)
    ring.append(_row(KEYS, START_S, [0.0] * 4, received_s=START_S + 3))
    ring.append(_row(KEYS[:1], START_S + 5, [0.0], received_s=START_S + 9))
    assert (ring.latest_s(KEYS[0]), ring.received_s(KEYS[0])) == (START_S + 5, START_S + 9)
    assert (ring.latest_s(KEYS[1]), ring.received_s(KEYS[1])) == (START_S, START_S + 3)
    nobody = SeriesKey("gpu_util_ratio", "nobody")
    assert (ring.latest_s(nobody), ring.received_s(nobody)) == (None, None)


def test_a_batch_that_breaks_a_law_is_refused():
    """The ring checks a layout when it first sees it."""
    bad = SampleBatch(KEYS, np.array([9], np.int32), np.array([START_S]), np.ones(1), np.zeros(1, np.uint8))
    with pytest.raises(SchemaError, match="series index"):
        Ring(10.0).append(bad)
