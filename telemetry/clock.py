"""The clock as an argument: deciding code never asks the machine what time it is."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Where time comes from. The real one lives in ``collectors.wall_clock``."""

    def now(self) -> float:
        """Wall time, Unix seconds."""
        ...

    def monotonic(self) -> float:
        """Seconds that never step back; only differences mean anything."""
        ...

    def sleep(self, duration_s: float) -> None:
        """Wait."""
        ...


class VirtualClock:
    """A clock that moves only when told to, for tests and simulation."""

    def __init__(self, now_s: float = 1_767_225_600.0) -> None:
        self._now_s = now_s
        self._monotonic_s = 0.0

    def now(self) -> float:
        """Wall time, Unix seconds."""
        return self._now_s

    def monotonic(self) -> float:
        """Seconds advanced so far."""
        return self._monotonic_s

    def sleep(self, duration_s: float) -> None:
        """Advance instead of waiting."""
        self.advance(duration_s)

    def advance(self, duration_s: float) -> None:
        """Move both clocks forward."""
        self._now_s += duration_s
        self._monotonic_s += duration_s

    def step_wall(self, offset_s: float) -> None:
        """Step the wall clock alone, as NTP does; the monotonic clock does not see it."""
        self._now_s += offset_s
