"""When the service looks for what is slow and sick, and what it saw last."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from collectors.nccl.standing import CommunicatorState
from features.store.base import Reader
from features.transforms.health import health_frame
from forecast.predict.health.types import CommunicatorPeers, Evidence, HealthReport

EVERY_S = 10.0
"""A look reads some thirty metrics of every card; what it finds stands for minutes."""


class Sickness:
    """The newest report, and when the next look is due."""

    def __init__(self) -> None:
        self.report = HealthReport()
        self._looked_s = float("-inf")
        self._due = False
        self._about: Mapping[str, CommunicatorPeers] = {}

    def prepare(self, now_s: float, communicators: Callable[[], Sequence[CommunicatorState]]) -> None:
        """Decide whether this round looks. To be called in the loop that reads NCCL's files.

        Args:
            now_s: this machine's clock.
            communicators: asked only when a look is due.
        """
        self._due = not 0.0 <= now_s - self._looked_s < EVERY_S
        if self._due:
            self._looked_s = now_s
            self._about = {
                str(one.id): CommunicatorPeers(one.rank_count, one.job, one.hosts) for one in communicators()
            }

    def evidence(self, reader: Reader, *, as_of_s: float, window_s: float) -> Evidence | None:
        """What to look at in this round; None while the last look is fresh. May run in a thread.

        Args:
            reader: ring or store.
            as_of_s: the cutoff in the sources' clock.
            window_s: how far back.
        """
        if not self._due:
            return None
        frame = health_frame(reader, now_s=as_of_s, window_s=window_s)
        return Evidence(frame, communicators=self._about, memory=self.report.memory)

    def take(self, report: HealthReport | None) -> None:
        """Keep a round's report."""
        if report is not None:
            self.report = report
