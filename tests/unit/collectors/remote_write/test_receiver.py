"""A stream of requests means what a Prometheus server's answers mean."""

from __future__ import annotations

import random

import numpy as np
import pytest

from collectors.answer import Answer, AnswerSeries
from collectors.remote_write import label_sets
from collectors.remote_write.receiver import Message, Receiver
from collectors.series_map import SeriesMapper
from telemetry.catalogue import NODE_NAME_FIELD, UPLINK_FIELD
from telemetry.errors import SchemaError
from telemetry.ids import JobId
from telemetry.samples import Problem, Reason, SampleBatch, validate_batch
from tests.kit.remote_write import STALE, field, ordered, pack, sample, series_v1, v1, v2

AT = 1_767_225_600.0
NOW = AT + 1.0
POWER = "DCGM_FI_DEV_POWER_USAGE"
ACTIVE = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
NVLINK = "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL"
XIDS = "DCGM_EXP_XID_ERRORS_COUNT"
TX = "node_infiniband_port_data_transmitted_bytes_total"
STATE = "node_infiniband_state_id"
Labels = dict[str, str]


def gpu(name: str, index: int = 0, **more: str) -> Labels:
    return {
        "__name__": name,
        "UUID": f"GPU-{index}",
        "Hostname": "n1",
        "gpu": str(index),
        "instance": "n1:9400",
        "job": "dcgm",
        **more,
    }


def port(name: str, **more: str) -> Labels:
    return {"__name__": name, "device": "mlx5_0", "port": "1", "instance": "n1:9100", "job": "node", **more}


def pod(name: str) -> Labels:
    return {"exported_namespace": "team", "exported_pod": name, "exported_container": "main"}


def rows(*batches: SampleBatch) -> dict[tuple[str, str, float], tuple[float, int]]:
    """(metric, entity, time) -> (value, reason)."""
    found = {}
    for batch in batches:
        validate_batch(batch)
        for series, at_s, value, reason in zip(batch.series, batch.at_s, batch.value, batch.reason, strict=True):
            key = batch.keys[series]
            assert (key.metric, key.entity, at_s) not in found
            found[key.metric, key.entity, float(at_s)] = (None if np.isnan(value) else float(value), int(reason))
    return found


def take(receiver: Receiver, *series, at_s: float = NOW, enc=v1):
    return receiver.take(enc(*series), Message.V1 if enc is v1 else Message.V2, at_s)


@pytest.fixture
def receiver() -> Receiver:
    """One that has seen nothing."""
    return Receiver("push")


@pytest.mark.parametrize("enc", [v1, v2])
def test_it_says_what_the_prometheus_collector_says(receiver: Receiver, enc):
    """Same labels, same numbers: same series, values, reasons and owners, however the requests are cut."""
    dice = random.Random(7)
    names = (POWER, ACTIVE, NVLINK, "DCGM_FI_DEV_FB_USED", "unknown_metric")
    series = [
        (gpu(name, index, **pod(f"train-{index}")), [(AT, dice.choice([0.5, 0.9, 1.7, 2147483632.0, float("inf")]))])
        for name in names
        for index in range(4)
    ]
    series += [(port(STATE), [(AT, 1.0)]), (port(TX), [(AT, 9e9)]), (port(STATE, port="2"), [(AT, 4.0)])]
    answer = Answer("matrix", tuple(AnswerSeries(s, np.array([o[0][0]]), np.array([o[0][1]])) for s, o in series))
    expected = SeriesMapper("x").batch([answer], NOW)
    got = [take(receiver, *series[i : i + 7], enc=enc) for i in range(0, len(series), 7)]
    batches = [batch for one in got for batch in one.batches]
    assert rows(*batches) == rows(expected)
    owners = {(s.gpu, s.job, s.workload, s.sharers) for batch in batches for s in batch.sightings}
    assert owners == {(s.gpu, s.job, s.workload, s.sharers) for s in expected.sightings}
    assert sum(one.unknown for one in got) == 4
    assert sum(one.taken for one in got) == len(series) - 4


def test_a_target_keeps_its_keys_object(receiver: Receiver):
    """Ring and store know a layout by it."""
    first = take(receiver, (gpu(POWER), [(AT, 70.0)]), (gpu(ACTIVE), [(AT, 0.5)]))
    again = take(receiver, (gpu(ACTIVE), [(AT + 1, 0.5)]))
    assert again.batches[0].keys is first.batches[0].keys
    assert again.batches[0].series.tolist() == [1]


