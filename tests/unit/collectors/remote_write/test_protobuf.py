"""Both messages decoded: the fast way and the slow way give the same columns, and the bits of values stay."""

from __future__ import annotations

import struct

import cramjam
import numpy as np
import pytest

from collectors.remote_write.protobuf import SymbolTable, decode_v1, decode_v2, labels_v1
from collectors.remote_write.snappy import TooLarge, declared_length, unpack
from collectors.remote_write.wire import Malformed, read_varint, read_varints
from telemetry.errors import SchemaError
from tests.kit.remote_write import (
    STALE,
    field,
    pack,
    sample,
    series_v1,
    v1,
    v2,
    varint,
)
from tests.kit.remote_write import (
    labels_v1 as encode_labels,
)

UP = [("__name__", "up"), ("job", "x")]
AT = 1_767_225_600.123


def opened(body: bytes) -> bytes:
    return unpack(body, 1 << 20)


def test_a_request_is_read_the_slow_way_and_the_fast_way_alike():
    """Once its label bytes are known, a series is not looked through again; the samples are the same."""
    body = opened(v1((dict(UP), [(AT, 1.5)]), ({"__name__": "down"}, [(AT + 1, -2.0)])))
    slow = decode_v1(body, {})
    fast = decode_v1(body, dict.fromkeys(slow.labels, 0))
    assert slow.labels == fast.labels
    for got in (slow, fast):
        assert got.at_ms.tolist() == [1767225600123, 1767225601123]
        assert got.value.tolist() == [1.5, -2.0]
        assert got.series.tolist() == [0, 1]
    assert labels_v1(slow.labels[0]) == UP


@pytest.mark.parametrize("value", [0.0, -0.0, float("inf"), STALE, 5e-324, 1e308])
@pytest.mark.parametrize("at_s", [0.0, 0.001, 1.0, AT, 4_398_046_511.103, 4_398_046_511.104, -1.0])
def test_every_value_and_time_comes_as_it_was_sent(value: float, at_s: float):
    """Zeros are left out on the wire, times have from 0 to 10 bytes, and a NaN keeps its bits."""
    body = opened(v1((dict(UP), [(at_s, value)])))
    for known in ({}, {encode_labels(UP): 0}):
        got = decode_v1(body, known)
        assert got.at_ms.tolist() == [round(at_s * 1000)]
        assert got.value.tobytes() == struct.pack("<d", value)
    table = SymbolTable()
    two = decode_v2(opened(v2((dict(UP), [(at_s, value)]))), table)
    assert two.at_ms.tolist() == [round(at_s * 1000)]
    assert two.value.tobytes() == struct.pack("<d", value)


def test_several_samples_of_a_series_belong_to_it():
    """As after an outage, or from vmagent."""
    got = decode_v1(
        opened(v1((dict(UP), [(AT, 1.0), (AT + 1, 0.0), (AT + 2, 3.0)]), ({"__name__": "b"}, [(AT, 9.0)]))), {}
    )
    assert sorted(zip(got.series.tolist(), got.at_ms.tolist(), got.value.tolist(), strict=True)) == [
        (0, 1767225600123, 1.0),
        (0, 1767225601123, 0.0),
        (0, 1767225602123, 3.0),
        (1, 1767225600123, 9.0),
    ]


def test_fields_of_versions_to_come_are_skipped():
    """Unknown fields of every wire type, metadata, exemplars and histograms stand between what is read."""
    odd = (
        varint(99 << 3) + varint(7) + varint(98 << 3 | 1) + bytes(8) + varint(97 << 3 | 5) + bytes(4) + field(96, b"x")
    )
    one = series_v1(UP, [(AT, 1.0)], odd + field(3, b"") + field(4, b"\x08\x01"))
    got = decode_v1(field(3, b"metadata") + one + odd, {})
    assert (got.value.tolist(), got.exemplars, got.histograms) == ([1.0], 1, 1)


def test_symbols_of_two_requests_are_one_series():
    """2.0 numbers its strings anew in each request; ours last."""
    table = SymbolTable()
    a = decode_v2(opened(v2((dict(UP), [(AT, 1.0)]))), table)
    b = decode_v2(opened(v2(({"__name__": "other", "zone": "y"}, [(AT, 3.0)]), (dict(UP), [(AT, 2.0)]))), table)
    assert a.labels[0] == b.labels[1]
    assert table.labels(b.labels[1]) == UP


def test_a_table_of_symbols_that_is_full_starts_anew():
    """And says so, since label bytes of before now mean other strings."""
    table = SymbolTable(most=4)
    decode_v2(opened(v2((dict(UP), [(AT, 1.0)]))), table)
    assert table.generation == 1
    got = decode_v2(opened(v2((dict(UP), [(AT, 1.0)]))), table)
    assert (table.generation, table.labels(got.labels[0])) == (2, UP)


