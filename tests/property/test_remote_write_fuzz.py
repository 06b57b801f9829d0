"""Hostile bodies: a sentence or samples, never another error; and what is good reads the same however it is cut."""

from __future__ import annotations

import json
import struct

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collectors.remote_write.protobuf import SymbolTable, decode_v1, decode_v2
from collectors.remote_write.receiver import Message, Receiver
from collectors.remote_write.snappy import unpack
from collectors.remote_write.wire import Malformed, read_varint, read_varints
from collectors.step_reports import read_reports
from collectors.steps import StepBook
from telemetry.errors import SchemaError
from telemetry.samples import validate_batch
from tests.kit.remote_write import field, ordered, pack, sample, series_v1, v1, v2, varint

NOW = 1_767_225_600.0
LAX = settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])

names = st.sampled_from(["__name__", "UUID", "Hostname", "instance", "job", "exported_pod", "é", ""])
texts = st.one_of(st.sampled_from(["DCGM_FI_DEV_POWER_USAGE", "up", "n1", "GPU-1", ""]), st.text(max_size=8))
label_sets = st.dictionaries(names, texts, max_size=6)
values = st.floats(allow_nan=True, allow_infinity=True, width=64)
times = st.one_of(st.floats(NOW - 1e5, NOW + 100), st.integers(-(2**40), 2**40).map(float))
samples = st.lists(st.tuples(times, values), max_size=4)
requests = st.lists(st.tuples(label_sets, samples), max_size=6)
fields = st.builds(field, st.integers(1, 20), st.binary(max_size=20))
soup = st.recursive(
    st.one_of(st.binary(max_size=12), st.builds(sample, st.just(NOW), values), fields),
    lambda inner: st.builds(
        lambda number, parts: field(number, b"".join(parts)), st.integers(1, 6), st.lists(inner, max_size=5)
    ),
    max_leaves=20,
)


def read(receiver: Receiver, body: bytes, message: Message) -> None:
    """Whatever comes out is lawful, and the counts add up."""
    try:
        got = receiver.take(body, message, NOW)
    except SchemaError:
        return
    assert got.taken + got.unknown + got.invalid <= got.samples
    assert got.faults or not got.invalid
    for batch in got.batches:
        validate_batch(batch)
        pairs = list(zip(batch.series.tolist(), batch.at_s.tolist(), strict=True))
        assert len(pairs) == len(set(pairs))
        assert all(finding.count > 0 for finding in got.findings)


@LAX
@given(st.binary(max_size=300), st.sampled_from(Message))
def test_any_bytes(body: bytes, message: Message) -> None:
    """Packed or not."""
    receiver = Receiver("fuzz")
    read(receiver, body, message)
    read(receiver, pack(body), message)


@LAX
@given(st.lists(soup, max_size=6).map(b"".join), st.sampled_from(Message))
def test_nested_fields_of_any_kind(body: bytes, message: Message) -> None:
    """Shapes that are nearly messages, twice: what was met before takes another way through the code."""
    receiver = Receiver("fuzz")
    for _ in range(2):
        read(receiver, pack(body), message)


@LAX
@given(requests, st.data())
def test_good_requests_with_wounds(request, data: st.DataObject) -> None:
    """One byte changed, or the end cut off, at every level."""
    for enc, message in ((v1, Message.V1), (v2, Message.V2)):
        receiver = Receiver("fuzz")
        body = enc(*request)
        read(receiver, body, message)
        plain = bytearray(unpack(body, 1 << 20))
        if plain:
            plain[data.draw(st.integers(0, len(plain) - 1))] ^= data.draw(st.integers(1, 255))
            read(receiver, pack(bytes(plain)), message)
            read(receiver, pack(bytes(plain[: data.draw(st.integers(0, len(plain)))])), message)
        read(receiver, body[: data.draw(st.integers(0, len(body)))], message)


@LAX
@given(requests)
def test_both_versions_mean_the_same(request) -> None:
    """And both keep every bit of every value."""
    one, two = (decode(unpack(enc(*request), 1 << 20)) for enc, decode in ((v1, _decode_v1), (v2, _decode_v2)))
    for got in (one, two):
        rows = sorted(zip(got.series.tolist(), got.at_ms.tolist(), got.value.view(np.uint64).tolist(), strict=True))
        assert rows == sorted(
            (place, round(at_s * 1000), struct.unpack("<Q", struct.pack("<d", value))[0])
            for place, (_, group) in enumerate(request)
            for at_s, value in group
        )


