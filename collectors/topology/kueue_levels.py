"""``Topology`` objects of Kueue and KAI: which node labels name the levels above a host."""

from __future__ import annotations

from typing import Any

from collectors.topology.node_labels import HOSTNAME
from collectors.topology.reading import MAX_TIERS, Reading, short
from telemetry.errors import BadReply
from telemetry.samples import Finding, Problem
from telemetry.topology import Topology

FORMAT = "Kueue topology levels"


def is_levels(document: Any) -> bool:
    """Whether a document is a Topology object of Kueue or KAI."""
    return isinstance(document, dict) and document.get("kind") == "Topology" and isinstance(document.get("spec"), dict)


def read_levels(documents: list[Any], source: str) -> Reading:
    """Labels nearest first, without the host's own; the nodes themselves come from another source.

    Raises:
        BadReply: there is no level.
    """
    objects = [document for document in documents if is_levels(document)]
    rows = objects[0]["spec"].get("levels") if objects else None
    labels = [str(row["nodeLabel"]) for row in rows if isinstance(row, dict) and row.get("nodeLabel")] if rows else []
    if not isinstance(rows, list) or not labels:
        raise BadReply(source, "names no level", mend="A Topology object needs spec.levels[].nodeLabel")
    labels = list(dict.fromkeys(labels))[:MAX_TIERS]
    findings: tuple[Finding, ...] = ()
    if len(objects) > 1:
        detail = f"further Topology objects are left out beside {short(_name(objects[0]))}"
        findings = (Finding(Problem.PARTIAL, source, detail, len(objects) - 1),)
    levels = tuple(label for label in reversed(labels) if label != HOSTNAME)
    return Reading(FORMAT, Topology(source=source), findings, levels)


def _name(document: Any) -> str:
    about = document.get("metadata")
    return str(about.get("name", "")) if isinstance(about, dict) else ""
