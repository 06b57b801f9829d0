"""The few parts of protobuf's wire format that remote write uses."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from telemetry.errors import SchemaError

_MOST_VARINT_BYTES = 10
_MOST_REF_BYTES = 5


class Malformed(SchemaError):
    """Bytes that are no message of the kind they are said to be."""


def read_varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """A base-128 number and where the next field begins.

    Raises:
        Malformed: it does not end before ``end``, or is longer than 10 bytes.
    """
    value = shift = 0
    for place in range(at, min(end, at + _MOST_VARINT_BYTES)):
        byte = data[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, place + 1
        shift += 7
    raise Malformed(f"a number is torn or too long at byte {at}")


def read_size(data: bytes, at: int, end: int) -> tuple[int, int]:
    """A length and where its bytes begin; they do not reach beyond ``end``.

    Raises:
        Malformed: they do, or the length is torn.
    """
    size, at = read_varint(data, at, end)
    if at + size > end:
        raise Malformed(f"a field reaches {at + size - end} bytes beyond its message")
    return size, at


def skip_field(data: bytes, tag: int, at: int, end: int) -> int:
    """Where the next field begins; ``at`` is behind the tag.

    Raises:
        Malformed: the field reaches beyond ``end``, or is of a kind that proto3 does not have.
    """
    kind = tag & 7
    if kind == 2:
        size, at = read_varint(data, at, end)
        at += size
    elif kind == 0:
        _, at = read_varint(data, at, end)
    elif kind == 1:
        at += 8
    elif kind == 5:
        at += 4
    else:
        raise Malformed(f"a field of the wire type {kind} at byte {at}")
    if at > end:
        raise Malformed(f"a field reaches {at - end} bytes beyond its message")
    return at


def read_varints(data: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """All numbers of a packed run of small base-128 numbers, and for each where it ends.

    Returns:
        (n,) values below 2^35 and (n,) offsets behind the last byte of each.

    Raises:
        Malformed: the run ends inside a number, or a number has more than 5 bytes.
    """
    raw = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(raw < 0x80) + 1
    if raw.size and (not ends.size or ends[-1] != raw.size):
        raise Malformed("a packed run of numbers ends inside a number")
    if not ends.size:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    starts = np.concatenate(([0], ends[:-1]))
    sizes = ends - starts
    if int(sizes.max()) > _MOST_REF_BYTES:
        raise Malformed("a number in a packed run is too long")
    place = np.arange(raw.size) - np.repeat(starts, sizes)
    parts = (raw & 0x7F).astype(np.int64) << (7 * place)
    return np.add.reduceat(parts, starts), ends


def signed(value: int) -> int:
    """An int64 from the unsigned number that carries it."""
    return value - (1 << 64) if value >= 1 << 63 else value
