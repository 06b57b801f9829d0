"""Many sources at once, each on its own rhythm."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field

from collectors.base import Collector
from collectors.burst import BurstAnswer, BurstLimits, Bursts
from collectors.cadence import Cadence, CadenceLimits
from collectors.scrape import ExporterCollector
from collectors.status import TargetStatus
from collectors.wiring import TellsWiring, build_topology
from telemetry.clock import Clock
from telemetry.samples import Problem, SampleBatch, Sighting, SightingsAt, Window
from telemetry.topology import Topology

OnBatch = Callable[[SampleBatch], Awaitable[None]]
_JITTER_RATIO = 0.02
_log = logging.getLogger(__name__)


_FATAL = frozenset(
    {
        Problem.UNREACHABLE,
        Problem.TIMEOUT,
        Problem.TOO_LARGE,
        Problem.HTTP_STATUS,
        Problem.NOT_TEXT,
        Problem.EMPTY,
        Problem.TORN,
        Problem.QUERY_ERROR,
        Problem.UNLAWFUL,
    }
)


@dataclass(slots=True)
class _Target:
    collector: Collector
    cadence: Cadence
    lookback_s: float
    task: asyncio.Task[None] | None = None
    up: bool = False
    last_ok_s: float | None = None
    interval_s: float = 0.0
    samples: int = 0
    findings: Counter[str] = field(default_factory=Counter)
    details: dict[str, str] = field(default_factory=dict)
    last_error: str = ""
    nodes: frozenset[str] = frozenset()
    seen: Sequence[Sighting] = ()
    resume: asyncio.Future[None] | None = None

    def note(self, batch: SampleBatch) -> None:
        for finding in batch.findings:
            self.findings[finding.problem.value] += finding.count
            self.details[finding.problem.value] = finding.detail
        fatal = next((f for f in batch.findings if f.problem in _FATAL), None)
        seen = batch.sightings.base if isinstance(batch.sightings, SightingsAt) else batch.sightings
        if seen and seen is not self.seen:
            self.seen = seen
            self.nodes = frozenset(sighting.gpu.node for sighting in seen)
        self.up = len(batch) > 0 or fatal is None
        if self.up:
            self.last_ok_s, self.last_error = batch.received_s, ""
            self.samples = len(batch) or self.samples
        elif fatal is not None:
            self.last_error = fatal.detail


class ScrapePool:
    """Runs sources side by side until stopped.

    Each target has its own task, so that one which hangs delays no other. A batch goes to ``on_batch`` unless it is
    empty and has nothing to tell; while ``on_batch`` works on a target's batch that target is not read again.

    Args:
        on_batch: where batches go.
        clock: wall clock for the samples' times.
        limits: how often sources may be read.
        seed: of the jitter that keeps targets from being read all at once.
    """

    def __init__(self, on_batch: OnBatch, clock: Clock, limits: CadenceLimits | None = None, *, seed: int = 0) -> None:
        self.limits = limits or CadenceLimits()
        self._on_batch = on_batch
        self._clock = clock
        self._random = random.Random(seed)
        self._targets: dict[str, _Target] = {}
        self._leaving: set[asyncio.Task[None]] = set()
        self._bursts = Bursts(BurstLimits(max_reads_per_s=self.limits.max_scrapes_per_s / 2.0))

    def add(self, collector: Collector, *, cadence: Cadence | None = None, lookback_s: float = 0.0) -> None:
        """Start reading a source; one of the same name is replaced. To be called inside the running loop.

        Args:
            collector: the source.
            cadence: its rhythm; an ``ExporterCollector`` brings its own.
            lookback_s: length of the windows asked for; 0 for sources that show the present only.
        """
        self.remove(collector.name)
        own = collector.cadence if isinstance(collector, ExporterCollector) else None
        target = _Target(collector, cadence or own or Cadence(self.limits), lookback_s)
        self._targets[collector.name] = target
        target.task = asyncio.create_task(self._run(target), name=f"collect {collector.name}")

    def remove(self, source: str) -> None:
        """Stop reading a source; unknown names are ignored."""
        target = self._targets.pop(source, None)
        self._bursts.forget(source)
        if target is not None and target.task is not None:
            target.task.cancel()
            self._leaving.add(target.task)
            target.task.add_done_callback(self._leaving.discard)

    async def stop(self) -> None:
        """Stop every source and wait for their tasks."""
        targets, self._targets = list(self._targets.values()), {}
        tasks = [target.task for target in targets if target.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, *self._leaving, return_exceptions=True)

    def sources_of(self, nodes: Iterable[str]) -> list[str]:
        """Sources that told of GPUs on any of these hosts, sorted."""
        wanted = frozenset(nodes)
        return sorted(name for name, target in self._targets.items() if target.nodes & wanted)

    def burst(self, sources: Iterable[str], interval_s: float, for_s: float) -> BurstAnswer:
        """Read some sources more often for a while; at once, and without asking a source that is known to be slower.

        Args:
            sources: names.
            interval_s: seconds between readings, brought into 0.1 to 1.
            for_s: how long, at most 60 s. A source then rests for ten minutes.
        """
        told = {source: self._burst_one(source, interval_s, for_s) for source in sources}
        return BurstAnswer(
            tuple(source for source, why in told.items() if not why),
            {source: why for source, why in told.items() if why},
        )

    def _burst_one(self, source: str, interval_s: float, for_s: float) -> str:
        """Why a source is not read more often; empty when it is."""
        target, at_s = self._targets.get(source), self._clock.monotonic()
        if target is None:
            return "unknown"
        slow = not target.cadence.may_be_faster and (target.cadence.refresh_s or 0.0) > interval_s
        if slow and not self._bursts.rests(source, at_s):
            return "slow_source"
        why = self._bursts.ask(source, interval_s, for_s, at_s)
        if not why and target.resume is not None and not target.resume.done():
            target.resume.set_result(None)
        return why

    def statuses(self) -> list[TargetStatus]:
        """Every source, sorted by name."""
        return [
            TargetStatus(
                source=name,
                up=target.up,
                last_ok_s=target.last_ok_s,
                interval_s=target.interval_s,
                refresh_s=target.cadence.refresh_s,
                clock_offset_s=getattr(target.collector, "clock_offset_s", None),
                samples=target.samples,
                findings=dict(target.findings),
                last_error=target.last_error,
                details=dict(target.details),
            )
            for name, target in sorted(self._targets.items())
        ]

    def topology(self) -> Topology:
        """What the pages read so far tell about the wiring."""
        tellers = [t.collector for t in self._targets.values() if isinstance(t.collector, TellsWiring)]
        capacity: dict[str, float] = {}
        for teller in tellers:
            capacity |= teller.capacity_bytes_per_s
        wiring = [cable for teller in tellers for cable in teller.wiring]
        nics = [nic for teller in tellers for nic in teller.nics]
        return build_topology(wiring, capacity, nics, source="telemetry" if wiring or nics else "")

    async def _run(self, target: _Target) -> None:
        loop = asyncio.get_running_loop()
        try:
            await asyncio.sleep(self._random.uniform(0.0, self.limits.floor_s(len(self._targets))))
            while True:
                started = loop.time()
                await self._read_once(target)
                target.interval_s = self._next_interval_s(target)
                jitter = 1.0 + self._random.uniform(-_JITTER_RATIO, _JITTER_RATIO)
                await _pause(target, max(target.interval_s * jitter - (loop.time() - started), 0.0))
        finally:
            if isinstance(target.collector, ExporterCollector):
                await target.collector.close()

    def _next_interval_s(self, target: _Target) -> float:
        usual_s = target.cadence.next_interval_s(self._clock.now(), len(self._targets))
        burst_s = self._bursts.interval_s(target.collector.name, self._clock.monotonic())
        # A source that fails is left alone as long as ever.
        return usual_s if burst_s is None or not target.up else min(usual_s, burst_s)

    async def _read_once(self, target: _Target) -> None:
        now_s = self._clock.now()
        try:
            batch = await target.collector.collect(Window(now_s - target.lookback_s, now_s))
        except Exception as error:  # one source's bug must not end the others
            target.up, target.last_error = False, f"{type(error).__name__}: {error}"
            target.findings["internal"] += 1
            target.cadence.failed()
            _log.exception("reading %s failed", target.collector.name)
            return
        target.note(batch)
        if not len(batch) and not batch.findings:
            return
        try:
            await self._on_batch(batch)
        except Exception:  # nor does the receiver's trouble end the reading
            target.findings["internal"] += 1
            _log.exception("samples of %s could not be handed on", target.collector.name)


async def _pause(target: _Target, duration_s: float) -> None:
    """Wait, unless a burst begins meanwhile."""
    loop = asyncio.get_running_loop()
    target.resume = loop.create_future()
    timer = loop.call_later(duration_s, _end, target.resume)
    try:
        await target.resume
    finally:
        timer.cancel()
        target.resume = None


def _end(pause: asyncio.Future[None]) -> None:
    if not pause.done():
        pause.set_result(None)
