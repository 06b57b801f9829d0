"""Reading some sources much more often for a short while, within what they and this machine bear. Pure.

The forecaster asks for it when it cannot resolve a job's period: a minute of closer readings may show it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

MIN_INTERVAL_S = 0.1
MAX_INTERVAL_S = 1.0
MAX_FOR_S = 60.0


@dataclass(frozen=True, slots=True)
class BurstLimits:
    """What bursts may cost.

    Args:
        rest_s: from the start of a source's burst to the start of its next.
        max_reads_per_s: of all bursts under way together.
    """

    rest_s: float = 600.0
    max_reads_per_s: float = 60.0


@dataclass(frozen=True, slots=True)
class BurstAnswer:
    """What became of a request.

    Args:
        granted: sources that are now read more often.
        refused: source -> why not, as one word: ``unknown``, ``slow_source``, ``resting`` or ``too_many``.
    """

    granted: tuple[str, ...] = ()
    refused: dict[str, str] | None = None

    @property
    def reasons(self) -> Counter[str]:
        """How many were refused for which reason."""
        return Counter((self.refused or {}).values())


@dataclass(frozen=True, slots=True)
class _Burst:
    began_s: float
    until_s: float
    interval_s: float


class Bursts:
    """Which sources are in a burst.

    Args:
        limits: what they may cost.
    """

    def __init__(self, limits: BurstLimits | None = None) -> None:
        self._limits = limits or BurstLimits()
        self._bursts: dict[str, _Burst] = {}

    def ask(self, source: str, interval_s: float, for_s: float, at_s: float) -> str:
        """Start a burst; empty when it is granted, else why not.

        Args:
            source: its name.
            interval_s: seconds between readings, brought into 0.1 to 1.
            for_s: how long, at most 60 s.
            at_s: now, of a clock that never steps back.
        """
        if self.rests(source, at_s):
            return "resting"
        interval_s = min(max(interval_s, MIN_INTERVAL_S), MAX_INTERVAL_S)
        reads_per_s = 1.0 / interval_s + sum(1.0 / one.interval_s for one in self._active(at_s))
        if reads_per_s > self._limits.max_reads_per_s:
            return "too_many"
        self._bursts[source] = _Burst(at_s, at_s + min(max(for_s, 0.0), MAX_FOR_S), interval_s)
        return ""

    def rests(self, source: str, at_s: float) -> bool:
        """Whether a source is in a burst or had one lately."""
        last = self._bursts.get(source)
        return last is not None and at_s - last.began_s < self._limits.rest_s

    def interval_s(self, source: str, at_s: float) -> float | None:
        """How often a source in a burst is read; None for one that is in none."""
        burst = self._bursts.get(source)
        return burst.interval_s if burst is not None and at_s < burst.until_s else None

    def forget(self, source: str) -> None:
        """The source is no longer read."""
        self._bursts.pop(source, None)

    def _active(self, at_s: float) -> list[_Burst]:
        return [burst for burst in self._bursts.values() if at_s < burst.until_s]
