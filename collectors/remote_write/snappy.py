"""Snappy's block format, with a cap on what a body may grow to."""

from __future__ import annotations

import cramjam

from telemetry.errors import SchemaError

_MOST_LENGTH_BYTES = 5


class TooLarge(SchemaError):
    """A body that says of itself that it is larger than is read."""


def declared_length(body: bytes) -> int:
    """How many bytes the body says it unpacks to.

    The block format begins with that length as a little-endian base-128 number (snappy format_description.txt,
    section 1).

    Raises:
        SchemaError: the body does not begin with such a number.
    """
    length = 0
    for place, byte in enumerate(body[:_MOST_LENGTH_BYTES]):
        length |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return length
    raise SchemaError("the body is not in snappy's block format: it does not begin with a length")


def unpack(body: bytes, max_bytes: int) -> bytes:
    """The body unpacked.

    Args:
        body: in the block format; the framed format is another one.
        max_bytes: most bytes that it may unpack to, looked at before anything is unpacked.

    Raises:
        TooLarge: it declares more than ``max_bytes``.
        SchemaError: it is not in the block format, or is torn.
    """
    length = declared_length(body)
    if length > max_bytes:
        raise TooLarge(
            f"the body unpacks to {length} bytes, and at most {max_bytes} are read", mend="Send smaller ones"
        )
    try:
        unpacked = bytes(cramjam.snappy.decompress_raw(body))
    except cramjam.DecompressionError as broken:
        raise SchemaError(f"the body is not in snappy's block format, or it is torn ({broken})") from broken
    if len(unpacked) != length:
        raise SchemaError(f"the body unpacks to {len(unpacked)} bytes, but says {length}")
    return unpacked
