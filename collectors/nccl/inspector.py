"""Records of NCCL Inspector (RCCL's too): one JSON object per line, one file per process.

Bandwidths are worked out again from size and time (``collectors.nccl.bandwidth``).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import orjson

from collectors.nccl.bandwidth import GB, bus_factor, total_bytes
from telemetry.errors import SchemaError
from telemetry.ids import CommunicatorId
from telemetry.samples import Finding, Problem

AGREEMENT_RATIO = 1e-3
"""How far a printed bandwidth may lie from the one worked out again."""
_ROUNDING_GBS = 1e-6
"""The plug-in prints six decimals."""
_MOST_TEXT = 128
_MOST_RANKS = 10_000_000
_MOST_SEEN_S = 4e9
_RECORD_START = b'{"header"'
_VALUES = {"coll_perf": "coll", "p2p_perf": "p2p"}


class Timing(StrEnum):
    """What measured the time."""

    KERNEL_GPU = "kernel_gpu"
    KERNEL_CPU = "kernel_cpu"
    COLLECTIVE_CPU = "collective_cpu"
    """From enqueue to return on the host: says nothing about the transfer."""
    UNKNOWN = "unknown"


_TIMINGS = {timing.value: timing for timing in Timing}


@dataclass(frozen=True, slots=True)
class InspectorRecord:
    """One operation on one rank.

    Args:
        communicator: name and hash; the name is ``unknown`` in older records.
        rank: of the process that wrote it.
        n_ranks: in the communicator.
        n_nodes: hosts of the communicator; 0 when not told.
        operation: ``AllReduce``, ``Send`` and so on.
        peer: the other rank of a Send or Recv; None for a collective.
        sequence: number of the operation, per communicator, rank and kind of operation.
        size_bytes: as printed: per rank for AllGather and ReduceScatter, else of the whole.
        exec_time_us: longest single channel, whole microseconds; 0 when not measured.
        timing: what measured the time.
        written_s: when the record was written, Unix seconds; not when the operation ran.
        ended_s: when the operation ended, Unix seconds; None without verbose records.
        host: that wrote it.
        pid: that wrote it.
        printed_algbw_gbs: as printed; None when absent.
        printed_busbw_gbs: as printed; None when absent.
    """

    communicator: CommunicatorId
    rank: int
    n_ranks: int
    n_nodes: int
    operation: str
    peer: int | None
    sequence: int
    size_bytes: int
    exec_time_us: int
    timing: Timing
    written_s: float
    ended_s: float | None
    host: str
    pid: int
    printed_algbw_gbs: float | None = None
    printed_busbw_gbs: float | None = None
    why_excluded: str = field(init=False, default="")
    """Why it counts in no statistic, as a sentence; empty for a good record."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "why_excluded", self._judge())

    @property
    def at_s(self) -> float:
        """When the operation ended where the record tells, else when it was written, Unix seconds."""
        return self.written_s if self.ended_s is None else self.ended_s

    @property
    def total_bytes(self) -> int:
        """Bytes of the whole operation."""
        return total_bytes(self.operation, self.size_bytes, self.n_ranks)

    @property
    def algbw_bytes_per_s(self) -> float | None:
        """Algorithm bandwidth; None when no time was measured. Given for excluded records too."""
        return self.total_bytes / (self.exec_time_us / 1e6) if self.exec_time_us else None

    @property
    def busbw_bytes_per_s(self) -> float | None:
        """Bus bandwidth; None when no time was measured or the operation has no known factor."""
        factor, algbw = bus_factor(self.operation, self.n_ranks, self.peer is not None), self.algbw_bytes_per_s
        return None if factor is None or algbw is None else algbw * factor

    def _judge(self) -> str:
        if not self.exec_time_us:
            return "no time was measured (0 microseconds)"
        if self.timing is Timing.COLLECTIVE_CPU:
            return "timed on the host (collective_cpu), which measures the enqueue"
        for printed, again in (
            (self.printed_algbw_gbs, self.algbw_bytes_per_s),
            (self.printed_busbw_gbs, self.busbw_bytes_per_s),
        ):
            if printed is not None and again is not None and not _agree(printed, again / GB):
                return "its printed bandwidth disagrees with its own size and time"
        return ""


@dataclass(frozen=True, slots=True)
class InspectorDump:
    """The records of one piece of a file.

    Args:
        records: in file order.
        incomplete: lines that were cut.
        malformed: sentence -> lines that are no record.
    """

    records: tuple[InspectorRecord, ...]
    incomplete: int
    malformed: dict[str, int]

    def findings(self, source: str) -> tuple[Finding, ...]:
        """What was wrong with the text itself, counted."""
        found = [Finding(Problem.MALFORMED_LINE, source, text, n) for text, n in self.malformed.items()]
        if self.incomplete:
            text = "an incomplete record (the file was cut, or its writer ended in the middle)"
            found.append(Finding(Problem.TORN, source, text, self.incomplete))
        return tuple(found)


def parse_dump(data: bytes) -> InspectorDump:
    """Every record of a file's text; never raises on any bytes."""
    return parse_lines(data.split(b"\n"))


