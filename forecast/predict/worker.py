"""Frames in, forecasts out, in one call: what runs in the process that holds the models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from features.frame import JobFrame, LinkFrame
from forecast.predict.health.review import review
from forecast.predict.health.types import Evidence, HealthReport
from forecast.predict.jobs import absent_job, forecast_job
from forecast.predict.links import absent_links, forecast_links
from forecast.predict.phases import phase_timeline
from forecast.predict.phases_ahead import next_phases
from forecast.predict.phases_past import PhasePast, grown
from forecast.predict.room_models import RoomModels, default_models
from forecast.predict.settings import PredictSettings
from forecast.predict.stamped import foldable
from forecast.predict.traffic import JobFabric, fabric_on_grid
from forecast.predict.types import Absence, JobForecast, LinkForecast, Period, PhaseName, Why
from telemetry.ids import JobId
from telemetry.topology import Topology


@dataclass(frozen=True, slots=True, eq=False)
class PredictRequest:
    """Everything a round of forecasts needs; plain data that can cross a process border.

    Args:
        now_s: this machine's wall time.
        jobs: one frame per job.
        links: all links, None where no port is collected.
        topology: what is known of the wiring.
        job_fabric: what each job sent by leaf switch, on the links' grid; a job left out is taken from its frame.
        settings: horizons and limits.
        phase_past: what is remembered of each job's phases from before the window.
        health: what the signs of sickness look at, without the jobs' frames, which are those above; None when this
            round does not look.
    """

    now_s: float
    jobs: tuple[JobFrame, ...] = ()
    links: LinkFrame | None = None
    topology: Topology = field(default_factory=Topology)
    job_fabric: Mapping[JobId, JobFabric] = field(default_factory=dict)
    settings: PredictSettings = field(default_factory=PredictSettings)
    phase_past: Mapping[JobId, PhasePast] = field(default_factory=dict)
    health: Evidence | None = None


@dataclass(frozen=True, slots=True)
class TrainedState:
    """How a trained model stands in the process that forecasts.

    Args:
        name: of the model.
        version: that serves; empty when the built-in models do.
        fault: why it may serve no longer; empty while nothing is wrong.
        refused: why the champion that the store names is not loaded; empty when it is.
    """

    name: str
    version: str
    fault: str = ""
    refused: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class PredictReply:
    """One round of forecasts.

    Args:
        jobs: one forecast per frame, in the request's order.
        links: one per link.
        phases: past phases per job as (start_s, end_s, phase), oldest first.
        errors: ``job`` or ``links`` -> how many failed inside a model; each is also an absence above.
        messages: what failed, in sentences.
        trained: trained models that serve or were refused.
        phase_past: what is to be remembered of each job's phases for the next round.
        health: what is slow and sick; None when this round did not look.
    """

    jobs: tuple[JobForecast, ...] = ()
    links: tuple[LinkForecast, ...] = ()
    phases: dict[JobId, list[tuple[float, float, PhaseName]]] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    messages: tuple[str, ...] = ()
    trained: tuple[TrainedState, ...] = ()
    phase_past: dict[JobId, PhasePast] = field(default_factory=dict)
    health: HealthReport | None = None


def predict(request: PredictRequest, models: RoomModels | None = None) -> PredictReply:
    """Forecast every job and every link; one that fails becomes a reasoned absence and the others go on."""
    models = models or default_models()
    errors: dict[str, int] = {}
    messages: list[str] = []
    jobs: list[JobForecast] = []
    phases: dict[JobId, list[tuple[float, float, PhaseName]]] = {}
    phase_past: dict[JobId, PhasePast] = {}
    for frame in request.jobs:
        try:
            forecast = forecast_job(frame, now_s=request.now_s, settings=request.settings, models=models)
            timeline = phase_timeline(frame, foldable(forecast.period, frame.totals.step_s))
            past = grown(request.phase_past.get(frame.job.job, {}), timeline, frame.totals.step_s)
            phases[frame.job.job], phase_past[frame.job.job] = timeline, past
            source_now_s = frame.data_at_s + forecast.age_s
            forecast = replace(forecast, next_phases=next_phases(frame, forecast.phase, past, source_now_s))
        except Exception as error:  # any model may fail in any way; one job must not silence the others
            absence = _failed(f"forecast of {frame.job.job}", error, "job", errors, messages)
            forecast = absent_job(frame, request.now_s, absence)
        jobs.append(forecast)
    links = _links(request, jobs, models, errors, messages)
    health = _health(request, jobs, errors, messages)
    return PredictReply(tuple(jobs), links, phases, errors, tuple(messages), phase_past=phase_past, health=health)


def _health(
    request: PredictRequest, jobs: list[JobForecast], errors: dict[str, int], messages: list[str]
) -> HealthReport | None:
    if request.health is None:
        return None
    periods = {job.job: job.period.period_s for job in jobs if isinstance(job.period, Period)}
    try:
        report = review(replace(request.health, jobs=request.jobs), periods)
    except Exception as error:  # as below: the forecasts are still good
        _failed("look for what is slow and sick", error, "health", errors, messages)
        return None
    for sentence in report.failed.values():
        errors["health"] = errors.get("health", 0) + 1
        messages.append(sentence)
    return report


def _links(
    request: PredictRequest,
    jobs: list[JobForecast],
    models: RoomModels,
    errors: dict[str, int],
    messages: list[str],
) -> tuple[LinkForecast, ...]:
    frame = request.links
    if frame is None:
        return ()
    try:
        fabric = dict(request.job_fabric)
        for job in request.jobs:
            if job.job.job not in fabric:
                own = fabric_on_grid(job, frame)
                if own:
                    fabric[job.job.job] = own
        return tuple(
            forecast_links(
                frame, jobs, fabric, request.topology, now_s=request.now_s, settings=request.settings, models=models
            )
        )
    except Exception as error:  # as above: the jobs' forecasts are still good
        absence = _failed("forecast of the links", error, "links", errors, messages)
        return tuple(absent_links(frame, request.topology, request.now_s, request.settings, absence))


def _failed(what: str, error: Exception, kind: str, errors: dict[str, int], messages: list[str]) -> Absence:
    errors[kind] = errors.get(kind, 0) + 1
    sentence = f"the {what} failed inside a model: {type(error).__name__}: {error}"
    messages.append(sentence)
    return Absence(Why.MODEL_ERROR, sentence)
