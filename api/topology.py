"""The wiring of the cluster: what files, schedulers and telemetry tell of it, as one topology."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from pathlib import Path

from api.settings import KubernetesSettings, SlurmSettings, TopologySettings
from api.source_settings import KUBERNETES, SLURM
from collectors.cadence import Cadence, CadenceLimits
from collectors.pool import ScrapePool
from collectors.topology.files import ChangedFile, named_source
from collectors.topology.host_names import as_named
from collectors.topology.live import Read, TopologyBook, TopologySource
from collectors.topology.merge import merge
from collectors.topology.read import finished
from telemetry.errors import BadReply, SourceUnreachable
from telemetry.samples import Problem
from telemetry.topology import Topology

STATE_NAME = "topology.json"
"""In the store's folder: the last good content of each source."""


class TopologyFeed:
    """The topology sources of the settings; none of them by default.

    Args:
        settings: which, and how often.
        slurm: for the source ``slurm``.
        kubernetes: for the source ``kubernetes``.
        store_folder: where the last good contents are kept.
    """

    def __init__(
        self, settings: TopologySettings, slurm: SlurmSettings, kubernetes: KubernetesSettings, store_folder: Path
    ) -> None:
        self._settings = settings
        self._slurm = slurm
        self._kubernetes = kubernetes
        self._named = [named_source(text) for text in settings.sources]
        self._closing: list[_KubernetesLabels] = []
        self.book = TopologyBook(self._named, store_folder / STATE_NAME if self._named else None)

    def add_to(self, pool: ScrapePool) -> None:
        """Start reading them. To be called inside the running loop."""
        limits = CadenceLimits(fixed_s=self._settings.poll_s)
        for source, host in self._named:
            one = TopologySource(source, host, self._reader(source), self.book, self._settings.timeout_s)
            pool.add(one, cadence=Cadence(limits))

    async def close(self) -> None:
        """Release connections."""
        for reader in self._closing:
            await reader.close()

    def _reader(self, source: str) -> Read:
        if source == SLURM:
            return _SlurmTopology(self._slurm)
        if source == KUBERNETES:
            reader = _KubernetesLabels(self._kubernetes)
            self._closing.append(reader)
            return reader
        return ChangedFile(source, self._settings.timeout_s)


class _SlurmTopology:
    """``scontrol show topology``, also where jobs are read from slurmrestd: that tells no topology."""

    def __init__(self, settings: SlurmSettings) -> None:
        from collectors.slurm.commands import SlurmCommands

        self._commands = SlurmCommands(settings.timeout_s)

    async def __call__(self) -> bytes | None:
        from collectors.slurm.reading import ReadingFailed

        try:
            body = await self._commands.topology()
        except ReadingFailed as failed:
            kind = SourceUnreachable if failed.problem in (Problem.UNREACHABLE, Problem.TIMEOUT) else BadReply
            raise kind(SLURM, failed.detail) from failed
        if not body.strip():
            raise BadReply(SLURM, "Slurm has no topology", mend="Set TopologyPlugin, or take slurm out of the list")
        return body


class _KubernetesLabels:
    """Labels of the nodes."""

    def __init__(self, settings: KubernetesSettings) -> None:
        from collectors.kubernetes.client import KubernetesLists

        self._lists = KubernetesLists(
            settings.url, token_file=settings.token_file, ca_file=settings.ca_file, timeout_s=settings.timeout_s
        )

    async def __call__(self) -> bytes | None:
        from collectors.kubernetes.wiring import node_labels_json

        return await node_labels_json(self._lists, KUBERNETES)

    async def close(self) -> None:
        await self._lists.close()


class Wiring:
    """One topology of what telemetry measures and what the settings' sources tell, merged anew when either changed.

    Telemetry comes first: its cables are seen port by port, and its names are those of the measured links. What the
    sources add fills gaps; where they differ it is a conflict that is shown.
    """

    def __init__(self) -> None:
        self._parts: tuple[Topology, ...] = ()
        self._told = Topology()
        self._hosts: frozenset[str] = frozenset()
        self._merged = Topology()
        self._lock = threading.Lock()
        self.lent: dict[str, float] = {}
        """Capacity of links that telemetry measures without knowing theirs: text form -> bytes per second."""

    def merged(self, measured: Sequence[Topology], told: Topology, hosts: Iterable[str]) -> Topology:
        """The whole, for use and for showing.

        Args:
            measured: from pages and from what is pushed, in the order of trust.
            told: by the settings' sources.
            hosts: names that telemetry has for hosts; a short or full name in ``told`` is taken for one of them.
        """
        parts = tuple(part for part in measured if part.links or part.leaf_of)
        known = frozenset(hosts).union(*(_hosts_of(part) for part in parts))
        with self._lock:
            if (parts, known) != (self._parts, self._hosts) or told is not self._told:
                whole = merge([*parts, as_named(told, known)])
                self._parts, self._told, self._hosts, self._merged = parts, told, known, finished(whole)
                self.lent = _lent(whole, parts)
            return self._merged

    @property
    def last(self) -> Topology:
        """What was merged last."""
        return self._merged


def _lent(whole: Topology, measured: Iterable[Topology]) -> dict[str, float]:
    known = {str(link.id) for part in measured for link in part.links if link.capacity_bytes_per_s is not None}
    told = {str(link.id): link.capacity_bytes_per_s for link in whole.links}
    return {name: capacity for name, capacity in told.items() if capacity is not None and name not in known}


def _hosts_of(topology: Topology) -> set[str]:
    return {*topology.leaf_of, *(link.id.node for link in topology.links if link.id.node)}