def test_a_wide_target_is_cut_into_layouts(monkeypatch: pytest.MonkeyPatch, receiver: Receiver):
    """A gateway that carries a whole cluster under one instance."""
    monkeypatch.setattr(label_sets, "MAX_COLUMNS", 3)
    got = take(receiver, *[(gpu(POWER, index), [(AT, 70.0)]) for index in range(8)])
    assert [len(batch.keys) for batch in got.batches if len(batch)] == [3, 3, 2]


def test_sending_again_changes_nothing(receiver: Receiver):
    """Resends carry the same samples; the store folds them."""
    body = v1((gpu(POWER), [(AT, 70.0), (AT - 60, 71.0)]))
    first, second = (rows(*receiver.take(body, Message.V1, NOW).batches) for _ in range(2))
    assert first == second


def test_old_samples_come_out_of_order_and_are_taken(receiver: Receiver):
    take(receiver, (gpu(POWER), [(AT, 70.0)]))
    got = take(receiver, (gpu(POWER), [(AT - 7200, 60.0)]))
    assert got.taken == 1
    assert ("gpu_power_watts", "n1:GPU-0", AT - 7200) in rows(*got.batches)


def test_the_same_device_twice_at_one_instant_is_one_sample(receiver: Receiver):
    """Time slicing repeats a card's line for each pod; a contradiction is told."""
    a, b = gpu(POWER, **pod("a-0")), gpu(POWER, **pod("b-0"))
    got = take(receiver, (a, [(AT, 70.0)]), (b, [(AT, 70.0)]))
    assert (len(rows(*got.batches)), got.taken, got.findings) == (1, 2, ())
    got = take(receiver, (a, [(AT + 5, 70.0)]), (b, [(AT + 5, 80.0)]))
    assert [finding.problem for finding in got.findings] == [Problem.DUPLICATE_SERIES]


def test_a_marker_ends_a_series_and_keeps_its_bits(receiver: Receiver):
    """It is not a value, not a fault, and the owner is gone with it."""
    old, new = gpu(POWER, **pod("old-0")), gpu(POWER, **pod("new-0"))
    take(receiver, (old, [(AT, 70.0)]))
    got = take(receiver, (old, [(AT + 15, STALE)]), at_s=AT + 16)
    batch = got.batches[0]
    assert (got.ended, got.findings, batch.reason.tolist()) == (1, (), [Reason.NOT_OBSERVED])
    assert batch.value.view(np.uint64).tolist() == [0x7FF0000000000002]
    got = take(receiver, (new, [(AT + 15, 71.0)]), (old, [(AT + 15, STALE)]), at_s=AT + 16)
    assert rows(*got.batches)["gpu_power_watts", "n1:GPU-0", AT + 15] == (71.0, 0)
    assert [(s.job, s.sharers) for s in got.batches[-1].sightings] == [(JobId("kubernetes", "team:new"), 1)]


def test_pods_that_share_a_card_are_counted_over_requests(receiver: Receiver):
    """Their lines may come in different requests; from the second scrape on both are known."""
    a, b = gpu(POWER, **pod("a-0")), gpu(POWER, **pod("b-0"))
    for at_s in (AT, AT + 15):
        told = [take(receiver, (one, [(at_s, 70.0)]), at_s=at_s).batches for one in (a, b)]
    assert [batches[-1].sightings[0].sharers for batches in told] == [2, 2]


def test_a_card_without_an_owner_is_free_unless_it_works(receiver: Receiver):
    """Busy without an owner means that the mapping is lost, not that the card is free."""
    idle = take(receiver, (gpu(ACTIVE), [(AT, 0.01)]))
    assert [(s.job, s.known) for s in idle.batches[-1].sightings] == [(None, True)]
    busy = take(receiver, (gpu(ACTIVE, 1), [(AT, 0.9)]))
    assert [(s.job, s.known) for s in busy.batches[-1].sightings] == [(None, False)]


