"""Inspector records and collectives as samples in the catalogue's words."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache

import numpy as np

from collectors.nccl.collectives import Collective
from collectors.nccl.inspector import InspectorRecord
from telemetry.ids import CollectiveId, CommunicatorId, SeriesKey
from telemetry.samples import Finding, Problem, Reason, SampleBatch, Window

PROVIDES = frozenset(
    {
        "nccl_busbw_bytes_per_s",
        "nccl_algbw_bytes_per_s",
        "nccl_exec_time_s",
        "nccl_rank_exec_time_s",
        "nccl_straggler_lag_s",
        "nccl_message_bytes",
        "nccl_missed_total",
    }
)
_APART_S = 1e-6
"""Two samples of one series at one instant are set this far apart; the plug-in counts in microseconds."""
CLOCK_AHEAD_S = 5.0
Row = tuple[SeriesKey, float, float | None]
"""Series, Unix seconds, value; None where nothing was measured."""


def rows_of_record(record: InspectorRecord, name: str) -> list[Row]:
    """One rank's samples: its time, and for a Send or Recv all there is to know of it."""
    entity = _member(name, record.communicator.hash, record.operation, record.rank)
    at_s, usable = record.at_s, not record.why_excluded
    time_s = record.exec_time_us / 1e6 if usable else None
    rows: list[Row] = [(_key("nccl_rank_exec_time_s", entity), at_s, time_s)]
    if record.peer is not None:
        rows += _bandwidths(
            entity, at_s, record.busbw_bytes_per_s if usable else None, record.algbw_bytes_per_s if usable else None
        )
        rows.append((_key("nccl_message_bytes", entity), at_s, float(record.total_bytes)))
    return rows


def rows_of_collective(one: Collective) -> list[Row]:
    """A collective's samples, by its slowest rank."""
    entity = str(one.id)
    rows: list[Row] = [
        (_key("nccl_exec_time_s", entity), one.at_s, one.exec_time_s),
        (_key("nccl_message_bytes", entity), one.at_s, float(one.total_bytes)),
        *_bandwidths(entity, one.at_s, one.busbw_bytes_per_s, one.algbw_bytes_per_s),
    ]
    if one.lag_s is not None:
        rows.append((_key("nccl_straggler_lag_s", entity), one.at_s, one.lag_s))
    return rows


def notes_of_records(records: Iterable[InspectorRecord], source: str) -> tuple[Finding, ...]:
    """Why records were left out, counted."""
    counts: dict[str, int] = {}
    for record in records:
        if record.why_excluded:
            text = f"left out of the statistics: {record.why_excluded}"
            counts[text] = counts.get(text, 0) + 1
    return tuple(Finding(Problem.BLANK_VALUE, source, text, count) for text, count in counts.items())


class BatchMaker:
    """Makes batches of rows; the keys are the same object while the series stay the same.

    Args:
        source: of the batches and their findings.
        missing: why a row without a value has none.
    """

    def __init__(self, source: str, *, missing: Reason = Reason.NOT_MEASURED) -> None:
        self._source, self._missing = source, missing
        self._keys: tuple[SeriesKey, ...] = ()

    def batch(self, rows: list[Row], window: Window, findings: tuple[Finding, ...] = ()) -> SampleBatch:
        """The rows inside the window as a batch.

        Rows from before the window are left out and counted. Rows of a writer whose clock is ahead of ours get the
        time of arrival, and keep their order.
        """
        ahead_s = max((at_s for _, at_s, _ in rows), default=window.end_s) - window.end_s
        if ahead_s > CLOCK_AHEAD_S:
            count = sum(at_s > window.end_s for _, at_s, _ in rows)
            text = f"a writer's clock is {ahead_s:.1f} s ahead of ours; such samples get the time at which they arrived"
            findings += (Finding(Problem.CLOCK_AHEAD, self._source, text, count),)
        rows = _apart(rows, window.end_s)
        inside = [row for row in rows if row[1] >= window.start_s]
        if len(inside) < len(rows):
            text = "older than what is asked for, left out"
            findings += (Finding(Problem.PARTIAL, self._source, text, len(rows) - len(inside)),)
        return self._assemble(inside, window.end_s, findings)

    def _assemble(self, rows: list[Row], now_s: float, findings: tuple[Finding, ...]) -> SampleBatch:
        index: dict[SeriesKey, int] = {}
        series = np.fromiter((index.setdefault(key, len(index)) for key, _, _ in rows), np.int32, len(rows))
        keys = tuple(index)
        self._keys = keys = self._keys if keys == self._keys else keys
        value = np.fromiter((math.nan if v is None else v for _, _, v in rows), np.float64, len(rows))
        reason = np.where(np.isnan(value), np.uint8(self._missing), np.uint8(Reason.OK)).astype(np.uint8)
        return SampleBatch(
            keys=keys,
            series=series,
            at_s=np.fromiter((at_s for _, at_s, _ in rows), np.float64, len(rows)),
            value=value,
            reason=reason,
            findings=findings,
            source=self._source,
            received_s=now_s,
        )


@lru_cache(maxsize=65_536)
def _member(name: str, number: str, operation: str, rank: int) -> str:
    return str(CollectiveId(CommunicatorId(name, number), operation, str(rank)))


@lru_cache(maxsize=262_144)
def _key(metric: str, entity: str) -> SeriesKey:
    """The same object for the same series: a record then costs a look-up."""
    return SeriesKey(metric, entity)


def _bandwidths(entity: str, at_s: float, busbw: float | None, algbw: float | None) -> list[Row]:
    return [
        (_key("nccl_busbw_bytes_per_s", entity), at_s, busbw or None),
        (_key("nccl_algbw_bytes_per_s", entity), at_s, algbw or None),
    ]


def _apart(rows: list[Row], end_s: float) -> list[Row]:
    """The rows with at most one of each series at any instant and none after ``end_s``; the earlier ones move back."""
    ordered = sorted(range(len(rows)), key=lambda place: rows[place][1])
    earliest: dict[SeriesKey, float] = {}
    moved: list[Row] = []
    for place in reversed(ordered):
        key, at_s, value = rows[place]
        at_s = min(at_s, end_s)
        before = earliest.get(key)
        if before is not None and at_s > before - _APART_S / 2:
            at_s = before - _APART_S
        earliest[key] = at_s
        moved.append((key, at_s, value))
    return moved[::-1]
