"""What is read beside the telemetry: schedulers, NCCL, the wiring, collectors of other packages."""

from __future__ import annotations

from dataclasses import dataclass, replace

from api.collectives import Collectives
from api.plugin_collectors import PluginCollectors
from api.schedulers import Schedulers
from api.topology import TopologyFeed
from collectors.ownership import Ownership
from collectors.pool import ScrapePool
from collectors.status import TargetStatus
from telemetry.roster import Roster
from telemetry.topology import Topology

_TOPOLOGY = "topology:"


@dataclass(frozen=True, slots=True)
class Beside:
    """Any of them may be None: then it is not read.

    Args:
        schedulers: who has which GPU, and the queue.
        collectives: what NCCL tells.
        topology: files and schedulers that tell the wiring.
        plugins: collectors of other packages; their samples are telemetry like any other.
    """

    schedulers: Schedulers | None = None
    collectives: Collectives | None = None
    topology: TopologyFeed | None = None
    plugins: PluginCollectors | None = None

    @property
    def ownership(self) -> Ownership | None:
        """Where the schedulers' word meets the labels'."""
        return self.schedulers.ownership if self.schedulers else None

    def add_to(self, pool: ScrapePool) -> None:
        """Start reading them. To be called inside the running loop."""
        for part in (self.schedulers, self.collectives, self.topology, self.plugins):
            if part is not None:
                part.add_to(pool)

    async def close(self) -> None:
        """Release connections."""
        for part in (self.schedulers, self.topology, self.plugins):
            if part is not None:
                await part.close()

    def with_role(self, status: TargetStatus) -> TargetStatus:
        """The state of a source with what it is read for."""
        role = self._role(status.source)
        return replace(status, role=role) if role else status

    def rosters(self) -> tuple[Roster, ...]:
        """What each scheduler listed last."""
        return self.schedulers.rosters() if self.schedulers else ()

    def told_topology(self) -> Topology:
        """The wiring by the settings' sources."""
        return self.topology.book.topology if self.topology else Topology()

    def _role(self, source: str) -> str:
        if self.schedulers is not None and source in self.schedulers.names:
            return "scheduler"
        if self.collectives is not None and source in self.collectives.names:
            return "collectives"
        return "topology" if source.startswith(_TOPOLOGY) else ""