def _decode_v1(body: bytes):
    first = decode_v1(body, {})
    known = decode_v1(body, dict.fromkeys(first.labels, 0))
    assert first.labels == known.labels
    return known


def _decode_v2(body: bytes):
    return decode_v2(body, SymbolTable(most=8))


@LAX
@given(requests, st.integers(1, 5))
def test_it_does_not_matter_how_samples_are_cut_into_requests(request, size: int) -> None:
    """The samples taken are the same, together or apart."""
    body = [series_v1(ordered(labels), [one]) for labels, group in request for one in group]
    whole, parts = Receiver("a"), Receiver("b")
    together = whole.take(pack(b"".join(body)), Message.V1, NOW)
    apart = [parts.take(pack(b"".join(body[i : i + size])), Message.V1, NOW) for i in range(0, len(body), size)]
    for count in ("samples", "taken", "unknown", "invalid"):
        assert getattr(together, count) == sum(getattr(one, count) for one in apart)
    assert _instants(together.batches) == _instants(batch for one in apart for batch in one.batches)


def _instants(batches) -> set[tuple[str, str, float]]:
    return {
        (*(lambda key: (key.metric, key.entity))(batch.keys[series]), at_s)
        for batch in batches
        for series, at_s in zip(batch.series.tolist(), batch.at_s.tolist(), strict=True)
    }


@given(st.lists(st.integers(0, 2**35 - 1), max_size=30))
def test_packed_numbers_come_back(numbers: list[int]) -> None:
    """All at once as one by one."""
    packed = b"".join(varint(number) for number in numbers)
    assert read_varints(packed)[0].tolist() == numbers
    at = 0
    for number in numbers:
        got, at = read_varint(packed, at, len(packed))
        assert got == number


@given(st.binary(max_size=40))
def test_any_bytes_as_packed_numbers(data: bytes) -> None:
    """A list or a sentence."""
    try:
        values_, ends = read_varints(data)
    except Malformed:
        return
    assert values_.size == ends.size


json_values = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.sampled_from(["begin", "nan"])
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=6), inner, max_size=3)),
    max_leaves=8,
)
report_fields = st.sampled_from(
    ["job", "slurm_job_id", "pod", "namespace", "rank", "step", "at_s", "step_s", "loss", "tokens", "checkpoint", "x"]
)
near_reports = st.dictionaries(report_fields, json_values, max_size=6)
good_reports = st.fixed_dictionaries(
    {"job": st.sampled_from(["slurm:1", "slurm:2"]), "step": st.integers(0, 20), "at_s": st.floats(NOW - 50, NOW)},
    optional={"loss": st.floats(-10, 10), "checkpoint": st.sampled_from(["begin", "end"]), "rank": st.integers(0, 2)},
)


@LAX
@given(st.one_of(st.binary(max_size=200), st.lists(st.one_of(near_reports, good_reports, json_values), max_size=6)))
def test_any_report_of_steps(items) -> None:
    """Lawful batches or sentences; sent again, nothing is accepted anew."""
    body = items if isinstance(items, bytes) else _json(items)
    book = StepBook()
    try:
        found, faults = read_reports(body, NOW)
    except SchemaError:
        return
    taken = book.take(found, faults, NOW)
    for batch in taken.batches:
        validate_batch(batch)
    assert taken.accepted + taken.duplicates == len(found)


@LAX
@given(st.lists(st.integers(0, 500), unique=True, max_size=20), st.lists(st.integers(0, 500), max_size=20))
def test_a_running_job_is_told_once_however_often_it_says_so(first: list[int], second: list[int]) -> None:
    """Any order, any repeats, over two requests: each step is stored once."""
    book = StepBook()
    kept: list[tuple[str, str, float]] = []
    for numbers in (first, second, second, first):
        items = [{"job": "slurm:1", "step": number, "at_s": NOW + number - 600} for number in numbers]
        kept += _instants(book.take(*read_reports(_json(items), NOW), NOW).batches)
    assert sorted(at_s for _, _, at_s in kept) == sorted(NOW + number - 600 for number in {*first, *second})


def _json(items) -> bytes:
    return json.dumps(items, allow_nan=True).encode("utf-8", "surrogatepass")
