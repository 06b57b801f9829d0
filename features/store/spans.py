"""One job on one device without a break."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from telemetry.ids import JobId

if TYPE_CHECKING:
    from features.store.standing import Standing

INF = float("inf")
SILENCE_S = 60.0
"""An owner that was not seen for this long is gone. Twice Prometheus' usual 30 s scrape interval."""
SILENT_SIGHTINGS = 2.5
"""Where a GPU is looked at less often, its owner is gone after this many intervals."""
HEARTBEAT_S = 15.0
"""An unchanged owner is reported for storing this often."""


@dataclass(slots=True, eq=False)
class Span:
    """One job on one GPU without a break.

    Args:
        job: the owner.
        from_s: first sighting.
        to_s: last one.
        ended_s: first moment at which the GPU was seen without this job.
        sharers: (since, how many), oldest first.
        stored_s: last sighting that was given out for storing.
    """

    job: JobId
    from_s: float
    to_s: float
    ended_s: float = INF
    sharers: list[tuple[float, int]] = field(default_factory=list)
    stored_s: float = -INF

    def sharers_at(self, at_s: float) -> int:
        """How many shared the device at a moment."""
        return next((count for since_s, count in reversed(self.sharers) if since_s <= at_s), self.sharers[0][1])


@dataclass(slots=True, eq=False)
class Device:
    """What is known of one GPU.

    Args:
        spans: every stretch, by its beginning.
        live: those that nothing contradicted yet; nearly always the only ones a sighting touches.
        seen_s: last sighting, of an owner or of none.
        silence_s: how long an owner may go unseen.
        standing: what keeps this device's times while nothing changes on it.
    """

    spans: list[Span] = field(default_factory=list)
    live: list[Span] = field(default_factory=list)
    seen_s: float = -INF
    silence_s: float = SILENCE_S
    standing: Standing | None = None
