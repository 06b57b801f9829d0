"""When the service looks for what is slow and sick, and what it saw last."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from collectors.nccl.standing import CommunicatorState
from features.store.base import Reader
from features.transforms.health import health_frame
from forecast.predict.health.types import CommunicatorPeers, Evidence, HealthReport

EVERY_S = 10.0
"""A look reads some thirty metrics of every card; what it finds stands for minutes."""
MOST_SHARE = 0.05
"""Of one core that gathering may take: a fleet whose look costs seconds is looked at less often."""


class Sickness:
    """The newest report, and when the next look is due.

    Args:
        stopwatch: seconds, for what a look costs.
    """

    def __init__(self, stopwatch: Callable[[], float] = time.thread_time) -> None:
        self.report = HealthReport()
        self._stopwatch = stopwatch
        self._looked_s = float("-inf")
        self._rest_s = EVERY_S

    def evidence(
        self,
        reader: Reader,
        communicators: Sequence[CommunicatorState],
        *,
        now_s: float,
        as_of_s: float,
        window_s: float,
    ) -> Evidence | None:
        """What to look at in this round; None while the last look is fresh.

        Args:
            reader: ring or store.
            communicators: as NCCL tells of them.
            now_s: this machine's clock.
            as_of_s: the cutoff in the sources' clock.
            window_s: how far back.
        """
        if 0.0 <= now_s - self._looked_s < self._rest_s:
            return None
        self._looked_s, began_s = now_s, self._stopwatch()
        about = {str(one.id): CommunicatorPeers(one.rank_count, one.job, one.hosts) for one in communicators}
        frame = health_frame(reader, now_s=as_of_s, window_s=window_s)
        self._rest_s = max(EVERY_S, (self._stopwatch() - began_s) / MOST_SHARE)
        return Evidence(frame, communicators=about, memory=self.report.memory)

    def take(self, report: HealthReport | None) -> None:
        """Keep a round's report."""
        if report is not None:
            self.report = report
