"""How a source stands, for ``doctor`` and the API. No I/O here."""

from __future__ import annotations

from dataclasses import dataclass, field

TELEMETRY = "telemetry"
"""What tells how GPUs, hosts and links do; without it there is nothing to forecast."""


@dataclass(frozen=True, slots=True)
class TargetStatus:
    """One source as it stands.

    Args:
        source: URL.
        up: whether the last attempt gave a usable reply.
        last_ok_s: wall time of the last usable reply; None when there was none.
        interval_s: how often it is read now.
        refresh_s: how often its values change; None when not known yet.
        clock_offset_s: our clock minus its newest timestamp; None when it sends none.
        samples: in the last reply that was kept.
        findings: problem -> count since start.
        last_error: a sentence; empty when fine.
        details: problem -> the newest sentence about it.
        role: ``telemetry``, or what is read beside it: ``scheduler``, ``collectives``, ``topology``.
    """

    source: str
    up: bool
    last_ok_s: float | None
    interval_s: float
    refresh_s: float | None
    clock_offset_s: float | None
    samples: int
    findings: dict[str, int]
    last_error: str = ""
    details: dict[str, str] = field(default_factory=dict)
    role: str = TELEMETRY
