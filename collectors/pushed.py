"""What would be ingested from the body of a pushed request that was kept in a file. Pure."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from collectors.inspection import Inspection, count_text, rows_of
from collectors.remote_write.protobuf import SymbolTable, decode_v1, decode_v2, labels_v1
from collectors.remote_write.receiver import MAX_UNPACKED_BYTES, Message, Received, Receiver
from collectors.remote_write.snappy import unpack
from collectors.remote_write.wire import Malformed
from collectors.step_reports import read_reports
from collectors.steps import StepBook
from telemetry.errors import SchemaError
from telemetry.samples import Finding, Problem, SampleBatch

_ANY_TIME_S = 1e11
"""A file may be of any age, and nothing in it is called ahead of the clock."""


def read_write(data: bytes, source: str) -> Inspection | None:
    """A remote write request, 1.0 or 2.0, packed or not."""
    try:
        plain = unpack(data, MAX_UNPACKED_BYTES)
    except SchemaError:
        return None
    message = _message_of(plain)
    if message is None:
        return None
    name = f"remote write request ({message.value})"
    try:
        received = Receiver(source).take(data, message, _ANY_TIME_S)
    except SchemaError as bad:
        return Inspection(source, name, bad.message)
    batch = _joined(received, source)
    findings = [*received.findings, *(Finding(Problem.MALFORMED_LINE, source, fault) for fault in received.faults)]
    if received.unknown:
        findings.append(Finding(Problem.UNKNOWN_METRIC, source, "outside the catalogue, left out", received.unknown))
    beside = f", {received.histograms} native histogram samples (left out)" if received.histograms else ""
    summary = f"{received.samples} samples{beside}: {count_text(batch)}"
    return Inspection(source, name, summary, rows_of(batch, True), tuple(findings))


def _message_of(plain: bytes) -> Message | None:
    """Which message the bytes are: the one with a series that has a name."""
    table = SymbolTable()
    for message in Message:
        try:
            if message is Message.V1:
                named = any(_named(labels_v1(labels)) for labels in decode_v1(plain, {}).labels[:20])
            else:
                named = any(_named(table.labels(labels)) for labels in decode_v2(plain, table).labels[:20])
        except Malformed:
            continue
        if named:
            return message
    return None


def _named(pairs: list[tuple[str, str]]) -> bool:
    return any(name == "__name__" for name, _ in pairs)


def read_steps(data: bytes, source: str) -> Inspection | None:
    """Reports of steps: JSON, one, a list, or one on each line."""
    if data.lstrip()[:1] not in (b"{", b"["):
        return None
    try:
        reports, faults = read_reports(data, _ANY_TIME_S)
    except SchemaError:
        return None
    if not reports or len(faults) > len(reports):
        return None
    taken = StepBook().take(reports, faults, _ANY_TIME_S)
    batches = [batch for batch in taken.batches if len(batch)]
    rows = tuple(
        replace(row, at_s=None) if row.at_s == _ANY_TIME_S else row for batch in batches for row in rows_of(batch, True)
    )
    known = f", {taken.duplicates} told before" if taken.duplicates else ""
    others = f", {taken.other_ranks} of other ranks (only their step times are kept)" if taken.other_ranks else ""
    summary = f"{len(reports)} reports of {len(batches)} jobs{known}{others}"
    findings = tuple(Finding(Problem.MALFORMED_LINE, source, fault) for fault in faults[:20])
    return Inspection(source, "steps that a job reports", summary, rows, findings)


def _joined(received: Received, source: str) -> SampleBatch:
    """All targets of a request as one batch."""
    batches = [batch for batch in received.batches if len(batch)]
    sightings = tuple(sighting for batch in received.batches for sighting in batch.sightings)
    if not batches:
        return replace(SampleBatch.empty(source=source), sightings=sightings)
    keys = tuple(dict.fromkeys(key for batch in batches for key in batch.keys))
    place = {key: i for i, key in enumerate(keys)}
    series = [np.array([place[batch.keys[i]] for i in batch.series.tolist()], np.int32) for batch in batches]
    return SampleBatch(
        keys=keys,
        series=np.concatenate(series),
        at_s=np.concatenate([batch.at_s for batch in batches]),
        value=np.concatenate([batch.value for batch in batches]),
        reason=np.concatenate([batch.reason for batch in batches]),
        sightings=sightings,
        source=source,
    )
