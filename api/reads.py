"""What the HTTP routes, the command line and the page may ask of the running service."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from api.model_keeper import ModelsView
from api.outlook import Outlook
from collectors.nccl.standing import CommunicatorState
from collectors.served import Twice
from collectors.status import TargetStatus
from collectors.topology.keeper import SourceState
from forecast.advisor.types import Advice, Grade, Mode
from forecast.backends.base import Plan, Receipt
from forecast.predict.health.types import HealthReport
from forecast.predict.types import JobForecast, LinkForecast
from telemetry.ids import JobId, LinkId
from telemetry.roster import JobRecord, Roster
from telemetry.topology import Topology


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """Actual values on a grid, for plots.

    Args:
        metric: catalogue name.
        unit: in words.
        at_s: (n,) Unix seconds.
        value: (n,) NaN where missing.
    """

    metric: str
    unit: str
    at_s: NDArray[np.float64]
    value: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class AdviceRecord:
    """An advice and what became of it.

    Args:
        advice: the advice.
        mode: how far its kind may go.
        status: ``open``, ``approved``, ``applied``, ``graded``, ``expired``, ``rejected`` or ``failed``.
        plan: what the backend would do; None for a hold.
        receipt: what was done; None when nothing was.
        grade: how it turned out; None until known.
    """

    advice: Advice
    mode: Mode
    status: str
    plan: Plan | None = None
    receipt: Receipt | None = None
    grade: Grade | None = None


@dataclass(frozen=True, slots=True)
class AccuracyRow:
    """How served forecasts did once the truth was in.

    Args:
        subject: text form of a JobId or LinkId.
        metric: catalogue name, or ``congestion``.
        model: which model was served.
        model_version: of that model.
        skill: 1 - WQL / WQL of persistence (Brier for congestion).
        coverage80: share of truths inside the 80 % interval; None for congestion.
        coverage95: share inside the 95 % interval; None for congestion.
        scored: how many (forecast, step) pairs.
    """

    subject: str
    metric: str
    model: str
    model_version: str
    skill: float
    coverage80: float | None
    coverage95: float | None
    scored: int


@dataclass(frozen=True, slots=True)
class DeviceView:
    """The GPUs that sources serve, and those that something is wrong with; of each kind the first hundred are named.

    Args:
        total: GPUs and slices.
        without_job_total: of those, how many belong to no job that is known.
        without_job: ``node:device`` of some.
        without_node: ``node:device`` of those whose host no source names.
        twice_total: GPUs that more than one source serves.
        twice: some of them.
        nodes_of: source -> hosts whose GPUs it serves.
    """

    total: int = 0
    without_job_total: int = 0
    without_job: tuple[str, ...] = ()
    without_node: tuple[str, ...] = ()
    twice_total: int = 0
    twice: tuple[Twice, ...] = ()
    nodes_of: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Health:
    """Whether the service can serve, and why not.

    Args:
        ready: False until samples arrive and the store can be written.
        reasons: sentences; empty when ready.
        targets: every source.
        missing_fields: catalogue metric -> what its absence costs, in a sentence.
        counters: own counters by Prometheus name (with labels in the name), for /metrics.
        started_s: wall time.
        devices: the GPUs that sources serve.
    """

    ready: bool
    reasons: tuple[str, ...]
    targets: tuple[TargetStatus, ...]
    missing_fields: dict[str, str]
    counters: dict[str, float]
    started_s: float
    devices: DeviceView = DeviceView()


@dataclass(frozen=True, slots=True)
class WiringView:
    """The wiring as it is used, and how its sources stand.

    Args:
        topology: what telemetry measures and what the sources tell, as one.
        sources: those of the settings, the most trusted first.
    """

    topology: Topology
    sources: tuple[SourceState, ...] = ()


class Reads(Protocol):
    """The running service, read only. Every call answers at once from memory."""

    def now(self) -> float:
        """Wall time, Unix seconds."""
        ...

    def jobs(self) -> list[JobForecast]:
        """Newest forecast of every job, sorted by id."""
        ...

    def job(self, job: JobId) -> JobForecast | None:
        """Newest forecast of one job; None when the job is unknown."""
        ...

    def job_history(self, job: JobId, metric: str, window_s: float) -> History | None:
        """Actual values of a job's metric over the last ``window_s``; None when unknown."""
        ...

    def phases(self, job: JobId) -> list[tuple[float, float, str]]:
        """Past phases as (start_s, end_s, name), oldest first."""
        ...

    def links(self) -> list[LinkForecast]:
        """Newest forecast of every link, highest probability first."""
        ...

    def link(self, link: LinkId) -> LinkForecast | None:
        """Newest forecast of one link; None when unknown."""
        ...

    def link_history(self, link: LinkId, window_s: float) -> History | None:
        """Use ratio of a link over the last ``window_s``; None when unknown."""
        ...

    def advice(self) -> list[AdviceRecord]:
        """Every advice kept, newest first."""
        ...

    def advice_by_id(self, advice_id: str) -> AdviceRecord | None:
        """One advice; None when unknown."""
        ...

    def decide(self, advice_id: str, verb: str) -> AdviceRecord:
        """Carry out ``approve``, ``reject`` or ``rollback``.

        Raises:
            AdviceError: unknown id, or the verb does not fit its status or mode.
        """
        ...

    def accuracy(self) -> list[AccuracyRow]:
        """Live accuracy, by subject and metric."""
        ...

    def models(self) -> ModelsView:
        """Trained models: champions, challengers, what was done and why."""
        ...

    def health(self) -> Health:
        """Readiness, sources, own counters."""
        ...

    def record(self, job: JobId) -> JobRecord | None:
        """What its scheduler lists of a job; None where no scheduler that knows it is read."""
        ...

    def rosters(self) -> tuple[Roster, ...]:
        """What each scheduler listed last; empty where none is read, or none has answered yet."""
        ...

    def outlooks(self) -> dict[str, Outlook]:
        """Scheduler -> what is foreseen of its jobs and GPUs; empty until its first list was taken in."""
        ...

    def sickness(self) -> HealthReport:
        """What is slow and sick, with the evidence; empty until the first look."""
        ...

    def wiring(self) -> WiringView:
        """Hosts, switches, domains and links with conflicts and unknowns."""
        ...

    def collectives(self) -> tuple[CommunicatorState, ...]:
        """Every communicator that NCCL tells of, those in trouble first."""
        ...
