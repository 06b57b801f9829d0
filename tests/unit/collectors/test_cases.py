"""Field cases: what was got wrong elsewhere, and the figures that are right."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from collectors.answer import Answer, read_answer
from collectors.entities import Place
from collectors.exposition import PageParser
from collectors.fields import FieldMapper
from collectors.series_map import SeriesMapper
from features.ring import Ring
from features.transforms.devices import (
    activity_by_device,
    energy_power_watts,
    idle_devices,
    known_devices,
    sum_per_node,
)
from features.transforms.jobs import FRAME_METRICS
from features.transforms.xid import active_codes, last_event, xid_events
from telemetry.catalogue import BY_FIELD, BY_NAME, Kind
from telemetry.ids import GpuId, JobId
from telemetry.samples import Problem, Reason, SampleBatch, validate_batch

pytestmark = pytest.mark.shared
MIB = 1024**2


@pytest.fixture
def case(shared_dir: Path):
    def find(number: str, name: str) -> bytes:
        (path,) = shared_dir.glob(f"cases/{number}-*/{name}")
        return path.read_bytes()

    return find


def from_page(data: bytes, at_s: float = 0.0, mapper: FieldMapper | None = None) -> SampleBatch:
    batch = (mapper or FieldMapper("page", Place(fallback="node-a1"))).batch(PageParser().parse(data), at_s)
    validate_batch(batch)
    return batch


def answer_of(data: bytes) -> Answer:
    return read_answer(json.loads(data), "server")


def from_answer(data: bytes, field: str = "") -> SampleBatch:
    batch = SeriesMapper("server").batch([answer_of(data)], 0.0, field=field)
    validate_batch(batch)
    return batch


def values(batch: SampleBatch, metric: str) -> dict[str, list[float]]:
    """Entity -> values in time order."""
    found: dict[str, list[float]] = {}
    for series, _, value in sorted(zip(batch.series.tolist(), batch.at_s.tolist(), batch.value.tolist(), strict=True)):
        if batch.keys[series].metric == metric:
            found.setdefault(batch.keys[series].entity, []).append(value)
    return found


def column(batch: SampleBatch, metric: str) -> np.ndarray:
    return np.array([v for group in values(batch, metric).values() for v in group])


def count(batch: SampleBatch, problem: Problem) -> int:
    return sum(finding.count for finding in batch.findings if finding.problem is problem)


def test_01_blank_numbers_are_missing(case):
    batch = from_page(case("01", "metrics.prom"))
    assert len(batch) == 25
    assert int((batch.reason == Reason.BLANK).sum()) == 10
    assert int((batch.reason == Reason.OK).sum()) == 15
    assert count(batch, Problem.MALFORMED_LINE) == 1
    assert count(batch, Problem.BLANK_VALUE) == 10
    expected = {
        "gpu_sm_active_ratio": (2, 0.4562985),
        "gpu_pcie_tx_bytes_per_s": (2, 33679444.5),
        "gpu_memory_temperature_celsius": (1, 61.0),
        "gpu_util_ratio": (2, 0.49),
        "gpu_power_watts": (4, 196.13725),
    }
    for metric, (n, mean) in expected.items():
        good = column(batch, metric)[np.isfinite(column(batch, metric))]
        assert (good.size, good.mean()) == (n, pytest.approx(mean)), metric
    counters = column(batch, "gpu_nvlink_tx_bytes_total")
    assert counters[[0, 2, 3]].tolist() == [201326592000000.0, 140737488355328.0, 0.0]
    assert np.isnan(counters[1])
    assert values(batch, "gpu_fabric_clique_id") == {"node-a1:GPU-a0000003-0000-4000-8000-000000000003": [1.0]}


def test_02_corrupt_utilisation_is_rejected_not_clipped(case):
    batch = from_answer(case("02", "query_range.json"))
    idle, busy = values(batch, "gpu_util_ratio").values()
    bad = batch.at_s[batch.reason == Reason.OUT_OF_RANGE]
    assert sorted(bad.tolist()) == [1767226020.0, 1767226140.0, 1767226320.0]
    assert (len(batch), count(batch, Problem.OUT_OF_RANGE)) == (40, 3)
    assert np.isfinite(idle).sum() == 18
    assert np.nanmean(idle) * 100 == pytest.approx(0.055556, abs=1e-6)
    assert np.nanmax(idle) * 100 == pytest.approx(1)
    assert np.isfinite(busy).sum() == 19
    assert np.nanmean(busy) * 100 == pytest.approx(97.736842, abs=1e-6)
    assert (np.nanmin(busy), np.nanmax(busy)) == (pytest.approx(0.96), pytest.approx(0.99))


def test_03_a_declared_counter_that_is_a_rate(case):
    batch = from_answer(case("03", "query_range.json"))
    (nvlink,) = values(batch, "gpu_nvlink_bytes_per_s").values()
    assert np.isnan(nvlink[0])
    assert batch.reason[batch.value != batch.value].tolist() == [Reason.FIRST_READING]
    assert nvlink[1:] == pytest.approx(
        [157911040000, 156545024000, 17122304000, 25119744000, 25080832000, 12420096000, 0]
    )
    assert np.nanmean(nvlink) / 1e9 == pytest.approx(56.314149, abs=1e-6)
    (pcie,) = values(batch, "gpu_pcie_tx_bytes_per_s").values()
    assert (np.mean(pcie), max(pcie)) == (pytest.approx(36165909.8, abs=0.06), 67358889.0)
    workloads = {s.workload for s in batch.sightings if s.job is not None}
    assert workloads == {"team-a/train-0/main"}
    assert len({s.gpu for s in batch.sightings}) == 1
    assert nvlink[-1] == 0.0
    assert np.nanmax(nvlink) == pytest.approx(157911040000)
    declared = json.loads(case("03", "metadata.json"))["data"]
    for field in declared:
        assert {entry["type"] for entry in declared[field]} == {"counter"}
        assert BY_FIELD[field][0].kind is Kind.RATE
    assert pcie == [float(v) for s in answer_of(case("03", "query_range.json")).series[1:] for v in s.value]
    assert {key.metric for key in batch.keys} == {"gpu_nvlink_bytes_per_s", "gpu_pcie_tx_bytes_per_s"}
    assert BY_NAME["gpu_pcie_tx_bytes_per_s"].sources[0].field == "DCGM_FI_PROF_PCIE_TX_BYTES"


def test_04_exported_labels_name_the_user(case):
    batch = from_answer(case("04", "query.json"))
    state = {s.gpu.uuid[11]: (s.workload, s.known) for s in batch.sightings}
    by_letter = {s.gpu.uuid[-1]: (s.workload, s.known) for s in batch.sightings}
    assert len(state) <= len(by_letter) == 5
    assert by_letter == {
        "b": ("team-a/train-0/main", True),
        "c": ("", True),
        "d": ("team-b/train-1/main", True),
        "e": ("", True),
        "f": ("", False),
    }
    assert {s.job for s in batch.sightings if s.job} == {
        JobId("kubernetes", "team-a:train"),
        JobId("kubernetes", "team-b:train"),
    }
    assert count(batch, Problem.OWNER_UNKNOWN) == 1


def test_05_three_label_sets_are_one_gpu(case):
    batch = from_answer(case("05", "query_range.json"))
    assert len(batch.keys) == 1
    assert batch.at_s.tolist() == [1767225600.0 + 60 * i for i in range(12)]
    expected = [0, 0, 0, 0, 85, 87, 90, 91, 89, 0, 0, 0]
    assert (batch.value * 100).tolist() == pytest.approx(expected)
    owned = [s for s in batch.sightings if s.job is not None]
    points = {w: sorted(s.at_s for s in owned if s.workload == w) for w in {s.workload for s in owned}}
    assert points == {
        "team-a/train-0/main": [1767225840.0, 1767225900.0, 1767225960.0],
        "team-b/infer-7/srv": [1767225960.0, 1767226020.0, 1767226080.0],
    }
    assert len({s.at_s for s in owned}) == 5
    assert len({s.gpu for s in batch.sightings}) == 1
    assert {s.sharers for s in owned} == {1}


def test_06_time_slicing_counts_the_device_once(case):
    batch = from_page(case("06", "metrics.prom"))
    assert column(batch, "gpu_power_watts").sum() == pytest.approx(123.512)
    assert column(batch, "gpu_memory_used_bytes")[0] == 12288 * MIB
    assert column(batch, "gpu_gr_engine_active_ratio").mean() == pytest.approx(0.482)
    assert len({key.entity for key in batch.keys}) == 2
    shared = {s.workload for s in batch.sightings if s.sharers == 4}
    assert shared == {f"default/share-{letter}/main" for letter in "abcd"}
    (alone,) = [s for s in batch.sightings if s.sharers == 1]
    assert alone.workload == "default/solo-1/main"
    assert count(batch, Problem.DUPLICATE_SERIES) == 0


def test_07_mig_cards_count_once_and_instances_apart(case):
    before, after = (from_page(case("07", f"scrape_t{t}.prom")) for t in (0, 60))
    watts = (column(after, "gpu_energy_joules_total") - column(before, "gpu_energy_joules_total")) / 60
    assert watts == pytest.approx([300, 250], abs=1)
    active = {GpuId.parse(k).mig: v[0] for k, v in values(before, "gpu_gr_engine_active_ratio").items()}
    assert active == {"7": 0.95, "8": 0.0, "9": 0.40, "11": 0.0, "": 0.63}
    util = values(before, "gpu_util_ratio")
    assert list(util.values()) == [[0.64]]
    memory = {}
    for entity, (used,) in values(before, "gpu_memory_used_bytes").items():
        card = GpuId.parse(entity).card
        memory[card.uuid[-1]] = memory.get(card.uuid[-1], 0) + used / MIB
    assert memory == {"0": 12524, "1": 61000}
    assert len({s.gpu for s in before.sightings}) == 5
    assert len({s.gpu.card for s in before.sightings}) == 2
    ring = Ring(1000.0)
    for t in (0, 60):
        ring.append(from_page(case("07", f"scrape_t{t}.prom"), 1000.0 + t))
    powers = energy_power_watts(ring, 1060.0, 60.0)
    assert sum_per_node(powers) == {"node-d1": pytest.approx(550, abs=2)}
    assert len(ring.keys(["gpu_energy_joules_total"])) == 2
    active_now = activity_by_device(ring, 1060.0, 60.0)
    assert {gpu.mig for gpu in idle_devices(active_now)} == {"8", "11"}
    assert len(known_devices(ring)) == 5


def test_08_an_xid_is_an_event_and_its_window_count_falls(case):
    batch = from_answer(case("08", "query_range.json"))
    assert {key.entity for key in batch.keys} == {"node-a1:GPU-a0000001-0000-4000-8000-000000000001"}
    (codes,) = values(batch, "gpu_xid_last_code").values()
    assert len(codes) == 60
    assert set(codes) == {0.0, 31.0, 43.0}
    ring = Ring(1e5)
    ring.append(batch)
    end_s = 1767229140.0
    code, count_ = (
        ring.read(ring.keys([metric]), end_s, 1e5)[0] for metric in ("gpu_xid_last_code", "gpu_xid_window_count")
    )
    events = xid_events(code, count_)
    assert [(e.code, e.at_s) for e in events] == [(31, 1767225900.0), (31, 1767226800.0), (43, 1767228060.0)]
    assert [e.code for e in xid_events(code)] == [31, 43]
    newest = last_event(events, end_s)
    assert newest is not None
    assert (newest.code, end_s - newest.at_s, active_codes(events, end_s)) == (43, 1080.0, [])
    for at_s in (1767226200.0, 1767226799.0, 1767227100.0, 1767228059.0):
        assert 31 not in active_codes(events, at_s)
    assert bool((np.diff(count_.value) < 0).any())
    assert BY_NAME["gpu_xid_window_count"].kind is Kind.WINDOW_COUNT
    assert BY_NAME["gpu_xid_last_code"].kind is Kind.LAST_CODE
    assert not {"gpu_xid_last_code", "gpu_xid_window_count"} & set(FRAME_METRICS)


def test_09_one_line_per_slurm_job(case):
    batch = from_page(case("09", "metrics.prom"))
    assert column(batch, "gpu_power_watts").sum() == pytest.approx(1350.25)
    assert column(batch, "gpu_util_ratio").mean() == pytest.approx(0.47)
    assert count(batch, Problem.DUPLICATE_SERIES) == 0
    users: dict[JobId, dict[str, int]] = {}
    for s in batch.sightings:
        if s.job is not None:
            users.setdefault(s.job, {})[s.gpu.uuid[-1]] = s.sharers
    assert users == {JobId("slurm", "8123"): {"0": 2, "1": 1}, JobId("slurm", "8124"): {"0": 2}}
    assert {s.gpu.uuid[-1] for s in batch.sightings if s.job is None} == {"2", "3"}


def test_10_infiniband_bytes_come_multiplied_and_ports_that_are_down_are_missing(case):
    first, second = (from_page(case("10", f"node_exporter_t{t}.prom"), float(t)) for t in (0, 15))
    sent = (column(second, "port_tx_bytes_total") - column(first, "port_tx_bytes_total")) / 15
    assert sent[:2] == pytest.approx([30e9, 6.25e9])
    assert np.isnan(sent[2])
    down = [k.entity for k, r in zip(first.keys, first.reason, strict=True) if r == Reason.NOT_MEASURED]
    assert set(down) == {"node-a1:mlx5_2:1"}
    capacity = column(first, "port_capacity_bytes_per_s")
    assert sent[:2] / capacity[:2] == pytest.approx([0.6, 0.5])
    assert np.nansum(sent) / np.nansum(capacity) == pytest.approx(0.58)
    wait = column(second, "port_tx_wait_ticks_total") - column(first, "port_tx_wait_ticks_total")
    assert wait.tolist() == [1234567.0]
    assert not [k for k in first.keys if "legacy" in k.metric]
    assert count(first, Problem.UNKNOWN_METRIC) == 0


FIELD = "DCGM_FI_PROF_SM_ACTIVE"


def test_12a_nan_and_infinities_are_missing(case):
    data = case("12", "a_nan_inf.json")
    batch = from_answer(data, FIELD)
    good = batch.reason == Reason.OK
    assert dict(zip(batch.at_s[good].tolist(), batch.value[good].tolist(), strict=True)) == {
        1767225600.0: 0.5,
        1767225690.0: 0.7,
    }
    assert int((batch.reason == Reason.NOT_FINITE).sum()) == 3
    assert answer_of(data).state == "ok"


def test_12b_empty_is_no_data(case):
    batch = from_answer(case("12", "b_empty.json"))
    assert len(batch) == 0
    assert [(f.problem, f.detail.partition(":")[0]) for f in batch.findings] == [(Problem.EMPTY, "no_data")]
    assert answer_of(case("12", "b_empty.json")).state == "no_data"


def test_12c_warnings_make_an_answer_partial_and_are_kept(case):
    answer = answer_of(case("12", "c_partial.json"))
    assert answer.state == "partial"
    batch = from_answer(case("12", "c_partial.json"), FIELD)
    assert len(batch) == 2
    assert [f.detail for f in batch.findings if f.problem is Problem.PARTIAL] == list(answer.warnings)
    assert len(answer.warnings) == 2


def test_12_hints_alone_are_no_sign_of_missing_data(case):
    document = json.loads(case("12", "c_partial.json"))
    del document["warnings"]
    answer = read_answer(document, "server")
    assert (answer.state, len(answer.infos)) == ("ok", 1)


def test_12d_an_error_keeps_its_type_and_asks_for_less(case):
    answer = answer_of(case("12", "d_error_422.json"))
    assert (answer.state, answer.error_type, answer.retry_smaller) == ("error", "execution", True)
    assert "too many samples" in answer.error
    assert count(from_answer(case("12", "d_error_422.json")), Problem.QUERY_ERROR) == 1


def test_12e_a_native_histogram_does_no_harm(case):
    answer = answer_of(case("12", "e_native_histogram.json"))
    (histogram,) = answer.histograms
    assert (histogram.count, histogram.sum, histogram.mean) == (10, 2.5, 0.25)
    assert answer.state == "ok"
    assert len(from_answer(case("12", "e_native_histogram.json"))) == 0