def test_a_slice_makes_its_card_no_device(receiver: Receiver):
    """Its card is not seen as free beside it, and a ratio of the card is not measured on it."""
    sliced = gpu("DCGM_FI_DEV_GPU_UTIL", GPU_I_ID="7", GPU_I_PROFILE="1g.10gb", **pod("a-0"))
    got = take(receiver, (sliced, [(AT, 0.0)]), (gpu(POWER), [(AT, 70.0)]))
    assert ("gpu_util_ratio", "n1:GPU-0", AT) in rows(*got.batches)
    assert rows(*got.batches)["gpu_util_ratio", "n1:GPU-0", AT] == (None, Reason.NOT_MEASURED)
    assert {s.gpu.mig for s in got.batches[-1].sightings} == {"7"}


def test_a_port_that_is_down_has_no_traffic_whatever_the_counter_says(receiver: Receiver):
    """Its state may have come in an earlier request."""
    take(receiver, (port(STATE), [(AT, 1.0)]))
    got = take(receiver, (port(TX), [(AT, 5.0)]))
    assert rows(*got.batches)["port_tx_bytes_total", "n1:mlx5_0:1", AT] == (None, Reason.NOT_MEASURED)
    take(receiver, (port(STATE), [(AT + 15, 4.0)]))
    got = take(receiver, (port(TX), [(AT + 15, 5.0)]))
    assert rows(*got.batches)["port_tx_bytes_total", "n1:mlx5_0:1", AT + 15] == (5.0, 0)


def test_the_first_zero_means_no_earlier_reading(receiver: Receiver):
    """Only where the field is such a one, and only the first."""
    reasons = []
    for at_s in (AT, AT, AT + 15, AT + 15):  # each is sent twice
        got = take(receiver, (gpu(NVLINK), [(at_s, 0.0)]), at_s=at_s)
        reasons.append(next(iter(rows(*got.batches).values()))[1])
    assert reasons == [Reason.FIRST_READING, Reason.FIRST_READING, 0, 0]


def test_parts_are_added_once_all_of_an_instant_are_there(receiver: Receiver):
    """A half sum that is stored first would stay."""
    a, b = gpu(XIDS, xid="31"), gpu(XIDS, xid="79")
    assert rows(*take(receiver, (a, [(AT, 1.0)]), (b, [(AT, 2.0)])).batches) == {}
    assert rows(*take(receiver, (a, [(AT + 15, 3.0)]), at_s=AT + 15).batches) == {}
    got = take(receiver, (b, [(AT + 15, 4.0)]), at_s=AT + 15)
    assert list(rows(*got.batches).values()) == [(7.0, 0)]
    got = take(receiver, (a, [(AT + 30, STALE)]), (b, [(AT + 30, 4.0)]), at_s=AT + 30)
    assert list(rows(*got.batches).values()) == [(4.0, 0)]


def test_hosts_get_their_own_names_once_they_are_told(receiver: Receiver):
    """node_exporter's ports carry an address; another family tells whose it is."""
    before = take(receiver, (port(TX), [(AT, 5.0)]))
    assert next(iter(rows(*before.batches)))[1] == "n1:mlx5_0:1"
    name = {"__name__": NODE_NAME_FIELD, "instance": "n1:9100", "job": "node", "nodename": "gpu-01"}
    got = take(receiver, (name, [(AT + 15, 1.0)]), (port(TX), [(AT + 15, 6.0)]), at_s=AT + 15)
    later = take(receiver, (port(TX), [(AT + 30, 7.0)]), at_s=AT + 30)
    assert (got.unknown, got.invalid) == (0, 0)
    assert next(iter(rows(*later.batches)))[1] == "gpu-01:mlx5_0:1"


def test_wiring_and_port_speeds_are_learned(receiver: Receiver):
    """As a scraped fabric exporter's are."""
    cable = {"__name__": UPLINK_FIELD, "switch": "leaf-1", "port": "1", "uplink": "n1 mlx5_0", "uplink_type": "CA"}
    speed = port("node_infiniband_rate_bytes_per_second")
    take(receiver, (cable, [(AT, 1.0)]), (speed, [(AT, 5e10)]))
    assert [(one.a, one.b) for one in receiver.wiring] == [("leaf-1", "n1")]
    assert receiver.capacity_bytes_per_s == {"n1:mlx5_0:1": 5e10}
    assert {str(nic) for nic in receiver.nics} == {"n1:mlx5_0:1"}


