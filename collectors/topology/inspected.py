"""Topology sources for ``gpucast inspect``."""

from __future__ import annotations

from collectors.inspection import Inspection
from collectors.topology.draw import drawn
from collectors.topology.read import SourceText, finished, read_source
from collectors.topology.reading import NotTopology
from telemetry.errors import BadReply


def read_topology(data: bytes, source: str) -> Inspection | None:
    """What a topology source tells; None where the data is something else."""
    try:
        reading = read_source(SourceText(data, source))
    except NotTopology:
        return None
    except BadReply as bad:
        return Inspection(source, "topology", str(bad))
    if reading.levels:
        facts = ["levels above a host, nearest first", *(f"  {label}" for label in reading.levels)]
        return Inspection(source, reading.format, f"{len(reading.levels)} levels", (), reading.findings, tuple(facts))
    lines = drawn(finished(reading.topology))
    return Inspection(source, reading.format, lines[0], (), reading.findings, tuple(lines[1:]))
