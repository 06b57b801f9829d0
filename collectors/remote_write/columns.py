"""The columns that a request is decoded into, and how its samples are read: all of the usual shape at once."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from collectors.remote_write.wire import Malformed, read_varint, signed, skip_field

MAX_SERIES = 20_000
MAX_SAMPLES = 200_000
MAX_FIELDS = 400_000
MAX_REF_BYTES = 4 * MAX_FIELDS
"""Of one request. Prometheus sends 2,000 samples at once, vmagent 10,000; what is within these is read in a second."""
FIELDS_OF_ODD = 4
"""A sample, a skipped field or a lone reference takes as long to read as so many label fields, and counts as so many."""
_MAX_FIELDS_OF_SAMPLE = 16
"""Many more than it has, for versions to come."""

_SAMPLE_BYTES = 16
"""A sample whose value is not 0 and whose time is between 1971 and 2109: 9 bytes of value, 7 of time."""
SAMPLE_HEAD = b"\x12\x10\x09"
TIME_TAG = 0x10
_DOUBLE = struct.Struct("<d")


@dataclass(slots=True)
class Decoded:
    """A request as columns.

    Args:
        labels: of each series, the bytes that carry its labels.
        known: of each series, what was found for these bytes while reading; None where nothing was looked for.
        series: (n_samples,) index into ``labels``.
        at_ms: (n_samples,) Unix milliseconds.
        value: (n_samples,) with the very bits that were sent.
        histograms: native histogram samples; they are counted, not read.
        exemplars: likewise.
    """

    labels: list[bytes]
    known: list[int | None]
    series: NDArray[np.int64]
    at_ms: NDArray[np.int64]
    value: NDArray[np.float64]
    histograms: int = 0
    exemplars: int = 0


@dataclass(slots=True)
class Building:
    """What is read so far; ``ends`` and ``owners`` are of samples of the usual shape, ``odd`` are the others."""

    body: bytes
    labels: list[bytes] = field(default_factory=list)
    known: list[int | None] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    owners: list[int] = field(default_factory=list)
    odd: list[tuple[int, int, float]] = field(default_factory=list)
    histograms: int = 0
    exemplars: int = 0
    fields: int = 0

    def count_series(self) -> None:
        """Refuse one series more than may be."""
        if len(self.labels) >= MAX_SERIES:
            raise Malformed(f"the request has more than {MAX_SERIES} series", mend="Send fewer at once")

    def count_fields(self, cost: int = 1) -> None:
        """Count a field that is read one by one; refuse too many.

        Args:
            cost: label fields that would take as long.
        """
        self.fields += cost
        if self.fields > MAX_FIELDS:
            raise Malformed(f"the request has more than {MAX_FIELDS} fields", mend="Send fewer series at once")

    def add_sample(self, at: int, end: int) -> None:
        """The sample message between the two offsets, of the series that is read now."""
        body = self.body
        if end - at == _SAMPLE_BYTES and body[at] == 0x09 and body[at + 9] == TIME_TAG:
            self.ends.append(end)
            self.owners.append(len(self.labels))
        else:
            self.count_fields(FIELDS_OF_ODD)
            self.odd.append((len(self.labels), *_read_sample(body, at, end)))

    def done(self) -> Decoded:
        """The columns, with the samples of the usual shape read at once and the others added."""
        ends = np.array(self.ends, np.int64)
        owners = np.array(self.owners, np.int64)
        if len(ends) + len(self.odd) > MAX_SAMPLES:
            raise Malformed(f"the request has more than {MAX_SAMPLES} samples", mend="Send fewer at once")
        at_ms, value, whole = _read_samples(self.body, ends)
        for place in np.flatnonzero(~whole).tolist():
            end = self.ends[place]
            self.odd.append((self.owners[place], *_read_sample(self.body, end - _SAMPLE_BYTES, end)))
        if self.odd:
            more = [np.array(column) for column in zip(*self.odd, strict=True)]
            owners = np.concatenate([owners[whole], more[0]])
            at_ms = np.concatenate([at_ms[whole], more[1].astype(np.int64)])
            value = np.concatenate([value[whole], more[2].astype(np.float64)])
        return Decoded(self.labels, self.known, owners, at_ms, value, self.histograms, self.exemplars)


def _read_samples(
    body: bytes, ends: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.bool_]]:
    """Times and values of samples of the usual shape, all at once, and which of them are really of that shape."""
    raw = np.frombuffer(body, np.uint8)
    if not ends.size:
        return np.empty(0, np.int64), np.empty(0, np.float64), np.empty(0, np.bool_)
    cells = raw[ends[:, None] + np.arange(-_SAMPLE_BYTES, 0)]
    value = np.ascontiguousarray(cells[:, 1:9]).view("<f8")[:, 0].astype(np.float64, copy=False)
    digits = cells[:, 10:]
    whole = (digits[:, :-1] >= 0x80).all(axis=1) & (digits[:, -1] < 0x80)
    at_ms = ((digits & 0x7F).astype(np.int64) << (7 * np.arange(6))).sum(axis=1)
    return at_ms, value, whole


def _read_sample(body: bytes, at: int, end: int) -> tuple[int, float]:
    """Time and value of any sample message; absent fields are 0, as proto3 says."""
    at_ms, value = 0, 0.0
    for _ in range(_MAX_FIELDS_OF_SAMPLE):
        if at >= end:
            return at_ms, value
        tag, at = read_varint(body, at, end)
        if tag == 0x09:
            if at + 8 > end:
                raise Malformed("a sample's value is torn")
            value, at = _DOUBLE.unpack_from(body, at)[0], at + 8
        elif tag == TIME_TAG:
            number, at = read_varint(body, at, end)
            at_ms = signed(number)
        else:
            at = skip_field(body, tag, at, end)
    if at < end:
        raise Malformed(f"a sample has more than {_MAX_FIELDS_OF_SAMPLE} fields")
    return at_ms, value
