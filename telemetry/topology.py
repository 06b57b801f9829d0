"""Where things are wired: nodes, switches, links, capacities. Unknown stays unknown (None)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from telemetry.ids import LinkId
from telemetry.jobs import JobView


@dataclass(frozen=True, slots=True)
class Link:
    """A cable between two devices, watched at one port.

    Args:
        id: the port at which it is measured.
        a: device that owns the port (host or switch name).
        b: device at the other end; empty when unknown.
        capacity_bytes_per_s: of one direction; None when unknown.
    """

    id: LinkId
    a: str
    b: str = ""
    capacity_bytes_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class Topology:
    """Hosts, leaf switches and links between them.

    Args:
        leaf_of: host name -> leaf switch name.
        links: every known link.
        source: where this came from, for ``doctor``.
    """

    leaf_of: dict[str, str] = field(default_factory=dict)
    links: tuple[Link, ...] = ()
    source: str = ""

    def link(self, link_id: LinkId) -> Link | None:
        """The link at a port, None when unknown."""
        text = str(link_id)
        return next((link for link in self.links if str(link.id) == text), None)

    def uplinks(self, leaf: str) -> tuple[Link, ...]:
        """Links from a leaf switch to another switch."""
        return tuple(
            link for link in self.links if link.a == leaf and link.id.tier == "leaf" and link.b not in self.leaf_of
        )

    def leaves(self, nodes: Iterable[str]) -> tuple[str, ...]:
        """Leaf switches under which these hosts stand, sorted; unknown hosts are left out."""
        return tuple(sorted({self.leaf_of[node] for node in nodes if node in self.leaf_of}))


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """The cluster as one immutable value, for advising and planning.

    Args:
        at_s: when it was taken, Unix seconds.
        jobs: everything running.
        topology: what is known of the wiring.
    """

    at_s: float
    jobs: tuple[JobView, ...]
    topology: Topology
