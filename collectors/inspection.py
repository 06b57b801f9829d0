"""What an inspection gives back. A format's reader imports this, ``collectors.inspect`` imports the readers."""

from __future__ import annotations

import math
from dataclasses import dataclass

from telemetry.catalogue import BY_NAME
from telemetry.samples import Finding, Reason, SampleBatch

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
        facts: what it tells besides samples, as lines for a reader.
    """

    source: str
    format: str
    summary: str
    rows: tuple[InspectedRow, ...] = ()
    findings: tuple[Finding, ...] = ()
    facts: tuple[str, ...] = ()

    @property
    def missing(self) -> tuple[InspectedRow, ...]:
        """Rows without a value."""
        return tuple(row for row in self.rows if row.why_missing)


def rows_of(batch: SampleBatch, stamped: bool) -> tuple[InspectedRow, ...]:
    """The batch's samples as rows; ``stamped`` tells whether their times are the source's own."""
    owners: dict[str, set[str]] = {}
    for sighting in batch.sightings:
        who = sighting.workload or (str(sighting.job) if sighting.job else "")
        who = who or ("" if sighting.known else "unknown (busy)")
        if who:
            who += f" (1 of {sighting.sharers})" if sighting.sharers > 1 else ""
            for device in (sighting.gpu, sighting.gpu.card):
                owners.setdefault(str(device), set()).add(who)
    rows: list[InspectedRow] = []
    shown = {device: ", ".join(sorted(who)) for device, who in owners.items()}
    why = {reason.value: _WHY.get(reason, reason.name.lower()) if reason else "" for reason in Reason}
    columns = (column.tolist() for column in (batch.series, batch.at_s, batch.value, batch.reason))
    for series, at_s, value, code in zip(*columns, strict=True):
        key = batch.keys[series]
        rows.append(
            InspectedRow(
                metric=key.metric,
                entity=key.entity,
                value=None if math.isnan(value) else value,
                unit=BY_NAME[key.metric].unit,
                at_s=at_s if stamped and at_s > 0 else None,
                owner=shown.get(key.entity, ""),
                why_missing=why[code],
            )
        )
    return tuple(rows)


def count_text(batch: SampleBatch) -> str:
    """How many samples would be kept and how many are missing."""
    missing = int((batch.reason != 0).sum())
    text = f"{len(batch) - missing} samples of {len(batch.keys)} series would be kept"
    return text + (f", {missing} are missing" if missing else "")
