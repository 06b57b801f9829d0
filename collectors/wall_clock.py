"""The real clock."""

from __future__ import annotations

import time


class WallClock:
    """The machine's clock, for everything that touches the world."""

    def now(self) -> float:
        """Wall time, Unix seconds."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds that never step back."""
        return time.monotonic()

    def sleep(self, duration_s: float) -> None:
        """Wait."""
        time.sleep(duration_s)
