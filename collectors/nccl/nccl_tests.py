"""Output of nccl-tests (and rccl-tests): one row per message size, columns by the header.

Versions differ in their columns, so that nothing is counted from the right. A launcher may put its mark before each
line. The average over all sizes that the program prints is no capacity figure and is not read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

GB = 1e9
_MARK = re.compile(r"^\[\d{1,6},\d{1,6}\]<std(?:out|err)>:\s?")
_MOST_LINE = 2_000
_MOST_ROWS = 100_000
_HALF = ("time", "algbw", "busbw")
_PROGRAM = re.compile(
    r"(all_reduce|all_gather|reduce_scatter|alltoall|broadcast|reduce|sendrecv|scatter|gather|hypercube)_perf"
)


@dataclass(frozen=True, slots=True)
class RunHalf:
    """One of the two runs of a size.

    Args:
        time_s: mean time of an operation.
        algbw_bytes_per_s: algorithm bandwidth.
        busbw_bytes_per_s: bus bandwidth.
        wrong: elements with a wrong result; None when they were not checked (N/A).
    """

    time_s: float | None
    algbw_bytes_per_s: float | None
    busbw_bytes_per_s: float | None
    wrong: int | None


@dataclass(frozen=True, slots=True)
class SizeRow:
    """One message size.

    Args:
        size_bytes: of the message.
        count: elements.
        type: ``float`` and so on.
        redop: ``sum``; empty where the operation reduces nothing.
        root: rank; None where the operation has none.
        out_of_place: run into another buffer.
        in_place: run in its own buffer; None when the row was cut before it.
    """

    size_bytes: int
    count: int
    type: str
    redop: str
    root: int | None
    out_of_place: RunHalf
    in_place: RunHalf | None


@dataclass(frozen=True, slots=True)
class RunOutput:
    """A run's rows.

    Args:
        program: ``all_reduce_perf``; empty when the text does not name it.
        rows: in the text's order.
        malformed: rows that do not fit the header.
    """

    program: str
    rows: tuple[SizeRow, ...]
    malformed: int = 0


def parse_nccl_tests(data: bytes) -> RunOutput:
    """The rows of a run's output; never raises on any bytes."""
    columns: list[str] = []
    program, malformed = "", 0
    rows: list[SizeRow] = []
    for raw in data.split(b"\n"):
        line = _MARK.sub("", raw[:_MOST_LINE].decode("utf-8", "replace"))
        words = line.split()
        if line.lstrip().startswith("#"):
            names = [word for word in words if word != "#"]
            if {"size", "count", "type", *_HALF} <= set(names):
                columns = names
        elif columns and words and (words[0].isdigit() or _stamped(columns, words)):
            row = _row(columns, words)
            malformed += row is None
            rows += [row] if row is not None and len(rows) < _MOST_ROWS else []
        if not program and (found := _PROGRAM.search(line)):
            program = found[0]
    return RunOutput(program, tuple(rows), malformed)


def is_nccl_tests(data: bytes) -> bool:
    """Whether the text has the header of such a table."""
    head = data[:262_144]
    return b"busbw" in head and b"algbw" in head and b"out-of-place" in head


def _stamped(columns: Sequence[str], words: Sequence[str]) -> bool:
    return columns[0] != "size" and len(words) > 5


def _row(columns: Sequence[str], words: Sequence[str]) -> SizeRow | None:
    """A row by its header; None when it does not fit."""
    first = columns.index("time")
    second = columns.index("time", first + 1) if columns.count("time") > 1 else len(columns)
    if len(words) < second:  # not even the first run is whole
        return None
    # A stamp is written with a space between day and hour, which makes one column two words.
    shift = max(len(words) - len(columns), 0) if columns[0] != "size" else 0
    head = dict(zip(columns[:first], words[shift:], strict=False))
    size, count = _whole(head.get("size", "")), _whole(head.get("count", ""))
    half = _half(columns[first:second], words[first + shift : second + shift])
    if size is None or count is None or half is None:
        return None
    redop, root = head.get("redop", "none"), _whole(head.get("root", "-1"))
    return SizeRow(
        size_bytes=size,
        count=count,
        type=head.get("type", "")[:40],
        redop="" if redop == "none" else redop[:40],
        root=None if root is None or root < 0 else root,
        out_of_place=half,
        in_place=_half(columns[second:], words[second + shift :]),
    )


def _half(columns: Sequence[str], words: Sequence[str]) -> RunHalf | None:
    if len(words) < len(columns) or not columns:
        return None
    named = dict(zip(columns, words, strict=False))
    time_us, algbw, busbw = (_number(named.get(name, "")) for name in _HALF)
    if time_us is None and algbw is None:
        return None
    return RunHalf(
        time_s=None if not time_us else time_us / 1e6,
        algbw_bytes_per_s=None if algbw is None else algbw * GB,
        busbw_bytes_per_s=None if busbw is None else busbw * GB,
        wrong=_whole(named.get("#wrong", "")),
    )


def _number(word: str) -> float | None:
    try:
        number = float(word)
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 and "_" not in word else None


def _whole(word: str) -> int | None:
    number = None if not word.startswith("-1") else -1.0
    number = _number(word) if number is None else number
    return int(number) if number is not None and number.is_integer() and abs(number) < 2**63 else None
