"""Schedulers that are read beside the exporters: who has which GPU, and the queue."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from api.settings import KubernetesSettings, SlurmSettings
from collectors.cadence import Cadence, CadenceLimits
from collectors.ownership import FRESH_S, Ownership
from collectors.pool import ScrapePool
from telemetry.ids import JobId
from telemetry.jobs import JobView
from telemetry.roster import JobRecord, Roster
from telemetry.samples import SampleBatch, Window

_POLLS_FRESH = 4.0
"""A list holds for this many polls, so that one that fails takes nothing away."""


class SchedulerCollector(Protocol):
    """A collector that lists jobs and nodes."""

    name: str
    provides: frozenset[str]
    roster: Roster

    async def collect(self, window: Window) -> SampleBatch:
        """The cluster as it is now."""
        ...

    async def close(self) -> None:
        """Release connections."""
        ...


class Schedulers:
    """The schedulers of the settings; none of them by default.

    Args:
        slurm: how Slurm is read.
        kubernetes: how Kubernetes is read.
    """

    def __init__(self, slurm: SlurmSettings, kubernetes: KubernetesSettings) -> None:
        self._slurm = slurm
        self._kubernetes = kubernetes
        polls = [section.poll_s for section in (slurm, kubernetes) if section.enabled]
        self.ownership = Ownership(max(FRESH_S, _POLLS_FRESH * max(polls))) if polls else None
        """Where their word meets that of the telemetry's labels; None without a scheduler."""
        self._collectors: list[SchedulerCollector] = []

    def add_to(self, pool: ScrapePool) -> None:
        """Start reading them. To be called inside the running loop."""
        if self._slurm.enabled:
            self._start(pool, _slurm(self._slurm, self.ownership), self._slurm.poll_s)
        if self._kubernetes.enabled:
            self._start(pool, _kubernetes(self._kubernetes, self.ownership), self._kubernetes.poll_s)

    @property
    def names(self) -> frozenset[str]:
        """What the pool calls the sources."""
        return frozenset(collector.name for collector in self._collectors)

    def rosters(self) -> tuple[Roster, ...]:
        """The newest list of each; empty until the first came."""
        return tuple(collector.roster for collector in self._collectors if collector.roster.at_s)

    async def close(self) -> None:
        """Release connections."""
        for collector in self._collectors:
            await collector.close()

    def _start(self, pool: ScrapePool, collector: SchedulerCollector, poll_s: float) -> None:
        self._collectors.append(collector)
        pool.add(collector, cadence=Cadence(CadenceLimits(fixed_s=poll_s)))


def records_of(rosters: Sequence[Roster]) -> dict[JobId, JobRecord]:
    """Every job that a scheduler lists, by id."""
    return {record.job: record for roster in rosters for record in roster.jobs}


def with_records(views: Iterable[JobView], records: Mapping[JobId, JobRecord]) -> list[JobView]:
    """The views, each with what its scheduler lists of it."""
    return [replace(view, record=records[view.job]) if view.job in records else view for view in views]


def _slurm(settings: SlurmSettings, ownership: Ownership | None) -> SchedulerCollector:
    from collectors.slurm.collector import SlurmCollector
    from collectors.slurm.commands import SlurmCommands
    from collectors.slurm.rest import SlurmRest

    if not settings.rest_url:
        return SlurmCollector(SlurmCommands(settings.timeout_s), ownership)
    reader = SlurmRest(
        settings.rest_url,
        settings.token_file,
        settings.rest_user,
        settings.rest_version,
        timeout_s=settings.timeout_s,
    )
    return SlurmCollector(reader, ownership)


def _kubernetes(settings: KubernetesSettings, ownership: Ownership | None) -> SchedulerCollector:
    from collectors.kubernetes.client import KubernetesLists
    from collectors.kubernetes.collector import KubernetesCollector

    lists = KubernetesLists(
        settings.url, token_file=settings.token_file, ca_file=settings.ca_file, timeout_s=settings.timeout_s
    )
    return KubernetesCollector(lists, ownership)