@pytest.mark.parametrize(
    ("pairs", "why"),
    [
        ([("__name__", POWER), ("UUID", "GPU-1")], "not sorted"),
        ([("UUID", "GPU-1"), ("UUID", "GPU-2"), ("__name__", POWER)], "twice"),
        ([("UUID", "GPU-1")], "no __name__"),
        ([("__name__", "")], "no __name__"),
        ([("", "x"), ("__name__", POWER)], "without a name"),
        ([], "no __name__"),
    ],
)
def test_a_label_set_that_breaks_the_rules_is_named_and_the_rest_is_taken(receiver: Receiver, pairs, why: str):
    """The same again the second time, when it is remembered."""
    body = pack(series_v1(pairs, [(AT, 1.0)]) + series_v1(ordered(gpu(POWER)), [(AT, 70.0)]))
    for _ in range(2):
        got = receiver.take(body, Message.V1, NOW)
        assert (got.taken, got.invalid, got.unknown) == (1, 1, 0)
        assert why in got.faults[0]


def test_a_label_that_is_not_text_is_one_series_fault(receiver: Receiver):
    bad = field(1, field(1, b"__name__") + field(2, b"\xff\xfe"))
    got = receiver.take(pack(field(1, bad + field(2, sample(AT, 1.0)))), Message.V1, NOW)
    assert (got.invalid, "UTF-8" in got.faults[0]) == (1, True)


@pytest.mark.parametrize(("at_s", "why"), [(NOW + 61, "ahead"), (0.0, "no time"), (-5.0, "no time")])
def test_a_time_that_cannot_be_is_refused(receiver: Receiver, at_s: float, why: str):
    """Such a sample would move "now" for everybody, or the job's first moment to 1970."""
    got = take(receiver, (gpu(POWER), [(at_s, 70.0), (AT, 71.0)]))
    assert (got.taken, got.invalid) == (1, 1)
    assert why in got.faults[0]


def test_histograms_are_counted_and_fail_nothing(receiver: Receiver):
    got = receiver.take(v2((gpu(POWER), [(AT, 70.0)]), histograms=2), Message.V2, NOW)
    assert (got.taken, got.histograms, got.invalid) == (1, 2, 0)


def test_memory_of_label_sets_is_bounded(monkeypatch: pytest.MonkeyPatch, receiver: Receiver):
    """Beyond the limit it is built anew, and what is sent still means the same."""
    monkeypatch.setattr(label_sets, "MAX_LABEL_SETS", 10)
    for step in range(40):
        got = take(receiver, (gpu(POWER, **pod(f"p{step}-0")), [(AT + step, 70.0)]), at_s=AT + step)
        assert list(rows(*got.batches).values()) == [(70.0, 0)]
    assert len(receiver._sets.known) <= 10
    for step in range(40):
        assert take(receiver, ({"__name__": f"unknown_{step}"}, [(AT, 1.0)])).unknown == 1
    assert take(receiver, ({"__name__": "unknown_39"}, [(AT, 1.0)])).unknown == 1
    assert len(receiver._sets.known) <= 20


def test_a_full_table_of_symbols_loses_no_series(receiver: Receiver):
    """After it starts anew the same numbers mean other strings."""
    receiver._table._most = 30
    for step in range(20):
        got = take(receiver, (gpu(POWER, index=step % 3, x=str(step)), [(AT + step, 70.0)]), at_s=AT + step, enc=v2)
        assert [key[1] for key in rows(*got.batches)] == [f"n1:GPU-{step % 3}"]
    assert receiver._table.generation > 1


def test_a_body_that_is_none_is_refused_whole(receiver: Receiver):
    with pytest.raises(SchemaError):
        receiver.take(b"\x05hello", Message.V1, NOW)
    with pytest.raises(SchemaError):
        receiver.take(pack(b"\x2a\x05"), Message.V2, NOW)


def test_an_empty_body_gives_nothing(receiver: Receiver):
    got = receiver.take(pack(b""), Message.V1, NOW)
    assert (got.batches, got.samples) == ((), 0)


def test_a_request_full_of_new_series_is_learned_in_parts(monkeypatch: pytest.MonkeyPatch, receiver: Receiver):
    """None takes long; sent again, each time more of it is known, until all is taken."""
    monkeypatch.setattr(label_sets, "MAX_LEARNED", 10)
    body = v1(*[(gpu(POWER, index), [(AT, 70.0)]) for index in range(25)])
    for _ in range(2):
        with pytest.raises(label_sets.MuchIsNew):
            receiver.take(body, Message.V1, NOW)
    assert receiver.take(body, Message.V1, NOW).taken == 25
