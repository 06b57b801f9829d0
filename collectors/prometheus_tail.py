"""Follow a Prometheus server: each reading gives what the ones before did not."""

from __future__ import annotations

import numpy as np

from collectors.prometheus import PrometheusCollector
from collectors.wiring import Wiring
from telemetry.ids import LinkId, SeriesKey
from telemetry.samples import Problem, SampleBatch, Window

_UNREAD = (Problem.UNREACHABLE, Problem.TIMEOUT, Problem.QUERY_ERROR)
"""Findings of a reading that gave nothing and has to be made again from its start."""


class PrometheusTail:
    """Follows a server: each reading gives what it has not given before.

    The first reading takes the whole window asked for. A sample is there to be queried only after its scrape ended,
    so each later reading looks back a little behind the last one and leaves out what it gave already.

    Args:
        collector: the server.
        lookback_s: how far a later reading looks back behind the last; more than the slowest scrape takes.
    """

    def __init__(self, collector: PrometheusCollector, lookback_s: float = 30.0) -> None:
        self.name = collector.name
        self.provides = collector.provides
        self._collector = collector
        self._lookback_s = lookback_s
        self._read_until_s = -np.inf
        self._newest_s: dict[SeriesKey, float] = {}

    @property
    def wiring(self) -> tuple[Wiring, ...]:
        """Cables that the server's series tell of."""
        return self._collector.wiring

    @property
    def capacity_bytes_per_s(self) -> dict[str, float]:
        """Port speeds that the server's series tell of."""
        return self._collector.capacity_bytes_per_s

    @property
    def nics(self) -> set[LinkId]:
        """Host ports that the server has samples of."""
        return self._collector.nics

    async def collect(self, window: Window) -> SampleBatch:
        """Samples of the window that were not given yet; ``window.start_s`` may stay the same all the time."""
        start_s = max(window.start_s, min(self._read_until_s - self._lookback_s, window.end_s))
        batch = await self._collector.collect(Window(start_s, window.end_s))
        if len(batch) or not any(finding.problem in _UNREAD for finding in batch.findings):
            self._read_until_s = window.end_s
        if not len(batch):
            return batch
        newest_s = np.array([self._newest_s.get(key, -np.inf) for key in batch.keys])
        fresh = batch.at_s > newest_s[batch.series]
        np.maximum.at(newest_s, batch.series, batch.at_s)
        self._newest_s.update(zip(batch.keys, newest_s.tolist(), strict=True))
        return SampleBatch(
            batch.keys,
            batch.series[fresh],
            batch.at_s[fresh],
            batch.value[fresh],
            batch.reason[fresh],
            batch.sightings,
            batch.findings,
            batch.source,
            batch.received_s,
        )

    def close(self) -> None:
        """Release the connections."""
        self._collector.close()
