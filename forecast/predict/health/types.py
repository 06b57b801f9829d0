"""What a finding of sickness is, and what the signs may look at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from features.frame import JobFrame
from features.store.base import Series
from features.transforms.health import HealthFrame
from telemetry.ids import JobId


class Severity(StrEnum):
    """How much a finding matters."""

    INFO = "info"
    """Worth knowing; nothing is lost yet."""
    WARNING = "warning"
    """Work is slower or at risk."""
    CRITICAL = "critical"
    """Work is lost, or will be."""


class Thing(StrEnum):
    """What can be sick."""

    GPU = "gpu"
    NODE = "node"
    JOB = "job"
    RANK = "rank"
    LINK = "link"
    COMMUNICATOR = "communicator"


@dataclass(frozen=True, slots=True)
class HealthFinding:
    """One sign of sickness on one thing.

    Args:
        kind: which sign, as the registry names it.
        thing: what kind of thing.
        entity: text form of its id.
        severity: how much it matters.
        score: strength of the evidence, 0..1.
        since_s: when it began, as far as is known, Unix seconds of the source's clock.
        evidence: a sentence with the numbers.
        to_do: what a person should do, as a sentence.
        sources: catalogue metrics or reports that it rests on.
        detail: tells apart several findings of one kind on one entity, such as ``79`` of an XID.
        node: host; empty where several or none.
        jobs: who suffers.
        numbers: the figures of the evidence by name; all finite.
        lasts: True when it stays true until a reset, so that it is kept after its samples have left the window.
    """

    kind: str
    thing: Thing
    entity: str
    severity: Severity
    score: float
    since_s: float
    evidence: str
    to_do: str
    sources: tuple[str, ...]
    detail: str = ""
    node: str = ""
    jobs: tuple[JobId, ...] = ()
    numbers: Mapping[str, float] = field(default_factory=dict)
    lasts: bool = False

    @property
    def key(self) -> tuple[str, str, str, str]:
        """The same over rounds for the same trouble."""
        return self.kind, str(self.thing), self.entity, self.detail


@dataclass(frozen=True, slots=True)
class Unjudged:
    """A sign that could not be looked for.

    Args:
        kind: which sign.
        scope: a job's id, or empty for everything that is collected.
        missing: catalogue metrics that would be needed; any one set of them is enough.
        reason: a sentence.
    """

    kind: str
    scope: str
    missing: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class HealthScore:
    """How well a thing is.

    Args:
        thing: gpu, node or job.
        entity: its id.
        score: 1 is no finding at all; 0 is as sick as can be.
        because: evidence of the findings behind it, worst first.
    """

    thing: Thing
    entity: str
    score: float
    because: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CommunicatorPeers:
    """Size and owner of a communicator.

    Args:
        rank_count: ranks; 0 when unknown.
        job: whose; None when unknown.
        hosts: where its ranks run.
    """

    rank_count: int = 0
    job: JobId | None = None
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class HealthMemory:
    """What a round hands to the next.

    Args:
        findings: of the last round.
        periods: job -> (time, period) readings of its tracked period, oldest first; bounded.
    """

    findings: tuple[HealthFinding, ...] = ()
    periods: Mapping[JobId, tuple[tuple[float, float], ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """Everything that a sign may look at.

    Args:
        frame: counters, codes, flags, clocks, heat, per-rank steps, bandwidths.
        jobs: frames of the jobs.
        communicators: ``name:hash`` -> size and owner.
        memory: what earlier rounds knew.
    """

    frame: HealthFrame = field(default_factory=HealthFrame)
    jobs: tuple[JobFrame, ...] = ()
    communicators: Mapping[str, CommunicatorPeers] = field(default_factory=dict)
    memory: HealthMemory = field(default_factory=HealthMemory)

    def series(self, metric: str) -> tuple[Series, ...]:
        """Series of a metric with at least one reading; empty where nothing moved or nothing is read."""
        return tuple(one for one in self.frame.series.get(metric, ()) if one.at_s.size)

    def job_of_gpu(self) -> dict[str, JobId]:
        """Card -> the job that has it; a shared card has the first."""
        owner: dict[str, JobId] = {}
        for frame in self.jobs:
            for gpu in frame.job.gpus:
                owner.setdefault(str(gpu.card), frame.job.job)
        return owner

    def jobs_of_node(self) -> dict[str, tuple[JobId, ...]]:
        """Host -> jobs on it."""
        found: dict[str, tuple[JobId, ...]] = {}
        for frame in self.jobs:
            for node in frame.job.nodes:
                found[node] = (*found.get(node, ()), frame.job.job)
        return found


@dataclass(frozen=True, slots=True)
class Sign:
    """A sign seam: pure and deterministic; nothing in, nothing out.

    Args:
        needs: sets of catalogue metrics (or ``steps``, ``period``, ``frame``); one complete set is enough to look.
        find: looks.
        per_job: True when it is looked for in each job by itself.
        too_little: why a job whose metrics are read cannot be judged yet, in a sentence; empty when it can.
    """

    needs: tuple[tuple[str, ...], ...]
    find: Callable[[Evidence], list[HealthFinding]]
    per_job: bool = False
    too_little: Callable[[Evidence, JobFrame], str] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class HealthReport:
    """One look at everything.

    Args:
        at_s: time of the newest sample, source's clock.
        findings: worst first.
        scores: of each gpu, node and job with a finding, worst first; every other one that is seen has 1.
        seen: thing -> how many there are.
        unjudged: signs that could not be looked for.
        memory: for the next round.
        failed: sign -> why it failed.
    """

    at_s: float = 0.0
    findings: tuple[HealthFinding, ...] = ()
    scores: tuple[HealthScore, ...] = ()
    seen: Mapping[str, int] = field(default_factory=dict)
    unjudged: tuple[Unjudged, ...] = ()
    memory: HealthMemory = field(default_factory=HealthMemory)
    failed: Mapping[str, str] = field(default_factory=dict)