def test_series_of_2_0_in_other_shapes():
    """Histograms are counted; references may come one by one; symbols may come last."""
    got = decode_v2(opened(v2((dict(UP), [(AT, 1.0)]), histograms=3)), SymbolTable())
    assert (got.histograms, got.value.tolist()) == (3, [1.0])
    one_by_one = b"".join(varint(1 << 3) + varint(ref) for ref in (1, 2)) + field(2, sample(AT, 4.0))
    table = SymbolTable()
    got = decode_v2(field(5, one_by_one) + b"".join(field(4, text) for text in (b"", b"__name__", b"up")), table)
    assert table.labels(got.labels[0]) == [("__name__", "up")]
    assert got.value.tolist() == [4.0]


@pytest.mark.parametrize(
    "body",
    [
        b"\x0a",
        b"\x0a\x05\x0a",
        b"\x0a\x80",
        b"\x0b",
        b"\x00\x00",
        field(1, field(1, b"x")[:-1] + b"\xff" * 11),
        field(1, field(2, b"\x09\x00")),
        field(1, b"\x0a\x7f" + bytes(3)),
        field(1, field(2, b"\x18\x00" * 20)),
    ],
)
def test_what_is_no_message_is_refused_whole(body: bytes):
    """With a sentence, never with another error."""
    with pytest.raises(Malformed):
        decode_v1(body, {b"": 0})


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (field(4, b"x") + field(5, field(1, b"\x00\x00")), "first string"),
        (field(4, b"") + field(5, field(1, b"\x00\x07")), "refers to string 7"),
        (field(4, b"") + field(5, field(1, b"\x00")), "without a value"),
        (field(4, b"") + field(5, field(1, b"\x80")), "inside a number"),
        (field(4, b"") + field(5, field(1, b"\x80")) + field(5, field(1, b"\x00")), "inside a number"),
        (field(4, b"") + field(5, field(1, b"\x80\x80\x80\x80\x80\x00")), "too long"),
    ],
)
def test_references_that_lead_nowhere_are_refused(body: bytes, why: str):
    with pytest.raises(Malformed, match=why):
        decode_v2(body, SymbolTable())


def test_a_label_that_is_not_utf_8_is_refused():
    with pytest.raises(Malformed, match="UTF-8"):
        labels_v1(field(1, field(1, b"\xff") + field(2, b"")))
    with pytest.raises(Malformed, match="more than 4 fields"):
        labels_v1(field(1, field(1, b"a") * 5))


def test_too_many_series_samples_or_fields_are_refused(monkeypatch: pytest.MonkeyPatch):
    """A small body may hold millions of empty messages."""
    with pytest.raises(Malformed, match="20000 series"):
        decode_v1(field(1, b"") * 20_001, {b"": 0})
    with pytest.raises(Malformed, match="20000 series"):
        decode_v2(field(5, b"") * 20_001, SymbolTable())
    with pytest.raises(Malformed, match="fields"):
        decode_v1(field(1, field(1, b"") * 400_001), {})
    with pytest.raises(Malformed, match="samples"):
        decode_v1(field(1, field(2, sample(AT, 1.0)) * 200_001), {})
    with pytest.raises(Malformed, match="strings"):
        decode_v2(b"\x22\x00" * 400_001, SymbolTable())
    with pytest.raises(Malformed, match="bytes of labels"):
        decode_v2(field(4, b"") + field(5, field(1, bytes(1_600_002))), SymbolTable())


def test_numbers_of_one_and_of_many_bytes():
    assert read_varint(varint(300), 0, 2) == (300, 2)
    values, ends = read_varints(varint(0) + varint(127) + varint(128) + varint(1 << 31))
    assert (values.tolist(), ends.tolist()) == ([0, 127, 128, 1 << 31], [1, 2, 4, 9])
    assert read_varints(b"")[0].size == 0


def test_a_bomb_is_refused_before_it_is_unpacked():
    """100 MB of zeros pack into 5 MB; the length stands in front."""
    bomb = bytes(cramjam.snappy.compress_raw(bytes(100 * 1024**2)))
    assert declared_length(bomb) == 100 * 1024**2
    with pytest.raises(TooLarge, match="at most 33554432"):
        unpack(bomb, 32 * 1024**2)


@pytest.mark.parametrize("body", [b"", b"\xff" * 6, b"\x05abc", pack(b"hello")[:-1], b"\x03" + pack(b"hello")[1:]])
def test_what_is_not_snappys_block_format_is_refused(body: bytes):
    with pytest.raises(SchemaError, match=r"snappy|torn|says"):
        unpack(body, 1000)


def test_an_empty_request_is_one():
    """Prometheus' tests send it; there is nothing to keep."""
    assert opened(pack(b"")) == b""
    assert np.array_equal(decode_v1(b"", {}).value, [])
    assert decode_v2(b"", SymbolTable()).labels == []
