"""What would be ingested from a piece of text: samples with units, owners, what is missing and why. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import orjson

from collectors.answer import is_answer, read_answer
from collectors.entities import UNKNOWN_NODE, Place
from collectors.exposition import PageParser
from collectors.fields import FieldMapper
from collectors.series_map import SeriesMapper
from telemetry.catalogue import BY_NAME
from telemetry.errors import BadReply
from telemetry.samples import Finding, Problem, Reason, SampleBatch

_WHY = {
    Reason.BLANK: "the source printed its number for 'no value'",
    Reason.OUT_OF_RANGE: "outside the legal range of this metric",
    Reason.NOT_FINITE: "not a finite number",
    Reason.FIRST_READING: "a first zero, which means that there was no earlier reading",
    Reason.NOT_MEASURED: "the device does not measure this (a MIG slice, or a port that is down)",
}


@dataclass(frozen=True, slots=True)
class InspectedRow:
    """One sample as it would be stored.

    Args:
        metric: catalogue name.
        entity: what it belongs to.
        value: in ``unit``; None when missing.
        unit: in words.
        at_s: its own time, Unix seconds; None when the source gives none (it then gets the time of the reading).
        owner: workloads or jobs on the device, joined by commas; empty when nobody.
        why_missing: a sentence; empty when the value is good.
    """

    metric: str
    entity: str
    value: float | None
    unit: str
    at_s: float | None
    owner: str = ""
    why_missing: str = ""


@dataclass(frozen=True, slots=True)
class Inspection:
    """What a piece of text holds.

    Args:
        source: path or URL.
        format: what it was taken for; empty when nothing recognised it.
        summary: a sentence.
        rows: what would be stored, missing values included.
        findings: what is wrong with it.
    """

    source: str
    format: str
    summary: str
    rows: tuple[InspectedRow, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def missing(self) -> tuple[InspectedRow, ...]:
        """Rows without a value."""
        return tuple(row for row in self.rows if row.why_missing)


def inspect_source(data: bytes, source: str) -> Inspection:
    """What would be ingested from ``data``; never raises on any bytes.

    Args:
        data: the whole file, page or answer.
        source: path or URL, for the report.
    """
    if not data.strip():
        return Inspection(source, "", f"{source} is empty")
    for read in FORMATS.values():
        found = read(data, source)
        if found is not None:
            return found
    known = ", ".join(FORMATS)
    return Inspection(source, "", f"{source} is in no format that gpucast reads (it reads: {known})")


def _read_answer(data: bytes, source: str) -> Inspection | None:
    """An answer of the Prometheus HTTP API."""
    if data.lstrip()[:1] != b"{":
        return None
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    if not is_answer(document):
        return None
    name = "Prometheus API answer"
    try:
        answer = read_answer(document, source)
    except BadReply as bad:
        return Inspection(source, name, bad.message)
    if answer.state == "error":
        mend = "; a smaller range may succeed" if answer.retry_smaller else ""
        finding = Finding(Problem.QUERY_ERROR, source, f"{answer.error_type}: {answer.error}")
        return Inspection(
            source, name, f"the server refused: {answer.error_type}: {answer.error}{mend}", (), (finding,)
        )
    batch = SeriesMapper(source).batch([answer], 0.0)
    histograms = f", {len(answer.histograms)} native histogram samples (left out)" if answer.histograms else ""
    hints = f", {len(answer.infos)} hints about the query" if answer.infos else ""
    state = {"partial": "incomplete answer", "no_data": "no data"}.get(answer.state, "answer")
    summary = f"{state} of kind {answer.kind} with {len(answer.series)} series{histograms}{hints}"
    return Inspection(source, name, f"{summary}: {_count(batch)}", _rows(batch, True), batch.findings)


def _read_page(data: bytes, source: str) -> Inspection | None:
    """A page of an exporter: most of its lines can be read as samples."""
    page = PageParser().parse(data)
    unreadable = 0 if page.unreadable is None else int(page.unreadable.sum())
    readable = len(page.layout.names) - unreadable
    bad = sum(count for problem, _, count in page.notes if problem is not Problem.TORN)
    if not readable or readable < bad:
        return None
    stamped = page.at_s is not None
    batch = FieldMapper(source, Place(fallback=UNKNOWN_NODE)).batch(page, 0.0)
    summary = f"exposition page with {len(page.layout.names)} sample lines: {_count(batch)}"
    return Inspection(source, "Prometheus exposition page", summary, _rows(batch, stamped), batch.findings)


FORMATS: dict[str, Callable[[bytes, str], Inspection | None]] = {
    "Prometheus API answer": _read_answer,
    "Prometheus exposition page": _read_page,
}
"""Tried in this order; each gives None when the data is not its own. A new format is a function and a line here."""


def _rows(batch: SampleBatch, stamped: bool) -> tuple[InspectedRow, ...]:
    owners: dict[str, set[str]] = {}
    for sighting in batch.sightings:
        who = sighting.workload or (str(sighting.job) if sighting.job else "")
        who = who or ("" if sighting.known else "unknown (busy)")
        if who:
            who += f" (1 of {sighting.sharers})" if sighting.sharers > 1 else ""
            for device in (sighting.gpu, sighting.gpu.card):
                owners.setdefault(str(device), set()).add(who)
    rows: list[InspectedRow] = []
    for series, at_s, value, code in zip(batch.series, batch.at_s, batch.value, batch.reason, strict=True):
        key, reason = batch.keys[series], Reason(int(code))
        rows.append(
            InspectedRow(
                metric=key.metric,
                entity=key.entity,
                value=None if math.isnan(value) else float(value),
                unit=BY_NAME[key.metric].unit,
                at_s=float(at_s) if stamped and at_s > 0 else None,
                owner=", ".join(sorted(owners.get(key.entity, ()))),
                why_missing=_WHY.get(reason, reason.name.lower()) if reason else "",
            )
        )
    return tuple(rows)


def _count(batch: SampleBatch) -> str:
    missing = int((batch.reason != 0).sum())
    text = f"{len(batch) - missing} samples of {len(batch.keys)} series would be kept"
    return text + (f", {missing} are missing" if missing else "")
