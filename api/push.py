"""What others send: remote write and steps of jobs. Each is taken apart, stored, and only then acknowledged."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from api.intake import Intake, IntakeBusy
from collectors.custom_map import CustomMap
from collectors.ownership import Ownership
from collectors.remote_write.receiver import Message, Received, Receiver
from collectors.status import TargetStatus
from collectors.step_reports import read_reports
from collectors.steps import StepBook, StepsTaken
from collectors.wiring import build_topology
from telemetry.ids import SeriesKey
from telemetry.samples import Problem, SampleBatch
from telemetry.topology import Topology

WRITE_PATH = "/v1/telemetry/write"
STEPS_PATH = "/v1/steps"
SILENT_AFTER_S = 300.0
"""A sender that was not heard for so long counts as down; Prometheus sends every few seconds."""
_ASIDE_BYTES = 128 * 1024
"""Bodies above this are read in a thread, so that a large one does not hold up the loop."""
_KEPT_DETAILS = 12
MAX_INSIDE = 32
"""Requests under way at once; each holds its body in memory."""


@dataclass(slots=True)
class Door:
    """One way in, as ``doctor`` shows it.

    Args:
        path: its route.
        requests: taken since the start.
        last_ok_s: when the last usable one came; None when none did.
        samples: in the last one.
        interval_s: usual time between two.
        findings: what was wrong, counted.
        details: problem -> the newest sentence about it.
        last_error: why the last request could not be used; empty when it could.
    """

    path: str
    requests: int = 0
    last_ok_s: float | None = None
    samples: int = 0
    interval_s: float | None = None
    findings: Counter[str] = field(default_factory=Counter)
    details: dict[str, str] = field(default_factory=dict)
    last_error: str = ""

    def opened(self, now_s: float, samples: int) -> None:
        """A request gave samples."""
        if self.last_ok_s is not None:
            gap_s = max(now_s - self.last_ok_s, 0.0)
            self.interval_s = gap_s if self.interval_s is None else 0.9 * self.interval_s + 0.1 * gap_s
        self.requests += 1
        self.last_ok_s, self.samples, self.last_error = now_s, samples, ""

    def note(self, problem: Problem, detail: str, count: int = 1) -> None:
        """Something was wrong with a request."""
        if count:
            self.findings[problem.value] += count
            self.details[problem.value] = detail
            while len(self.details) > _KEPT_DETAILS:
                del self.details[next(iter(self.details))]

    def refused(self, problem: Problem, detail: str) -> None:
        """A whole request could not be used."""
        self.note(problem, detail)
        self.last_error = detail

    def health(self, now_s: float) -> TargetStatus:
        """As one source among the others."""
        silent_s = now_s - self.last_ok_s if self.last_ok_s is not None else None
        up = silent_s is not None and silent_s <= SILENT_AFTER_S
        error = self.last_error or ("" if up or silent_s is None else f"nothing was sent for {silent_s:.0f} s")
        return TargetStatus(
            source=self.path,
            up=up,
            last_ok_s=self.last_ok_s,
            interval_s=self.interval_s or 0.0,
            refresh_s=None,
            clock_offset_s=None,
            samples=self.samples,
            findings=dict(self.findings),
            last_error=error,
            details=dict(self.details),
        )


class Push:
    """Both doors.

    Args:
        intake: where samples go.
        now: wall clock.
        ownership: where the labels' word on owners meets a scheduler's; None where there is no scheduler.
        custom: the site's own metrics.
    """

    def __init__(
        self,
        intake: Intake,
        now: Callable[[], float],
        ownership: Ownership | None = None,
        custom: CustomMap | None = None,
    ) -> None:
        self._intake = intake
        self._now = now
        self._ownership = ownership
        self._inside = 0
        self._receiver = Receiver(WRITE_PATH, custom=custom)
        self._reading = asyncio.Lock()
        self._book = StepBook()
        self._storing: set[asyncio.Future[Counter[SeriesKey]]] = set()
        self._doors = {WRITE_PATH: Door(WRITE_PATH), STEPS_PATH: Door(STEPS_PATH)}
        self._counters: Counter[str] = Counter()

    async def write(self, body: bytes, message: Message) -> Received:
        """Take a remote write request; comes back once its samples are on disk.

        Raises:
            SchemaError: it is no such message.
            IntakeBusy: too much waits for the store already.
            StoreError: the store refused.
        """
        door, now_s = self._doors[WRITE_PATH], self._now()
        try:
            async with self._reading:
                if len(body) > _ASIDE_BYTES:
                    received = await asyncio.to_thread(self._receiver.take, body, message, now_s)
                else:
                    received = self._receiver.take(body, message, now_s)
            if received.batches and (left_out := await self._intake.keep(self._settled(received.batches))):
                received = received.without(left_out)
        except Exception as error:
            door.refused(Problem.HTTP_STATUS, str(error))
            raise
        self._count_write(door, received, now_s)
        return received

    @contextmanager
    def admitted(self) -> Iterator[None]:
        """Room for one more request, asked for before its body is read.

        Raises:
            IntakeBusy: as many are under way as may.
        """
        if self._inside >= MAX_INSIDE:
            raise IntakeBusy(f"{self._inside} requests are being taken in", mend="Send again in a second")
        self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1

    def _settled(self, batches: Sequence[SampleBatch]) -> Sequence[SampleBatch]:
        """The batches with what their labels may say beside a scheduler's list."""
        if self._ownership is None:
            return batches
        self._ownership.index.learn(self._receiver.take_indices())
        return [self._ownership.settle(batch) for batch in batches]

    def _count_write(self, door: Door, received: Received, now_s: float) -> None:
        if received.taken or not received.samples:
            door.opened(now_s, received.taken)
        for finding in received.findings:
            door.note(finding.problem, finding.detail, finding.count)
        faults = list(received.faults)
        if received.over_limit:
            beyond = faults.pop()
            door.note(Problem.PARTIAL, beyond, received.over_limit)
        for fault in faults:
            door.note(Problem.MALFORMED_LINE, fault, max(1, received.invalid // len(faults)))
        door.note(Problem.UNKNOWN_METRIC, "series outside the catalogue are left out", received.unknown)
        for name, count in (
            ("requests", 1),
            ("samples", received.taken),
            ("unknown_samples", received.unknown),
            ("invalid_samples", received.invalid),
            ("over_limit_samples", received.over_limit),
            ("stale_markers", received.ended),
            ("histograms_not_kept", received.histograms),
            ("exemplars_not_kept", received.exemplars),
        ):
            self._counters[f"gpucast_remote_write_{name}_total"] += count

    async def steps(self, body: bytes) -> StepsTaken:
        """Take reports of steps; comes back once they are on disk.

        Raises:
            SchemaError: no report can be read.
            IntakeBusy: too much waits for the store already.
            StoreError: the store refused.
        """
        door, now_s = self._doors[STEPS_PATH], self._now()
        try:
            taken = self._book.take(*read_reports(body, now_s), now_s)
            if left_out := await self._stored(taken):
                taken = replace(taken, faults=(*taken.faults, _beyond(left_out)))
        except Exception as error:
            door.refused(Problem.HTTP_STATUS, str(error))
            raise
        if taken.accepted or taken.duplicates:
            door.opened(now_s, sum(len(batch) for batch in taken.batches))
        for fault in taken.faults:
            door.note(Problem.MALFORMED_LINE, fault)
        for name, count in (
            ("accepted", taken.accepted),
            ("duplicates", taken.duplicates),
            ("rejected", taken.rejected),
        ):
            self._counters[f"gpucast_steps_{name}_total"] += count
        return taken

    async def _stored(self, taken: StepsTaken) -> Counter[SeriesKey]:
        """Come back once what is new is on disk, and what is known already as well; what the store left out."""
        known: list[asyncio.Future[Counter[SeriesKey]]] = list(self._storing) if taken.duplicates else []
        if taken.batches:
            storing = asyncio.ensure_future(self._intake.keep(taken.batches))
            self._storing.add(storing)
            storing.add_done_callback(partial(self._settle, taken))
            known.append(storing)
        left_out: Counter[SeriesKey] = Counter()
        for one in known:
            left_out = await asyncio.shield(one)
        return left_out if taken.batches else Counter()

    def _settle(self, taken: StepsTaken, storing: asyncio.Future[Counter[SeriesKey]]) -> None:
        self._storing.discard(storing)
        if storing.cancelled() or storing.exception() is not None:
            self._book.forget(taken.news)

    def status(self) -> list[TargetStatus]:
        """The doors that somebody knocked at."""
        now_s = self._now()
        return [door.health(now_s) for door in self._doors.values() if door.last_ok_s is not None or door.findings]

    def topology(self) -> Topology:
        """What pushed series tell of the wiring."""
        known = self._receiver
        if not known.wiring and not known.nics:
            return Topology()
        return build_topology(known.wiring, known.capacity_bytes_per_s, known.nics, source="remote write")

    def counters(self) -> dict[str, float]:
        """Own counters, for ``/metrics``."""
        return {name: float(count) for name, count in self._counters.items()}


def _beyond(left_out: Counter[SeriesKey]) -> str:
    """Why some of a job's numbers are not on disk."""
    metrics = sorted({key.metric for key in left_out})
    return f"the store has as many series as it may (store.max_series); {', '.join(metrics)} are not kept on disk"
