"""Where things are wired: nodes, switches, links, capacities. Unknown stays unknown (None)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from telemetry.distance import Distance, Reach
from telemetry.ids import LinkId
from telemetry.jobs import JobView
from telemetry.machine import Machine

NVLINK = "nvlink"
BLOCK = "block"
RING = "ring"
TORUS = "torus3d"


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
class Conflict:
    """Two sources that cannot both be right, or one that contradicts itself.

    Args:
        subject: host, switch or device it is about.
        what: what they differ in, such as ``leaf switch``.
        says: (source, value) of each, the one that is used first.
        kept: what is used; empty when neither is, which leaves it unknown.
    """

    subject: str
    what: str
    says: tuple[tuple[str, str], ...]
    kept: str = ""

    def __str__(self) -> str:
        sides = "; ".join(f"{source} says {value}" for source, value in self.says)
        return f"{self.what} of {self.subject}: {sides}; " + (f"{self.kept} is used" if self.kept else "left unknown")


@dataclass(frozen=True, slots=True)
class Topology:
    """Hosts, switches, links, NVLink domains and the inside of hosts, from one source or several.

    Args:
        leaf_of: host name -> leaf switch name.
        links: every known link.
        source: where this came from, for ``doctor``; several are joined by commas.
        paths: host name -> switches above it, nearest first; None at a tier that is not told.
        domain_of: kind of domain -> host name -> name of the domain. Kinds: ``nvlink`` (NVLink across hosts), ``rack``
            (same rack-scale machine), ``block`` (a Slurm block), ``ring``, ``torus3d`` (those of Slurm), ``zone``, ``region`` and others that a source names.
        machines: host name -> its inside.
        aliases: another name of a switch or domain -> the name used here.
        said_by: what was told, such as ``leaf of gpu001`` -> sources that said so.
        conflicts: what sources do not agree on.
        unknowns: sentences on what is not known, for people.
    """

    leaf_of: dict[str, str] = field(default_factory=dict)
    links: tuple[Link, ...] = ()
    source: str = ""
    paths: Mapping[str, tuple[str | None, ...]] = field(default_factory=dict)
    domain_of: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    machines: Mapping[str, Machine] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    said_by: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    conflicts: tuple[Conflict, ...] = ()
    unknowns: tuple[str, ...] = ()
    # Looked up from the fields above when first asked for: links are many, distances are asked for by the thousand.
    _lookup: dict[str, dict[str, frozenset[str]]] = field(default_factory=dict, init=False, repr=False, compare=False)

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

    def rails(self) -> dict[str, frozenset[str]]:
        """NIC as ``host:mlx5_0`` -> switches that its ports are plugged into, as far as cables are known."""
        if "rails" not in self._lookup:
            self._lookup["rails"] = _gathered((k.id.device, k.b) for k in self.links if k.id.node and k.b)
        return self._lookup["rails"]

    def _above(self, switch: str) -> frozenset[str]:
        """Switches that a switch has a cable to."""
        if "above" not in self._lookup:
            hosts = set(self.leaf_of)
            self._lookup["above"] = _gathered(
                (k.a, k.b) for k in self.links if not k.id.node and k.b and k.b not in hosts
            )
        return self._lookup["above"].get(switch, frozenset())

    @property
    def hosts(self) -> tuple[str, ...]:
        """Every host that any source names, sorted."""
        named: set[str] = set(self.leaf_of) | set(self.paths) | set(self.machines)
        return tuple(sorted(named.union(*self.domain_of.values())))

    def path(self, host: str) -> tuple[str | None, ...]:
        """Switches above a host, nearest first; empty when nothing is known."""
        known = self.paths.get(host)
        if known is not None:
            return known
        return (self.leaf_of[host],) if host in self.leaf_of else ()

    def domains(self, kind: str) -> dict[str, frozenset[str]]:
        """Every domain of a kind with its hosts."""
        found: dict[str, set[str]] = {}
        for host, name in self.domain_of.get(kind, {}).items():
            found.setdefault(name, set()).add(host)
        return {name: frozenset(hosts) for name, hosts in sorted(found.items())}

    def nvlink_sets(self) -> tuple[frozenset[str], ...]:
        """NVLink domains as sets of ``host:GPU``; a host whose GPUs are not named stands for all of them."""
        across = self.domain_of.get(NVLINK, {})
        sets = [
            frozenset(place for host in hosts for place in self._gpus_of(host))
            for hosts in self.domains(NVLINK).values()
        ]
        for host, machine in sorted(self.machines.items()):
            if host not in across:
                sets += [frozenset(f"{host}:{gpu}" for gpu in gpus) for gpus in machine.nvlink_domains]
        return tuple(sets)

    def _gpus_of(self, host: str) -> tuple[str, ...]:
        machine = self.machines.get(host)
        return tuple(f"{host}:{gpu.name}" for gpu in machine.gpus) if machine and machine.gpus else (host,)

    def distance(self, a: str, b: str) -> Distance | None:
        """How far two places are, by the nearest thing that they are known to share; None when that is unknown.

        Args:
            a: a host, or a device as ``host:GPU0``, ``host:mlx5_0`` or ``host:GPU-uuid``.
            b: another.

        Two NICs whose cables are known are as near as the switches that they are plugged into, since a host may have
        one NIC under each of several leaves (rails). Hosts under different leaf switches without a common switch among those told are ``FAR``. Where one of them has
        no known leaf, or no source tells of both, and no known domain is common, the answer is None, never a guess.
        """
        host, _, device = a.partition(":")
        other_host, _, other_device = b.partition(":")
        if host == other_host:
            if device == other_device:
                return Distance(Reach.SELF)
            machine = self.machines.get(host)
            return machine.distance(device, other_device) if machine and device and other_device else None
        rails = self.rails()
        if a in rails and b in rails:
            return self._between_switches(rails[a], rails[b])
        return self._between_hosts(host, other_host)

    def _between_switches(self, some: frozenset[str], others: frozenset[str]) -> Distance | None:
        if some & others:
            return Distance(Reach.SAME_LEAF, via=min(some & others), tier=0)
        shared = frozenset[str]().union(*map(self._above, some)) & frozenset[str]().union(*map(self._above, others))
        return Distance(Reach.SAME_SPINE, via=", ".join(sorted(shared)), tier=1) if shared else None

    def _between_hosts(self, a: str, b: str) -> Distance | None:
        for kind, reach in ((NVLINK, Reach.NVLINK_DOMAIN), (BLOCK, Reach.SAME_BLOCK)):
            homes = self.domain_of.get(kind, {})
            if a in homes and homes[a] == homes.get(b):
                return Distance(reach, via=homes[a])
        path, other = self.path(a), self.path(b)
        for tier, (switch, its) in enumerate(zip(path, other, strict=False)):
            if switch is None or its is None:
                continue
            if switch == its:
                # A common spine says nothing of the leaves where one is unknown: then it is at most that far.
                if None in path[:tier] or None in other[:tier]:
                    return None
                return Distance(Reach.SAME_LEAF if tier == 0 else Reach.SAME_SPINE, via=switch, tier=tier)
        if not path or not other or path[0] is None or other[0] is None:
            return None
        cabled = self._between_switches(frozenset((path[0],)), frozenset((other[0],)))
        if cabled is not None or self._strangers(a, b):
            return cabled
        return self._far(path, other)

    def _strangers(self, a: str, b: str) -> bool:
        """Whether no source tells of both hosts: then their switches may be one and the same under two names."""
        tellers = [self.said_by.get(f"switches above {host}", ()) for host in (a, b)]
        return all(tellers) and not set(tellers[0]) & set(tellers[1])

    @staticmethod
    def _far(path: tuple[str | None, ...], other: tuple[str | None, ...]) -> Distance | None:
        meetings = [(path.index(s) + other.index(s), s) for s in path if s is not None and s in other]
        if meetings:
            # Trees of unequal height still meet; the tier is that of the lower side.
            via = min(meetings)[1]
            return Distance(Reach.SAME_SPINE, via=via, tier=min(path.index(via), other.index(via)))
        return None if None in path or None in other else Distance(Reach.FAR)


def _gathered(pairs: Iterable[tuple[str, str]]) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for key, value in pairs:
        found.setdefault(key, set()).add(value)
    return {key: frozenset(values) for key, values in found.items()}


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
