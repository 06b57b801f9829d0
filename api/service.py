"""The running service: collect, keep, forecast, advise, act as far as allowed, grade. It answers ``Reads``."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from api.accuracy import AccuracyBook
from api.advising import Advising
from api.beside import Beside
from api.board import Board
from api.closer_look import look_closer
from api.collectives import STAMPED, stamped_series
from api.desk import AdviceDesk
from api.forecast_worker import ForecastWorker
from api.intake import Intake
from api.model_keeper import ModelKeeper, ModelsView
from api.outlook import Outlook, Outlooks
from api.push import Push
from api.readiness import device_view, missing_fields, reasons_not_ready
from api.reads import AccuracyRow, AdviceRecord, Health, WiringView
from api.schedulers import records_of, with_records
from api.settings import Settings
from api.sickness import Sickness
from api.topology import Wiring
from collectors.nccl.standing import CommunicatorState
from collectors.scrape import MOST_AHEAD_S
from collectors.status import TargetStatus
from features.ring import Ring
from features.transforms.jobs import job_frame, job_views, link_frame
from forecast.advisor.types import Rule
from forecast.predict.health.types import HealthReport
from forecast.predict.settings import PredictSettings
from forecast.predict.worker import PredictReply, PredictRequest
from telemetry.clock import Clock
from telemetry.errors import ModelError
from telemetry.ids import JobId
from telemetry.roster import JobRecord, Roster
from telemetry.topology import ClusterSnapshot, Topology

log = logging.getLogger("gpucast")

FORGET_JOB_S = 900.0
"""A job whose newest sample arrived longer ago than this is no longer listed."""


class Source(Protocol):
    """What feeds the service: a pool of exporters, or a Prometheus server."""

    async def run(self) -> None:
        """Collect until cancelled."""
        ...

    def status(self) -> list[TargetStatus]:
        """Every target."""
        ...

    def topology(self) -> Topology:
        """What its pages tell of the wiring."""
        ...


class Service(Board):
    """The loop and the state it leaves behind. Build it in ``api.wiring``.

    Args:
        settings: everything the user can set.
        clock: wall and monotonic time.
        ring: hot window in memory.
        intake: takes batches.
        source: feeds the intake.
        worker: process that runs the models.
        desk: keeps advice.
        rules: who proposes advice, by name; the built-in ones when None.
        push: what others send; None when nobody may.
        beside: what is read beside the telemetry; nothing when None.
        trained: folder of the model store; None when trained models are not served.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        clock: Clock,
        ring: Ring,
        intake: Intake,
        source: Source,
        worker: ForecastWorker,
        desk: AdviceDesk,
        rules: Mapping[str, Rule] | None = None,
        push: Push | None = None,
        beside: Beside | None = None,
        trained: Path | None = None,
    ) -> None:
        super().__init__()
        self._settings = settings
        self._clock = clock
        self._ring = ring
        self._intake = intake
        self._source = source
        self._worker = worker
        self._desk = desk
        self._push = push
        self._book = AccuracyBook()
        self._beside = beside or Beside()
        self._wiring = Wiring()
        self._outlooks = Outlooks()
        self._sickness = Sickness()
        self._counters: Counter[str] = Counter()
        self._keeper = ModelKeeper(trained, self._counters) if trained else None
        self._advising = Advising(settings, self, desk, rules, clock, self._counters)
        self._problem = ""
        self._started_s = clock.now()

    async def run(self) -> None:
        """Run until cancelled; then flush and release everything."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._source.run())
                tasks.create_task(self._intake.run())
                tasks.create_task(self._forecast_for_ever())
        finally:
            self._worker.close()
            await self._intake.close()

    def end_worker(self) -> None:
        """End the process that runs the models, from any thread; for a stop that cannot wait for ``run``."""
        self._worker.close()

    async def _forecast_for_ever(self) -> None:
        every_s = self._settings.forecast.every_s
        while True:
            began_s = self._clock.monotonic()
            try:
                await self.forecast_once()
                self._problem = ""
            except ModelError as error:
                self._problem = str(error)
                self._counters["gpucast_forecast_rounds_failed_total"] += 1
            except Exception:
                # The loop outlives any one round: the next may see better data.
                log.exception("a round of forecasts failed")
                self._problem = "the last round of forecasts failed; the log has the details"
                self._counters["gpucast_forecast_rounds_failed_total"] += 1
            await asyncio.sleep(max(0.05, every_s - (self._clock.monotonic() - began_s)))

    async def forecast_once(self) -> None:
        """One round: frames, forecasts, advice, grades."""
        now_s = self._clock.now()
        # What NCCL tells is written in the loop, so it is read here; jobs and hosts are those of the round before.
        request = await asyncio.to_thread(self._request, now_s, self.collectives())
        reply = await self._worker.predict(request)
        self._counters["gpucast_forecast_rounds_total"] += 1
        for kind, count in reply.errors.items():
            self._counters[f'gpucast_model_errors_total{{kind="{kind}"}}'] += count
        for message in reply.messages:
            log.warning(message)
        for gone in self.keep(request, reply):
            self._book.forget(str(gone))
        self._sickness.take(reply.health)
        look_closer(self._source, request, reply, self._counters)
        self._score(request, reply)
        if self._keeper is not None:
            await asyncio.to_thread(self._keeper.after_round, reply.trained, self._book.live(), now_s)
        await asyncio.to_thread(self._outlooks.update, self._beside.rosters(), now_s)
        await self._advising.advise(self.snapshot(), now_s)

    def _request(self, now_s: float, communicators: Sequence[CommunicatorState] = ()) -> PredictRequest:
        chosen = self._settings.forecast
        as_of_s = now_s + self._ahead_s()
        allocations = self._ring.allocations(as_of_s, chosen.window_s)
        records = records_of(self._beside.rosters())
        stamped = stamped_series(communicators, self._ring.keys((STAMPED,))) if communicators else {}
        frames = tuple(
            frame
            for view in with_records(job_views(allocations, as_of_s), records)
            if now_s
            - (
                frame := job_frame(
                    self._ring,
                    view,
                    now_s=as_of_s,
                    window_s=chosen.window_s,
                    collective_keys=stamped.get(view.job, ()),
                )
            ).received_s
            < FORGET_JOB_S
        )
        topology = self._topology({node for frame in frames for node in frame.job.nodes})
        links = link_frame(self._ring, None, self._wiring.lent, now_s=as_of_s, window_s=chosen.window_s)
        return PredictRequest(
            now_s=now_s,
            jobs=frames,
            links=links if links.links else None,
            topology=topology,
            phase_past=dict(self.phase_past),
            health=self._sickness.evidence(
                self._ring, communicators, now_s=now_s, as_of_s=as_of_s, window_s=chosen.window_s
            ),
            settings=PredictSettings(
                horizon_s=chosen.horizon_s,
                max_age_s=chosen.max_age_s,
                threshold_ratio=self._settings.advice.threshold_ratio,
                link_horizon_s=chosen.link_horizon_s,
            ),
        )

    def _ahead_s(self) -> float:
        """How far the fastest source clock runs ahead of ours; its newest samples would else look like the future."""
        offsets = [target.clock_offset_s for target in self._source.status() if target.clock_offset_s is not None]
        return min(max(0.0, -min(offsets, default=0.0)), MOST_AHEAD_S)

    def _score(self, request: PredictRequest, reply: PredictReply) -> None:
        for frame, forecast in zip(request.jobs, reply.jobs, strict=True):
            self._book.settle(frame)
            self._book.note(frame, forecast)
        if request.links is not None:
            self._book.settle_links(request.links)
            for link in reply.links:
                self._book.note_link(link)

    def _topology(self, hosts: Collection[str]) -> Topology:
        """The wiring as read, what pushed series add to it, and what the settings' sources tell."""
        pushed = (self._push.topology(),) if self._push else ()
        return self._wiring.merged((self._source.topology(), *pushed), self._beside.told_topology(), hosts)

    def snapshot(self) -> ClusterSnapshot:
        """The cluster as the last round saw it; the wiring of a large one is not worked out while the loop waits."""
        jobs = tuple(frame.job for frame in self.frames.values())
        return ClusterSnapshot(self._clock.now(), jobs, self._wiring.last)

    # ---- Reads

    def now(self) -> float:
        """Wall time, Unix seconds."""
        return self._clock.now()

    def advice(self) -> list[AdviceRecord]:
        """Every advice kept, newest first."""
        return self._desk.records()

    def advice_by_id(self, advice_id: str) -> AdviceRecord | None:
        """One advice."""
        return self._desk.get(advice_id)

    def decide(self, advice_id: str, verb: str) -> AdviceRecord:
        """Record what a person decided; an approved advice acts in the next round."""
        return self._desk.decide(advice_id, verb, self._clock.now())

    def accuracy(self) -> list[AccuracyRow]:
        """Live accuracy."""
        return self._book.rows()

    def models(self) -> ModelsView:
        """Trained models: champions, challengers, what was done and why."""
        return self._keeper.view if self._keeper is not None else ModelsView()

    def health(self) -> Health:
        """Readiness, sources, own counters."""
        targets = (*self._source.status(), *(self._push.status() if self._push else ()))
        reasons = reasons_not_ready(targets, self._intake.problem, self._problem)
        counters = {
            **self._counters,
            **(self._push.counters() if self._push else {}),
            "gpucast_samples_received_total": float(self._intake.samples_total),
            "gpucast_samples_stored_total": float(self._intake.stored_total),
            "gpucast_samples_dropped_total": float(self._intake.dropped_total),
            "gpucast_samples_refused_total": float(self._intake.refused_total),
            "gpucast_store_failures_total": float(self._intake.failures_total),
            "gpucast_store_files_set_aside_total": float(self._intake.set_aside_total),
            "gpucast_worker_restarts_total": float(self._worker.restarts_total),
        }
        return Health(
            ready=not reasons,
            reasons=tuple(reasons),
            targets=targets,
            missing_fields=missing_fields(list(self.frames.values())),
            counters=counters,
            started_s=self._started_s,
            devices=device_view(self._intake.served, list(self.frames.values())),
        )

    def record(self, job: JobId) -> JobRecord | None:
        """What its scheduler lists of a job."""
        frame = self.frames.get(job)
        return frame.job.record if frame is not None else None

    def rosters(self) -> tuple[Roster, ...]:
        """What each scheduler listed last."""
        return self._beside.rosters()

    def outlooks(self) -> dict[str, Outlook]:
        """What is foreseen of each scheduler's jobs and GPUs."""
        return self._outlooks.latest()

    def sickness(self) -> HealthReport:
        """What is slow and sick, as the last look saw it."""
        return self._sickness.report

    def wiring(self) -> WiringView:
        """The wiring as the last round used it, and how its sources stand."""
        feed = self._beside.topology
        return WiringView(self._wiring.last, feed.book.states(self._clock.now()) if feed else ())

    def collectives(self) -> tuple[CommunicatorState, ...]:
        """Every communicator that NCCL tells of, those in trouble first."""
        if self._beside.collectives is None:
            return ()
        jobs_on: dict[str, set[JobId]] = {}
        for frame in self.frames.values():
            for node in frame.job.nodes:
                jobs_on.setdefault(node, set()).add(frame.job.job)
        return self._beside.collectives.standing(jobs_on, self._clock.now())
