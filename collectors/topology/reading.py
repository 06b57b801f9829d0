"""What a reader of topology gives, and the bounds that all of them keep."""

from __future__ import annotations

from dataclasses import dataclass

from telemetry.errors import BadReply
from telemetry.samples import Finding
from telemetry.topology import Topology

MAX_BYTES = 64 * 2**20
"""Largest source: node objects of 10,000 hosts with all their labels take about 40 MiB."""
MAX_TIERS = 16
"""Most switches above a host; Kubernetes' Topology objects allow as many levels."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What one source tells.

    Args:
        format: what it was taken for.
        topology: what it tells, everything else left unknown.
        findings: what is wrong with it.
        levels: node labels that name the switches above a host, nearest first; only from an object that says so.
    """

    format: str
    topology: Topology
    findings: tuple[Finding, ...] = ()
    levels: tuple[str, ...] = ()


class NotTopology(BadReply):
    """A source is of no kind that tells of topology, as against one that is and cannot be used."""


def decoded(data: bytes, source: str) -> str:
    """The text of a source.

    Raises:
        NotTopology: it is too large, empty, or no UTF-8 text.
    """
    if len(data) > MAX_BYTES:
        raise NotTopology(source, f"larger than {MAX_BYTES // 2**20} MiB")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as odd:
        raise NotTopology(source, f"is no UTF-8 text (byte {odd.start})") from odd
    if not text.strip():
        raise NotTopology(source, "is empty")
    return text


def short(text: object) -> str:
    """A quoted value for a sentence, cut where it is long."""
    whole = str(text)
    return repr(whole if len(whole) <= 60 else f"{whole[:57]}...")


def counted(count: int, word: str) -> str:
    """``1 host``, ``2 hosts``; ``1 switch``, ``2 switches``."""
    if count == 1:
        return f"1 {word}"
    return f"{count} {word}es" if word.endswith(("ch", "s", "x")) else f"{count} {word}s"
