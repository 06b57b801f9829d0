"""The contract of a feature store, as checks that every implementation runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from features.store.base import FeatureStore, Series
from telemetry.errors import SchemaError
from telemetry.ids import GpuId, JobId, SeriesKey
from telemetry.samples import Reason, SampleBatch, Sighting

START_S = 1_767_225_600.0
UTIL = SeriesKey("gpu_util_ratio", "node-1:GPU-1")
POWER = SeriesKey("gpu_power_watts", "node-1:GPU-1")
UNKNOWN = SeriesKey("gpu_power_watts", "node-9:GPU-9")
GPU = GpuId("node-1", "GPU-1")
JOB = JobId("slurm", "8123")

Check = Callable[[Callable[[], FeatureStore]], None]


def yield_checks() -> Iterator[Check]:
    """Checks to call with a function that makes an empty store; each raises AssertionError when a law is broken."""
    yield check_reads_back
    yield check_nothing_later_than_as_of
    yield check_window_is_closed
    yield check_twice_is_once
    yield check_order_of_appends
    yield check_first_good_value_wins
    yield check_missing_keeps_its_reason
    yield check_unknown_key_is_empty
    yield check_keys
    yield check_allocations
    yield check_empty_batch
    yield check_input_is_untouched
    yield check_bad_batch_stores_nothing


def _batch(start: int, stop: int, offset: float = 0.0) -> SampleBatch:
    rows = [(UTIL, START_S + i, 0.01 * i + offset) for i in range(start, stop)]
    rows += [(POWER, START_S + i, 100.0 + i + offset) for i in range(start, stop)]
    return SampleBatch.of(rows, source="check", received_s=START_S + stop)


def _same(one: Series, other: Series) -> None:
    assert one.key == other.key
    np.testing.assert_array_equal(one.at_s, other.at_s)
    np.testing.assert_array_equal(one.value, other.value)
    np.testing.assert_array_equal(one.reason, other.reason)


def _all(store: FeatureStore) -> list[Series]:
    return store.read([UTIL, POWER], START_S + 1e6, 2e6)


def check_reads_back(make: Callable[[], FeatureStore]) -> None:
    """What was written comes back, in time order and in the order asked."""
    store = make()
    assert store.append([_batch(0, 10)]) == 20
    power, util = store.read([POWER, UTIL], START_S + 9, 9)
    assert (power.key, util.key) == (POWER, UTIL)
    np.testing.assert_array_equal(util.at_s, START_S + np.arange(10))
    np.testing.assert_array_equal(power.value, 100.0 + np.arange(10))
    assert not util.reason.any()
    assert util.received_s == START_S + 10
    store.close()


def check_nothing_later_than_as_of(make: Callable[[], FeatureStore]) -> None:
    """A read at a moment gives nothing later than it."""
    store = make()
    store.append([_batch(0, 50)])
    for as_of_s in (START_S - 1, START_S, START_S + 20.5, START_S + 21):
        for series in store.read([UTIL, POWER], as_of_s, 1e6):
            assert not (series.at_s > as_of_s).any()
            assert series.at_s.shape[0] == max(0, int(np.floor(as_of_s - START_S)) + 1)
    store.close()


def check_window_is_closed(make: Callable[[], FeatureStore]) -> None:
    """Both ends of the window belong to it."""
    store = make()
    store.append([_batch(0, 50)])
    (util,) = store.read([UTIL], START_S + 30, 10)
    np.testing.assert_array_equal(util.at_s, START_S + np.arange(20, 31))
    store.close()


def check_twice_is_once(make: Callable[[], FeatureStore]) -> None:
    """The same batch appended again changes nothing that is read."""
    store = make()
    batch = _batch(0, 20)
    store.append([batch])
    before = _all(store)
    store.append([batch])
    store.append([batch, _batch(5, 15)])
    for one, other in zip(before, _all(store), strict=True):
        _same(one, other)
    store.close()


def check_order_of_appends(make: Callable[[], FeatureStore]) -> None:
    """Batches may come in any order."""
    parts = [_batch(i, i + 5) for i in range(0, 40, 5)]
    forward, backward = make(), make()
    for part in parts:
        forward.append([part])
    backward.append(parts[::-1])
    for one, other in zip(_all(forward), _all(backward), strict=True):
        _same(one, other)
    forward.close()
    backward.close()


def check_first_good_value_wins(make: Callable[[], FeatureStore]) -> None:
    """Of two values at one instant the first counts, unless it was missing."""
    store = make()
    store.append([SampleBatch.of([(UTIL, START_S, float("nan")), (POWER, START_S, 5.0)])])
    store.append([SampleBatch.of([(UTIL, START_S, 0.7), (POWER, START_S, 6.0)])])
    store.append([SampleBatch.of([(UTIL, START_S, 0.8), (POWER, START_S, float("nan"))])])
    util, power = _all(store)
    assert (util.value.tolist(), power.value.tolist()) == ([0.7], [5.0])
    assert not util.reason.any()
    store.close()


def check_missing_keeps_its_reason(make: Callable[[], FeatureStore]) -> None:
    """A missing value comes back as NaN with its reason, never as 0."""
    store = make()
    reasons = np.array([Reason.BLANK, Reason.OUT_OF_RANGE, Reason.NOT_MEASURED], np.uint8)
    store.append([SampleBatch((UTIL,), np.zeros(3, np.int32), START_S + np.arange(3.0), np.full(3, np.nan), reasons)])
    (util,) = store.read([UTIL], START_S + 9, 9)
    assert np.isnan(util.value).all()
    np.testing.assert_array_equal(util.reason, reasons)
    store.close()


def check_unknown_key_is_empty(make: Callable[[], FeatureStore]) -> None:
    """A key that nobody wrote gives an empty series in its place."""
    store = make()
    assert [series.at_s.shape[0] for series in store.read([UNKNOWN], START_S, 1e6)] == [0]
    store.append([_batch(0, 3)])
    unknown, util = store.read([UNKNOWN, UTIL], START_S + 9, 1e6)
    assert (unknown.key, unknown.at_s.shape[0], util.at_s.shape[0]) == (UNKNOWN, 0, 3)
    store.close()


def check_keys(make: Callable[[], FeatureStore]) -> None:
    """Every series is listed once; a choice of metrics narrows it."""
    store = make()
    store.append([_batch(0, 3), _batch(3, 6)])
    assert sorted(store.keys()) == [POWER, UTIL]
    assert list(store.keys(["gpu_power_watts"])) == [POWER]
    assert list(store.keys([])) == []
    store.close()


def check_allocations(make: Callable[[], FeatureStore]) -> None:
    """Sightings become stretches; what is not known yet at a moment is not told."""
    store = make()
    for i in range(0, 60, 10):
        owner = JOB if i < 40 else None
        sighting = Sighting(GPU, START_S + i, owner, sharers=1 if owner else 0)
        store.append([replace(SampleBatch.empty(source="check"), sightings=(sighting,))])
    assert store.allocations(START_S - 1, 1e6) == []
    (running,) = store.allocations(START_S + 20, 1e6)
    assert (running.job, running.gpu, running.from_s, running.to_s) == (JOB, GPU, START_S, None)
    (over,) = store.allocations(START_S + 50, 1e6)
    assert (over.from_s, over.to_s) == (START_S, START_S + 30)
    assert store.allocations(START_S + 50, 10) == []
    store.close()


def check_empty_batch(make: Callable[[], FeatureStore]) -> None:
    """Nothing to store is fine."""
    store = make()
    assert store.append([]) == 0
    assert store.append([SampleBatch.empty(source="down")]) == 0
    assert store.keys() == []
    store.close()


def check_input_is_untouched(make: Callable[[], FeatureStore]) -> None:
    """Appending changes no array of the caller, and later changes of the caller change nothing stored."""
    store = make()
    batch = _batch(0, 5)
    value = batch.value.copy()
    store.append([batch])
    np.testing.assert_array_equal(batch.value, value)
    batch.value[:] = -1.0
    assert not any((series.value < 0).any() for series in _all(store))
    store.close()


def check_bad_batch_stores_nothing(make: Callable[[], FeatureStore]) -> None:
    """A batch that breaks a law is refused, and nothing of the same call is stored."""
    store = make()
    good = _batch(0, 5)
    bad = SampleBatch((UNKNOWN,), np.array([3], np.int32), np.array([START_S]), np.ones(1), np.zeros(1, np.uint8))
    refused = ""
    try:
        store.append([good, bad])
    except SchemaError as error:
        refused = str(error)
    assert "series index" in refused
    assert store.keys() == []
    store.append([good])
    assert [series.at_s.shape[0] for series in _all(store)] == [5, 5]
    store.close()
