"""Both messages of remote write, decoded into columns.

Labels are not taken apart here: the bytes that carry them are handed on as they are, and who has met the same bytes
before knows already what they mean. A series of one sample with known labels, as Prometheus sends them, costs one
slice and one look into a dictionary; all samples of a request are read at once.

Messages: prometheus.WriteRequest (prompb/remote.proto, types.proto) and io.prometheus.write.v2.Request
(prompb/io/prometheus/write/v2/types.proto).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from collectors.remote_write.columns import (
    FIELDS_OF_ODD,
    MAX_FIELDS,
    MAX_REF_BYTES,
    MAX_SERIES,
    SAMPLE_HEAD,
    TIME_TAG,
    Building,
    Decoded,
)
from collectors.remote_write.wire import Malformed, read_size, read_varint, read_varints, skip_field

_MAX_FIELDS_OF_LABEL = 4
"""Twice what it has, for versions to come."""


def decode_v1(body: bytes, known: Mapping[bytes, int]) -> Decoded:
    """A ``prometheus.WriteRequest``; ``labels`` holds the label fields as they were sent.

    Args:
        body: unpacked.
        known: label bytes met before; only they are recognised without being looked through.

    Raises:
        Malformed: not such a message, torn, or beyond the limits.
    """
    made = Building(body)
    labels, rows, ends, owners = made.labels, made.known, made.ends, made.owners
    at, total = 0, len(body)
    while at < total:
        if body[at] != 0x0A:
            at = _skip_unknown(made, at)
            continue
        # The usual size has two digits; a call for each series would cost as much as all the rest.
        if at + 2 < total and body[at + 1] >= 0x80 > body[at + 2]:
            size = body[at + 1] & 0x7F | body[at + 2] << 7
            at += 3
        else:
            size, at = read_size(body, at + 1, total)
        end = at + size
        if end > total:
            raise Malformed(f"a series reaches {end - total} bytes beyond the request")
        if len(labels) >= MAX_SERIES:
            made.count_series()
        # Bytes that were read as whole label fields before are so again; what is left is one sample.
        head = body[at : end - 18]
        row = known.get(head)
        if row is not None and size >= 18 and body.startswith(SAMPLE_HEAD, end - 18) and body[end - 7] == TIME_TAG:
            ends.append(end)
            owners.append(len(labels))
            labels.append(head)
            rows.append(row)
        else:
            _read_series_v1(made, at, end)
            rows.append(None)
        at = end
    return made.done()


def _read_series_v1(made: Building, at: int, end: int) -> None:
    """One ``TimeSeries``, field by field."""
    body = made.body
    label_fields: list[bytes] = []
    while at < end:
        tag, start = body[at], at
        made.count_fields()
        if tag in (0x0A, 0x12, 0x1A, 0x22):
            size, at = read_size(body, at + 1, end)
            if tag == 0x0A:
                label_fields.append(body[start : at + size])
            elif tag == 0x12:
                made.add_sample(at, at + size)
            elif tag == 0x1A:
                made.exemplars += 1
            else:
                made.histograms += 1
            at += size
        else:
            made.count_fields(FIELDS_OF_ODD)
            tag, at = read_varint(body, at, end)
            at = skip_field(body, tag, at, end)
    made.labels.append(b"".join(label_fields))


def labels_v1(data: bytes) -> list[tuple[str, str]]:
    """Names and values of label fields, in the order sent.

    Raises:
        Malformed: not label fields, or not UTF-8.
    """
    found: list[tuple[str, str]] = []
    at, end = 0, len(data)
    while at < end:
        pair, stop = _usual_label(data, at, end)
        if pair is not None:
            found.append(pair)
            at = stop
            continue
        size, at = read_size(data, at + 1, end)
        parts = {1: "", 2: ""}
        stop = at + size
        for _ in range(_MAX_FIELDS_OF_LABEL):
            if at >= stop:
                break
            tag, at = read_varint(data, at, stop)
            if tag in (0x0A, 0x12):
                length, at = read_size(data, at, stop)
                parts[tag >> 3] = _text(data[at : at + length])
                at += length
            else:
                at = skip_field(data, tag, at, stop)
        if at != stop:
            raise Malformed(f"a label has more than {_MAX_FIELDS_OF_LABEL} fields")
        found.append((parts[1], parts[2]))
    return found


def _usual_label(data: bytes, at: int, end: int) -> tuple[tuple[str, str] | None, int]:
    """A label of a name and a value, each shorter than 128 bytes, as nearly all are; None when it is another."""
    middle = at + 4
    if middle > end or data[at + 2] != 0x0A or data[at + 1] >= 0x80 or data[at + 3] >= 0x80:
        return None, at
    middle += data[at + 3]
    stop = at + 2 + data[at + 1]
    if stop > end or middle + 2 > stop or data[middle] != 0x12 or data[middle + 1] != stop - middle - 2:
        return None, at
    return (_text(data[at + 4 : middle]), _text(data[middle + 2 : stop])), stop


class SymbolTable:
    """Strings of 2.0 requests with numbers that stay the same from request to request.

    Args:
        most: strings kept; beyond it the table starts anew, and ``generation`` says so.
    """

    def __init__(self, most: int = 1_000_000) -> None:
        self.generation = 0
        self._most = most
        self._numbers: dict[bytes, int] = {}
        self._texts: list[bytes] = []

    def numbers_of(self, symbols: list[bytes]) -> NDArray[np.int32]:
        """(n_symbols,) the lasting number of each string of a request."""
        if len(self._numbers) + len(symbols) > self._most:
            self._numbers.clear()
            self._texts.clear()
            self.generation += 1
        numbers, texts = self._numbers, self._texts
        found: list[int] = []
        for symbol in symbols:
            number = numbers.get(symbol)
            if number is None:
                number = numbers[symbol] = len(texts)
                texts.append(symbol)
            found.append(number)
        return np.array(found, np.int32)

    def labels(self, data: bytes) -> list[tuple[str, str]]:
        """Names and values behind what ``decode_v2`` gives as labels.

        Raises:
            Malformed: not UTF-8.
        """
        texts = [_text(self._texts[number]) for number in np.frombuffer(data, np.int32).tolist()]
        return list(zip(texts[::2], texts[1::2], strict=True))


def decode_v2(body: bytes, table: SymbolTable) -> Decoded:
    """An ``io.prometheus.write.v2.Request``; ``labels`` holds lasting numbers of strings, for ``table.labels``.

    Raises:
        Malformed: not such a message, torn, beyond the limits, or a reference to a string that is not there.
    """
    made = Building(body)
    symbols: list[bytes] = []
    at, total = 0, len(body)
    while at < total:
        tag = body[at]
        if tag not in (0x22, 0x2A):
            at = _skip_unknown(made, at)
            continue
        if at + 1 < total and body[at + 1] < 0x80:
            size, at = body[at + 1], at + 2
        else:
            size, at = read_varint(body, at + 1, total)
        end = at + size
        if end > total:
            raise Malformed(f"a field reaches {end - total} bytes beyond the request")
        if tag == 0x22:
            symbols.append(body[at:end])
            if len(symbols) > MAX_FIELDS:
                raise Malformed(f"the request has more than {MAX_FIELDS} strings", mend="Send fewer series at once")
        else:
            made.count_series()
            if not _read_usual_v2(made, at, end):
                _read_series_v2(made, at, end)
        at = end
    if symbols and symbols[0]:
        raise Malformed("the first string of the request is not empty, as 2.0 asks")
    made.labels = _resolve(made.labels, symbols, table)
    made.known = [None] * len(made.labels)
    return made.done()


def _read_usual_v2(made: Building, at: int, end: int) -> bool:
    """Read a series of one sample, perhaps with metadata behind, as Prometheus sends them; False when it is another."""
    body = made.body
    if end - at < 22 or body[at] != 0x0A or body[at + 1] >= 0x80:
        return False
    middle = at + 2 + body[at + 1]
    tail = middle + 18
    if tail > end or not body.startswith(SAMPLE_HEAD, middle) or body[middle + 11] != TIME_TAG:
        return False
    if tail != end and not (end - tail >= 2 and body[tail] == 0x2A and body[tail + 1] == end - tail - 2):
        return False
    made.ends.append(tail)
    made.owners.append(len(made.labels))
    made.labels.append(body[at + 2 : middle])
    return True


def _read_series_v2(made: Building, at: int, end: int) -> None:
    """One ``TimeSeries``, field by field; its references stay packed for now."""
    body = made.body
    refs: list[bytes] = []
    while at < end:
        tag = body[at]
        made.count_fields()
        if tag in (0x0A, 0x12, 0x1A, 0x22):
            size, at = read_size(body, at + 1, end)
            if tag == 0x0A:
                refs.append(body[at : at + size])
            elif tag == 0x12:
                made.add_sample(at, at + size)
            elif tag == 0x1A:
                made.histograms += 1
            else:
                made.exemplars += 1
            at += size
            continue
        made.count_fields(FIELDS_OF_ODD)
        tag, at = read_varint(body, at, end)
        start, at = at, skip_field(body, tag, at, end)
        if tag == 0x08:  # references one by one, which proto3 allows too
            refs.append(body[start:at])
    made.labels.append(refs[0] if len(refs) == 1 else b"".join(refs))


def _resolve(packed: list[bytes], symbols: list[bytes], table: SymbolTable) -> list[bytes]:
    """Lasting numbers of each series' strings, as bytes, from its packed references."""
    sizes = np.array([len(refs) for refs in packed], np.int64)
    if int(sizes.sum()) > MAX_REF_BYTES:
        raise Malformed(f"the request has more than {MAX_REF_BYTES} bytes of labels", mend="Send fewer series at once")
    numbers, ends = read_varints(b"".join(packed))
    if numbers.size and int(numbers.max()) >= len(symbols):
        raise Malformed(f"a label refers to string {int(numbers.max())}, and there are {len(symbols)}")
    edges = np.searchsorted(ends, np.cumsum(sizes), side="right")
    borders = np.concatenate(([0], np.cumsum(sizes)[:-1])) if len(packed) else np.empty(0, np.int64)
    if not np.isin(borders[borders > 0], ends).all():
        raise Malformed("a series' references end inside a number")
    lasting = table.numbers_of(symbols)[numbers].tobytes() if numbers.size else b""
    found: list[bytes] = []
    first = 0
    for edge in edges.tolist():
        if (edge - first) % 2:
            raise Malformed("a series has a label name without a value")
        found.append(lasting[4 * first : 4 * edge])
        first = edge
    return found


def _skip_unknown(made: Building, at: int) -> int:
    """Behind a field of the request that is of no interest, such as metadata."""
    made.count_fields(FIELDS_OF_ODD)
    tag, at = read_varint(made.body, at, len(made.body))
    if tag >> 3 == 0:
        raise Malformed(f"a field without a number at byte {at}")
    return skip_field(made.body, tag, at, len(made.body))


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as odd:
        raise Malformed(f"a label is not UTF-8: {data[:40]!r}") from odd
