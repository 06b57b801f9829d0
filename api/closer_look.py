"""Where a period cannot be resolved, the job's sources are read more often for a while."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from collectors.burst import BurstAnswer
from forecast.predict.types import Absence, Why
from forecast.predict.worker import PredictReply, PredictRequest

log = logging.getLogger("gpucast")


@runtime_checkable
class CanBurst(Protocol):
    """A source that can be read more closely for a while."""

    def burst(self, nodes: Iterable[str]) -> BurstAnswer:
        """Read what tells of these hosts as often as is worth while, for a minute."""
        ...


def look_closer(source: object, request: PredictRequest, reply: PredictReply, counters: Counter[str]) -> None:
    """Ask for bursts where sampling was too coarse in this round; nothing where the source cannot give any."""
    if not isinstance(source, CanBurst):
        return
    coarse = {
        node
        for frame, forecast in zip(request.jobs, reply.jobs, strict=True)
        if isinstance(forecast.period, Absence) and forecast.period.why is Why.SAMPLING_TOO_COARSE
        for node in frame.job.nodes
    }
    if not coarse:
        return
    answer = source.burst(sorted(coarse))
    counters["gpucast_bursts_total"] += len(answer.granted)
    for why, count in answer.reasons.items():
        counters[f'gpucast_bursts_refused_total{{why="{why}"}}'] += count
    if answer.granted:
        log.info("%d sources are read more closely for a while to resolve periods", len(answer.granted))