def parse_lines(lines: list[bytes]) -> InspectorDump:
    """Records of whole lines. A record that follows a cut one on the same line is kept, and the cut one counted."""
    records: list[InspectorRecord] = []
    malformed: Counter[str] = Counter()
    incomplete = 0
    for line in lines:
        text = line.strip()
        if not text:
            continue
        document = _load(text)
        if document is None:
            incomplete += text.startswith(b"{")
            start = text.rfind(_RECORD_START)
            document = _load(text[start:]) if start > 0 else None
            if document is None:
                if not text.startswith(b"{"):
                    malformed["a line that is no JSON object"] += 1
                continue
        try:
            records.append(_record(document))
        except SchemaError as wrong:
            malformed[wrong.message] += 1
    return InspectorDump(tuple(records), incomplete, dict(malformed))


def is_complete(text: bytes) -> bool:
    """Whether this is a whole JSON object: one that is cut never is."""
    return text.rstrip().endswith(b"}") and _load(text.strip()) is not None


def communicator_hash(text: object) -> str:
    """NCCL's hash in one form, ``0x`` and digits without leading zeros: JSON and text print it differently."""
    try:
        return f"0x{int(str(text)[:40].strip(), 16):x}"
    except ValueError:
        return ""


def _agree(printed: float, again: float) -> bool:
    return abs(printed - again) <= AGREEMENT_RATIO * again + _ROUNDING_GBS


def _load(text: bytes) -> dict[str, Any] | None:
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return document if isinstance(document, dict) else None


def _record(document: dict[str, Any]) -> InspectorRecord:
    header, meta = _part(document, "header"), _part(document, "metadata")
    kind = next((kind for kind in _VALUES if kind in document), "")
    if not kind:
        raise SchemaError("a record has neither coll_perf nor p2p_perf")
    perf, prefix = _part(document, kind), _VALUES[kind]
    name, number = _text(header.get("comm_name"), "unknown"), communicator_hash(header.get("id"))
    if not number:
        raise SchemaError("a record names no communicator (header id)")
    n_ranks, rank = _whole(header, "n_ranks", 1, _MOST_RANKS), _whole(header, "rank", 0, _MOST_RANKS)
    if rank >= n_ranks:
        raise SchemaError("a record's rank is not below its n_ranks")
    operation = _text(perf.get(prefix), "")
    if not operation:
        raise SchemaError(f"a record names no operation ({prefix})")
    written_s = _whole(meta, "dump_timestamp_us", 0, int(_MOST_SEEN_S * 1e6)) / 1e6
    return InspectorRecord(
        communicator=CommunicatorId(name, number),
        rank=rank,
        n_ranks=n_ranks,
        n_nodes=_whole(header, "nnodes", 0, _MOST_RANKS, absent=0),
        operation=operation,
        peer=_whole(perf, "p2p_peer", -1, _MOST_RANKS, absent=-1) if prefix == "p2p" else None,
        sequence=_whole(perf, f"{prefix}_sn", 0, 2**63),
        size_bytes=_whole(perf, f"{prefix}_msg_size_bytes", 0, 2**53),
        exec_time_us=_whole(perf, f"{prefix}_exec_time_us", 0, 2**53),
        timing=_timing(perf.get(f"{prefix}_timing_source")),
        written_s=written_s,
        ended_s=_ended_s(perf, written_s),
        host=_text(meta.get("hostname"), ""),
        pid=_whole(meta, "pid", 0, 2**53, absent=0),
        printed_algbw_gbs=_printed(perf.get(f"{prefix}_algobw_gbs")),
        printed_busbw_gbs=_printed(perf.get(f"{prefix}_busbw_gbs")),
    )


def _part(document: dict[str, Any], name: str) -> dict[str, Any]:
    part = document.get(name)
    if not isinstance(part, dict):
        raise SchemaError(f"a record has no {name} object")
    return part


def _whole(part: dict[str, Any], name: str, low: int, high: int, absent: int | None = None) -> int:
    value = part.get(name, absent)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise SchemaError(f"a record's {name} is missing or not a whole number from {low} to {high}")
    return value


def _text(value: object, absent: str) -> str:
    return (value.strip()[:_MOST_TEXT] or absent) if isinstance(value, str) else absent


def _timing(value: object) -> Timing:
    return _TIMINGS.get(value, Timing.UNKNOWN) if isinstance(value, str) else Timing.UNKNOWN


def _printed(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else None


def _ended_s(perf: dict[str, Any], written_s: float) -> float | None:
    """When the last channel's kernel ended, from a verbose record; None when that cannot be (after the writing)."""
    trace = perf.get("event_trace_ts")
    events = trace.get("kernel_events") if isinstance(trace, dict) else None
    if not isinstance(events, list):
        return None
    stops = [event.get("kernel_stop_ts") for event in events if isinstance(event, dict)]
    last_s = max((s / 1e6 for s in stops if isinstance(s, int | float) and not isinstance(s, bool)), default=0.0)
    return last_s if 0.0 < written_s - last_s < 30 * 86_400.0 else None
