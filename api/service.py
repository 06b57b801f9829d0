"""The running service: collect, keep, forecast, advise, act as far as allowed, grade. It answers ``Reads``."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from api.accuracy import AccuracyBook
from api.desk import AdviceDesk
from api.forecast_worker import ForecastWorker
from api.intake import Intake
from api.push import Push
from api.reads import AccuracyRow, AdviceRecord, Health, History
from api.settings import Settings
from collectors.burst import BurstAnswer
from collectors.counters_file import cost_of
from collectors.scrape import MOST_AHEAD_S
from collectors.status import TargetStatus
from collectors.topology.merge import merge
from features.frame import JobFrame, LinkFrame
from features.ring import Ring
from features.transforms.jobs import job_frame, job_views, link_frame
from forecast.advisor.advise import advise_round
from forecast.advisor.grade import grade
from forecast.advisor.types import Advice, Forecasts, Grade, Limits, Rule
from forecast.predict.settings import PredictSettings
from forecast.predict.types import Absence, JobForecast, LinkForecast, Why
from forecast.predict.worker import PredictReply, PredictRequest
from telemetry.catalogue import BY_NAME
from telemetry.clock import Clock
from telemetry.errors import ModelError
from telemetry.ids import JobId, LinkId
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


@runtime_checkable
class CanBurst(Protocol):
    """A source that can be read more closely for a while."""

    def burst(self, nodes: Iterable[str]) -> BurstAnswer:
        """Read what tells of these hosts as often as is worth while, for a minute."""
        ...


class Service:
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
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._ring = ring
        self._intake = intake
        self._source = source
        self._worker = worker
        self._desk = desk
        self._rules = rules
        self._push = push
        self._rules_failing: Mapping[str, str] = {}
        self._book = AccuracyBook()
        self._frames: dict[JobId, JobFrame] = {}
        self._link_frame: LinkFrame | None = None
        self._reply = PredictReply()
        self._jobs: dict[JobId, JobForecast] = {}
        self._links: dict[str, LinkForecast] = {}
        self._counters: Counter[str] = Counter()
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
        request = await asyncio.to_thread(self._request, now_s)
        reply = await self._worker.predict(request)
        self._counters["gpucast_forecast_rounds_total"] += 1
        for kind, count in reply.errors.items():
            self._counters[f'gpucast_model_errors_total{{kind="{kind}"}}'] += count
        for message in reply.messages:
            log.warning(message)
        self._keep(request, reply)
        self._look_closer(request, reply)
        self._score(request, reply)
        await self._advise(now_s)

    def _request(self, now_s: float) -> PredictRequest:
        chosen = self._settings.forecast
        as_of_s = now_s + self._ahead_s()
        allocations = self._ring.allocations(as_of_s, chosen.window_s)
        frames = tuple(
            frame
            for view in job_views(allocations, as_of_s)
            if now_s - (frame := job_frame(self._ring, view, now_s=as_of_s, window_s=chosen.window_s)).received_s
            < FORGET_JOB_S
        )
        links = link_frame(self._ring, now_s=as_of_s, window_s=chosen.window_s)
        return PredictRequest(
            now_s=now_s,
            jobs=frames,
            links=links if links.links else None,
            topology=self._topology(),
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

    def _keep(self, request: PredictRequest, reply: PredictReply) -> None:
        self._frames = {frame.job.job: frame for frame in request.jobs}
        self._link_frame = request.links
        self._reply = reply
        for gone in set(self._jobs) - set(self._frames):
            self._book.forget(str(gone))
        self._jobs = {forecast.job: forecast for forecast in reply.jobs}
        self._links = {str(forecast.link): forecast for forecast in reply.links}

    def _look_closer(self, request: PredictRequest, reply: PredictReply) -> None:
        """Where a period cannot be resolved, have the job's sources read more often for a while."""
        if not isinstance(self._source, CanBurst):
            return
        coarse = {
            node
            for frame, forecast in zip(request.jobs, reply.jobs, strict=True)
            if isinstance(forecast.period, Absence) and forecast.period.why is Why.SAMPLING_TOO_COARSE
            for node in frame.job.nodes
        }
        if not coarse:
            return
        answer = self._source.burst(sorted(coarse))
        self._counters["gpucast_bursts_total"] += len(answer.granted)
        for why, count in answer.reasons.items():
            self._counters[f'gpucast_bursts_refused_total{{why="{why}"}}'] += count
        if answer.granted:
            log.info("%d sources are read more closely for a while to resolve periods", len(answer.granted))

    def _score(self, request: PredictRequest, reply: PredictReply) -> None:
        for frame, forecast in zip(request.jobs, reply.jobs, strict=True):
            self._book.settle(frame)
            self._book.note(frame, forecast)
        if request.links is not None:
            self._book.settle_links(request.links)
            for link in reply.links:
                self._book.note_link(link)

    def _topology(self) -> Topology:
        """The wiring as read, and what pushed series add to it."""
        read = self._source.topology()
        pushed = self._push.topology() if self._push else Topology()
        return merge([read, pushed]) if pushed.links else read

    def snapshot(self) -> ClusterSnapshot:
        """The cluster as the telemetry shows it."""
        return ClusterSnapshot(self._clock.now(), tuple(frame.job for frame in self._frames.values()), self._topology())

    async def _advise(self, now_s: float) -> None:
        chosen = self._settings.advice
        limits = Limits(
            threshold_ratio=chosen.threshold_ratio,
            min_probability=chosen.min_probability,
            min_skill=chosen.min_skill,
            max_age_s=self._settings.forecast.max_age_s,
        )
        forecasts = Forecasts(dict(self._jobs), {forecast.link: forecast for forecast in self._links.values()})
        snapshot = self.snapshot()
        standing, applied = self._desk.standing(), self._desk.applied()
        told = advise_round(snapshot, forecasts, limits, rules=self._rules, standing=standing, applied=applied)
        self._count_failing(told.errors)
        self._desk.offer(told.advice, snapshot)
        for record in self._desk.due():
            # Backends may block on a network; the loop must not.
            await asyncio.to_thread(self._desk.apply, record.advice.id, self._clock.now())
        self._desk.settle(now_s, self._grade)

    def _count_failing(self, errors: Mapping[str, str]) -> None:
        """Count rules that failed; each is logged when its trouble begins or changes."""
        for rule, sentence in errors.items():
            self._counters[f'gpucast_rule_errors_total{{rule="{_label(rule)}"}}'] += 1
            if self._rules_failing.get(rule) != sentence:
                log.warning(sentence)
        self._rules_failing = errors

    def _grade(self, advice: Advice, from_s: float) -> Grade | None:
        if self._link_frame is None or advice.link is None:
            return None
        history = self._use_of(str(advice.link), self._settings.forecast.window_s)
        if history is None:
            return None
        return grade(
            advice,
            history.at_s,
            history.value,
            threshold_ratio=self._settings.advice.threshold_ratio,
            applied_at_s=from_s,
            now_s=self._link_frame.data_at_s,
        )

    # ---- Reads

    def now(self) -> float:
        """Wall time, Unix seconds."""
        return self._clock.now()

    def jobs(self) -> list[JobForecast]:
        """Newest forecast of every job, sorted by id."""
        return [self._jobs[job] for job in sorted(self._jobs)]

    def job(self, job: JobId) -> JobForecast | None:
        """Newest forecast of one job."""
        return self._jobs.get(job)

    def job_history(self, job: JobId, metric: str, window_s: float) -> History | None:
        """Actual values of a job's metric."""
        frame = self._frames.get(job)
        if frame is None or metric not in frame.totals.metric:
            return None
        totals = frame.totals
        n = min(totals.n_points, int(window_s / totals.step_s) + 1)
        at_s = frame.data_at_s - totals.step_s * np.arange(n - 1, -1, -1, dtype=np.float64)
        entry = BY_NAME.get(metric)
        unit = entry.unit if entry is not None else ""
        return History(metric, unit, at_s, totals.values[totals.metric.index(metric), totals.n_points - n :])

    def phases(self, job: JobId) -> list[tuple[float, float, str]]:
        """Past phases as (start_s, end_s, name)."""
        return [(start, end, str(phase)) for start, end, phase in self._reply.phases.get(job, [])]

    def links(self) -> list[LinkForecast]:
        """Newest forecast of every link, highest probability first."""

        def key(forecast: LinkForecast) -> tuple[float, float, str]:
            chance = forecast.probability if isinstance(forecast.probability, float) else -1.0
            return (-chance, -(forecast.use_ratio or 0.0), str(forecast.link))

        return sorted(self._links.values(), key=key)

    def link(self, link: LinkId) -> LinkForecast | None:
        """Newest forecast of one link."""
        return self._links.get(str(link))

    def link_history(self, link: LinkId, window_s: float) -> History | None:
        """Use ratio of a link."""
        return self._use_of(str(link), window_s)

    def _use_of(self, name: str, window_s: float) -> History | None:
        frame = self._link_frame
        if frame is None or name not in frame.links:
            return None
        row = frame.links.index(name)
        n = min(frame.tx.n_points, int(window_s / frame.tx.step_s) + 1)
        at_s = frame.data_at_s - frame.tx.step_s * np.arange(n - 1, -1, -1, dtype=np.float64)
        first = frame.tx.n_points - n
        use = np.fmax(frame.tx.values[row, first:], frame.rx.values[row, first:]) / frame.capacity_bytes_per_s[row]
        return History("link_use_ratio", "ratio", at_s, use)

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

    def health(self) -> Health:
        """Readiness, sources, own counters."""
        targets = (*self._source.status(), *(self._push.status() if self._push else ()))
        reasons = self._reasons(targets)
        counters = {
            **self._counters,
            **(self._push.counters() if self._push else {}),
            "gpucast_samples_received_total": float(self._intake.samples_total),
            "gpucast_samples_stored_total": float(self._intake.stored_total),
            "gpucast_samples_dropped_total": float(self._intake.dropped_total),
            "gpucast_samples_refused_total": float(self._intake.refused_total),
            "gpucast_store_failures_total": float(self._intake.failures_total),
            "gpucast_worker_restarts_total": float(self._worker.restarts_total),
        }
        return Health(
            ready=not reasons,
            reasons=tuple(reasons),
            targets=targets,
            missing_fields=_missing_fields(list(self._frames.values())),
            counters=counters,
            started_s=self._started_s,
        )

    def _reasons(self, targets: Sequence[TargetStatus]) -> list[str]:
        reasons = []
        if self._intake.problem:
            reasons.append(f"samples cannot be stored: {self._intake.problem}")
        if not any(target.up for target in targets):
            down = next((target.last_error for target in targets if target.last_error), "none has answered yet")
            reasons.append(f"none of {len(targets)} sources gives samples: {down}")
        if self._problem:
            reasons.append(self._problem)
        return reasons


def _missing_fields(frames: Sequence[JobFrame]) -> dict[str, str]:
    """Metric -> why no job has it, or which devices' readings of it stand still, and what that costs."""
    present = {metric for frame in frames for metric in frame.totals.metric}
    told = {name: why for frame in frames for name, why in frame.missing.items() if name not in present}
    proofs = {name: proof for frame in frames for name, proof in frame.frozen.items()}
    for name, proof in proofs.items():
        told[name] = f"{told[name]}: {proof}" if name in told else f"readings that stand still are left out: {proof}"
    return {name: f"{why}; {cost}" if (cost := cost_of(name)) else why for name, why in told.items()}


def _label(text: str) -> str:
    """A label's value as Prometheus text."""
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
