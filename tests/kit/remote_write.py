"""Bodies as remote write senders make them, written from the protobuf encoding's own description."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import cramjam

STALE = struct.unpack("<d", struct.pack("<Q", 0x7FF0000000000002))[0]
Sample = tuple[float, float]
"""Time in seconds and value."""


def varint(number: int) -> bytes:
    """Base-128, low digits first; negative numbers as 64-bit two's complement."""
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def field(number: int, payload: bytes) -> bytes:
    """A length-delimited field."""
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def sample(at_s: float, value: float) -> bytes:
    """A sample message; a value of 0 is left out, as proto3 senders do."""
    bits = struct.pack("<d", value)
    return (b"" if bits == bytes(8) else b"\x09" + bits) + b"\x10" + varint(round(at_s * 1000))


def labels_v1(pairs: Sequence[tuple[str, str]]) -> bytes:
    """Label fields in the order given."""
    return b"".join(field(1, field(1, name.encode()) + field(2, value.encode())) for name, value in pairs)


def ordered(labels: Mapping[str, str]) -> list[tuple[str, str]]:
    """Labels as senders order them."""
    return sorted(labels.items())


def series_v1(pairs: Sequence[tuple[str, str]], samples: Sequence[Sample], more: bytes = b"") -> bytes:
    """A series as a field of the request."""
    return field(1, labels_v1(pairs) + b"".join(field(2, sample(*one)) for one in samples) + more)


def v1(*series: tuple[Mapping[str, str], Sequence[Sample]]) -> bytes:
    """A 1.0 body, packed."""
    return pack(b"".join(series_v1(ordered(labels), samples) for labels, samples in series))


def v2(*series: tuple[Mapping[str, str], Sequence[Sample]], histograms: int = 0) -> bytes:
    """A 2.0 body, packed; the first series carries the histograms."""
    symbols: dict[str, int] = {"": 0}
    messages: list[bytes] = []
    for place, (labels, samples) in enumerate(series):
        refs = [symbols.setdefault(text, len(symbols)) for pair in ordered(labels) for text in pair]
        message = field(1, b"".join(varint(ref) for ref in refs))
        message += b"".join(field(2, sample(*one)) for one in samples)
        message += b"".join(field(3, b"\x08\x01") for _ in range(histograms if place == 0 else 0))
        messages.append(field(5, message + field(5, b"\x08\x02")))
    return pack(b"".join(field(4, text.encode()) for text in symbols) + b"".join(messages))


def pack(body: bytes) -> bytes:
    """Snappy's block format."""
    return bytes(cramjam.snappy.compress_raw(body))
