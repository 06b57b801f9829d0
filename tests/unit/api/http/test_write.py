"""Remote write over HTTP: negotiation, acknowledgement, refusals with counts, back-pressure."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import cramjam
import pytest

from api.http.app import create_app
from api.http.settings import HttpSettings
from api.intake import Intake, IntakeBusy
from api.push import MAX_INSIDE, Push
from collectors.remote_write.label_sets import MuchIsNew
from features.ring import Ring
from features.store.duck import DuckStore
from telemetry.errors import StoreError, StoreFull
from telemetry.samples import SampleBatch
from tests.kit.fake_reads import FakeReads
from tests.kit.http_client import call
from tests.kit.remote_write import STALE, pack, series_v1, v1, v2

NOW = 1_796_074_200.0
POWER = {"Hostname": "n1", "UUID": "GPU-1", "__name__": "DCGM_FI_DEV_POWER_USAGE", "instance": "n1:9400"}
V1 = "application/x-protobuf"
V2 = "application/x-protobuf;proto=io.prometheus.write.v2.Request"
WRITTEN = [f"x-prometheus-remote-write-{what}-written" for what in ("samples", "histograms", "exemplars")]


class Kept(Intake):
    """An intake that keeps everything, or fails as told."""

    def __init__(self) -> None:
        self.batches: list[SampleBatch] = []
        self.trouble: Exception | None = None

    async def keep(self, batches: Sequence[SampleBatch]) -> None:
        """Keep or fail."""
        if self.trouble is not None:
            raise self.trouble
        self.batches += batches


@pytest.fixture
def kept() -> Kept:
    """What came through."""
    return Kept()


@pytest.fixture
def push(kept: Kept) -> Push:
    """The doors in front of it."""
    return Push(kept, lambda: NOW)


@pytest.fixture
def app(push: Push) -> Any:
    """The app with the doors."""
    return create_app(FakeReads(), push=push)


def post(app: Any, body: bytes, kind: str = V1, encoding: str = "snappy", **more: str) -> Any:
    headers = {"Content-Type": kind, "Content-Encoding": encoding, **more}
    return call(app, "POST", "/v1/telemetry/write", content=body, headers={k: v for k, v in headers.items() if v})


def written(reply: Any) -> list[str | None]:
    return [reply.headers.get(name) for name in WRITTEN]


@pytest.mark.parametrize(
    ("enc", "kind", "told"),
    [
        (v1, V1, [None, None, None]),
        (v1, "application/x-protobuf; proto=prometheus.WriteRequest", [None, None, None]),
        (v2, V2, ["2", "0", "0"]),
        (v2, 'Application/X-Protobuf; Proto="io.prometheus.write.v2.Request"', ["2", "0", "0"]),
    ],
)
def test_a_good_request_is_204_and_2_0_is_told_how_much(app, kept, enc, kind, told):
    """A 2xx without these headers looks to a 2.0 sender like a receiver of 1.0."""
    reply = post(app, enc((POWER, [(NOW, 70.0), (NOW - 1, 71.0)])), kind)
    assert (reply.status_code, reply.content, written(reply)) == (204, b"", told)
    assert [len(batch) for batch in kept.batches if len(batch)] == [2]


@pytest.mark.parametrize(
    ("kind", "encoding"),
    [
        ("application/json", "snappy"),
        ("", "snappy"),
        (V1, "gzip"),
        (V1, ""),
        (V1, "zstd"),
        ("application/x-protobuf;proto=io.prometheus.write.v3.Request", "snappy"),
    ],
)
def test_another_kind_of_body_is_415(app, kept, kind, encoding):
    """A sender of 2.0 falls back to 1.0 on it."""
    reply = post(app, v1((POWER, [(NOW, 70.0)])), kind, encoding)
    assert (reply.status_code, reply.json()["type"]) == (415, "urn:gpucast:problem:unsupported-write")
    assert kept.batches == []


def test_some_invalid_samples_are_400_with_counts_and_the_rest_is_kept(app, kept):
    """400, since the same would be refused again."""
    bad = series_v1([("__name__", "up"), ("__name__", "up")], [(NOW, 1.0)])
    body = pack(bad + series_v1(sorted(POWER.items()), [(NOW, 70.0), (NOW + 3600, 70.0)]))
    reply = post(app, body)
    problem = reply.json()
    assert (reply.status_code, problem["type"]) == (400, "urn:gpucast:problem:invalid-samples")
    assert (problem["samples"], problem["written"], problem["invalid"]) == (3, 1, 2)
    assert "up{}" in problem["detail"]
    assert "ahead" in problem["detail"]
    assert sum(map(len, kept.batches)) == 1


@pytest.mark.parametrize(("enc", "kind"), [(v1, V1), (v2, V2)])
def test_samples_beyond_the_limit_of_series_are_400_and_the_rest_is_kept(enc, kind):
    """Neither message is told 204 for what is not on disk; the counts are of samples as they were sent."""
    store = DuckStore(None, max_series=2)
    intake = Intake(Ring(600.0), store, flush_s=0.1, now=lambda: NOW)
    push = Push(intake, lambda: NOW)
    app = create_app(FakeReads(), push=push)
    devices = [{**POWER, "UUID": f"GPU-{number}"} for number in range(4)]
    assert post(app, enc(*[(labels, [(NOW, 70.0)]) for labels in devices[:1]]), kind).status_code == 204
    both = [(NOW + 1, 71.0), (NOW + 2, 72.0)]
    reply = post(app, enc(*[(labels, both) for labels in devices]), kind)
    problem = reply.json()
    assert (reply.status_code, problem["type"]) == (400, "urn:gpucast:problem:series-limit")
    assert (problem["samples"], problem["written"], problem["over_limit"], problem["invalid"]) == (8, 4, 4, 0)
    assert "GPU-2" in problem["detail"]
    assert "store.max_series" in problem["detail"]
    assert written(reply) == (["4", "0", "0"] if kind == V2 else [None] * 3)
    assert len(store.keys()) == 2
    assert [one.at_s.size for one in store.read(store.keys(), NOW + 9, 600)] == [3, 2]
    assert push.counters()["gpucast_remote_write_over_limit_samples_total"] == 4.0
    assert push.status()[0].findings == {"partial": 4}
    assert post(app, enc(*[(labels, both) for labels in devices[:2]]), kind).status_code == 204
    store.close()


def test_a_sum_beyond_the_limit_counts_every_sample_that_was_sent_for_it():
    """Parts that are added up become one series; the sender counts its own."""
    store = DuckStore(None, max_series=1)
    intake = Intake(Ring(600.0), store, flush_s=0.1, now=lambda: NOW)
    app = create_app(FakeReads(), push=Push(intake, lambda: NOW))
    modes = [
        {"__name__": "node_cpu_seconds_total", "cpu": "0", "instance": "n1:9100", "job": "node", "mode": mode}
        for mode in ("system", "user")
    ]
    told = []
    for number in range(3):
        rows = [(POWER, [(NOW + number, 70.0)]), *[(labels, [(NOW + number, 5.0 + number)]) for labels in modes]]
        reply = post(app, v2(*rows), V2)
        told.append((reply.status_code, written(reply)[0], reply.json()["over_limit"] if reply.content else 0))
    assert told[0] == (204, "3", 0)  # the first instant of a sum is never stored
    assert told[1:] == [(400, "1", 2)] * 2
    store.close()


def test_2_0_is_told_what_was_written_also_with_a_refusal(app):
    reply = post(app, v2((POWER, [(NOW, 70.0), (0.0, 1.0)]), histograms=2), V2)
    assert (reply.status_code, written(reply)) == (400, ["1", "0", "0"])
    reply = post(app, pack(b"\x2a\x05"), V2)
    assert (reply.status_code, written(reply)) == (400, ["0", "0", "0"])


def test_histograms_alone_are_no_error(app, kept):
    """They are counted, and the header says that none was kept."""
    reply = post(app, v2((POWER, []), histograms=2), V2)
    assert (reply.status_code, written(reply), kept.batches) == (204, ["0", "0", "0"], [])


def test_unknown_series_are_counted_and_no_error(app, push, kept):
    reply = post(app, v2(({"__name__": "kube_pod_info"}, [(NOW, 1.0)])), V2)
    assert (reply.status_code, written(reply), kept.batches) == (204, ["0", "0", "0"], [])
    assert push.counters()["gpucast_remote_write_unknown_samples_total"] == 1.0
    assert push.status()[0].findings == {"unknown_metric": 1}


@pytest.mark.parametrize("body", [b"", b"not snappy", b"\x05abc", pack(b"\x0a\x7f"), pack(b"\xff" * 40)])
def test_what_is_no_message_is_400(app, kept, body):
    reply = post(app, body)
    assert (reply.status_code, reply.json()["type"]) == (400, "urn:gpucast:problem:bad-write")
    assert kept.batches == []


def test_a_bomb_is_413_before_it_is_unpacked(app, kept):
    """A hundred megabytes in five."""
    bomb = bytes(cramjam.snappy.compress_raw(bytes(100 * 1024**2)))
    assert post(app, bomb).status_code == 413


def test_a_body_over_the_limit_is_413_and_the_limit_is_this_routes_own(push):
    app = create_app(FakeReads(), push=push, settings=HttpSettings(max_body_bytes=10, max_write_bytes=1000))
    assert post(app, v1((POWER, [(NOW, 70.0)]))).status_code == 204
    assert post(app, bytes(1001)).status_code == 413
    assert call(app, "POST", "/v1/steps", content=b"x" * 100).status_code == 422
    assert call(app, "POST", "/v1/advice/x:approve", content=b"x" * 100).status_code == 413


@pytest.mark.parametrize(
    ("trouble", "status", "slug"),
    [
        (IntakeBusy("much waits"), 503, "busy"),
        (MuchIsNew("much is new"), 503, "busy"),
        (StoreError("locked"), 503, "store-unavailable"),
        (StoreFull("no room"), 507, "store-full"),
    ],
)
def test_what_cannot_be_stored_is_to_be_sent_again(app, kept, push, trouble, status, slug):
    """With the time to wait; the sender keeps it meanwhile, which Prometheus does after 5xx only, not after 429."""
    kept.trouble = trouble
    reply = post(app, v2((POWER, [(NOW, 70.0)])), V2)
    assert (reply.status_code, reply.json()["type"]) == (status, f"urn:gpucast:problem:{slug}")
    assert int(reply.headers["retry-after"]) >= 1
    assert written(reply) == ["0", "0", "0"]
    assert push.status()[0].last_error
    kept.trouble = None
    assert post(app, v2((POWER, [(NOW, 70.0)])), V2).status_code == 204
    assert push.status()[0].last_error == ""


def test_too_many_requests_at_once_are_sent_away(app, push):
    """Each holds its body in memory."""
    rooms = [push.admitted() for _ in range(MAX_INSIDE)]
    for room in rooms:
        room.__enter__()
    assert post(app, v1((POWER, [(NOW, 70.0)]))).status_code == 503
    rooms[0].__exit__(None, None, None)
    assert post(app, v1((POWER, [(NOW, 70.0)]))).status_code == 204


def test_a_service_without_doors_says_so():
    reply = post(create_app(FakeReads()), v1((POWER, [(NOW, 70.0)])))
    assert (reply.status_code, reply.json()["type"]) == (503, "urn:gpucast:problem:not-ready")


def test_a_page_of_another_site_cannot_write(app, kept):
    """The guard in front of every route is in front of this one too."""
    assert post(app, v1((POWER, [(NOW, 70.0)])), Origin="http://evil.example").status_code == 403
    assert kept.batches == []


def test_a_door_is_listed_once_somebody_knocked(app, push):
    """And counts as up as long as he comes."""
    assert push.status() == []
    post(app, v1((POWER, [(NOW, STALE)])))
    (door,) = push.status()
    assert (door.source, door.up, door.samples, door.last_ok_s) == ("/v1/telemetry/write", True, 1, NOW)
    assert push.counters()["gpucast_remote_write_stale_markers_total"] == 1.0
    push._now = lambda: NOW + 600.0
    (door,) = push.status()
    assert (door.up, "600 s" in door.last_error) == (False, True)


def test_a_large_body_is_read_aside(app, kept):
    """In a thread; the answer is the same."""
    dice = random.Random(5)
    series = [
        ({**POWER, "UUID": f"GPU-{i:06x}", "pad": f"{dice.getrandbits(512):0128x}"}, [(NOW, 70.0)]) for i in range(3000)
    ]
    body = v1(*series)
    assert len(body) > 128 * 1024
    assert post(app, body).status_code == 204
    assert sum(map(len, kept.batches)) == 3000
