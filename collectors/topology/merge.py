"""One topology from several: the first source that tells a thing is used, what others say differently is a conflict.

Two sources may call one switch by different names. That is no conflict where one of them says so (a comment in Slurm's
file), or where they use no name in common and put the same hosts together; the other name is then kept as an alias.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from collectors.hostlists import fold_hosts
from collectors.topology.merge_machines import merged_machine
from telemetry.topology import Conflict, Link, Topology

Path = tuple[str | None, ...]

_MIN_TOGETHER = 2
"""Hosts that two sources must put together before two names are taken for one thing; a single host shows nothing."""
_MIN_SHARE = 2.0 / 3.0
"""Share of a name's hosts that must agree; below, the two sources tell different wirings."""


def merge(parts: Sequence[Topology]) -> Topology:
    """One topology; the order of ``parts`` is the order of trust."""
    whole = Topology(said_by={})
    for part in parts:
        whole = _added(whole, part)
    return whole


def _added(whole: Topology, part: Topology) -> Topology:
    part = _renamed(part, _spoken(whole, part))
    alias: dict[str, str] = {**whole.aliases, **part.aliases}
    conflicts = [*whole.conflicts, *part.conflicts]
    names = _one_thing(whole, part, alias)
    part = _renamed(part, names)
    clashes = _Clashes(whole.source, part.source)
    paths = _paths(whole, part, clashes)
    domain_of = _domains(whole, part, clashes)
    machines = dict(whole.machines)
    for host, machine in part.machines.items():
        if host in machines:
            machines[host], wrong = merged_machine(machines[host], machine)
            conflicts += wrong
        else:
            machines[host] = machine
    links = _links(whole.links, part.links, clashes)
    leaf_of = {**part.leaf_of, **whole.leaf_of} | {host: path[0] for host, path in paths.items() if path and path[0]}
    return Topology(
        leaf_of=leaf_of,
        links=links,
        source=", ".join(source for source in (whole.source, part.source) if source),
        paths=paths,
        domain_of=domain_of,
        machines=machines,
        aliases=alias,
        said_by=_said(whole, part),
        conflicts=tuple(dict.fromkeys([*conflicts, *clashes.conflicts()])),
        unknowns=tuple(dict.fromkeys([*whole.unknowns, *part.unknowns])),
    )


class _Clashes:
    """Differences of two sources, gathered so that a thousand hosts under another leaf are one conflict."""

    def __init__(self, source: str, other: str) -> None:
        self._sources = (source, other)
        self._found: dict[tuple[str, str, str], list[str]] = {}

    def add(self, subject: str, what: str, kept: str, says: str) -> None:
        """One subject about which the sources differ; what the first says is kept."""
        self._found.setdefault((what, kept, says), []).append(subject)

    def conflicts(self) -> list[Conflict]:
        """What was gathered."""
        first, second = self._sources
        return [
            Conflict(fold_hosts(subjects), what, ((first, kept), (second, says)), kept)
            for (what, kept, says), subjects in self._found.items()
        ]


def _spoken(whole: Topology, part: Topology) -> dict[str, str]:
    """Names of ``part`` -> names of ``whole``, where either of them says that they are one thing."""
    used = _names(whole)
    told = {other: name for other, name in whole.aliases.items() if name in used}
    return told | {name: other for other, name in part.aliases.items() if other in used}


def _names(topology: Topology) -> set[str]:
    names = {switch for path in topology.paths.values() for switch in path if switch} | set(topology.leaf_of.values())
    return names.union(*(homes.values() for homes in topology.domain_of.values()))


def _one_thing(whole: Topology, part: Topology, alias: dict[str, str]) -> dict[str, str]:
    """Names of ``part`` -> names of ``whole`` that put the same hosts together; added to ``alias`` the same way."""
    found: dict[str, str] = {}
    tiers = max((len(path) for path in part.paths.values()), default=1)
    for tier in range(tiers):
        found |= _matched(_tier(whole, tier), _tier(part, tier))
    for kind, homes in part.domain_of.items():
        found |= _matched(whole.domain_of.get(kind, {}), homes)
    alias |= found
    return found


def _tier(topology: Topology, tier: int) -> dict[str, str]:
    at = {host: path[tier] for host, path in topology.paths.items() if len(path) > tier}
    known = {host: switch for host, switch in at.items() if switch is not None}
    return {**topology.leaf_of, **known} if tier == 0 else known


def _matched(mine: Mapping[str, str], theirs: Mapping[str, str]) -> dict[str, str]:
    both = mine.keys() & theirs.keys()
    if not both or set(mine.values()) & set(theirs.values()):
        return {}
    together = Counter((theirs[host], mine[host]) for host in both)
    of_mine, of_theirs = Counter(mine[host] for host in both), Counter(theirs[host] for host in both)
    return {
        name: kept
        for (name, kept), count in together.items()
        if count >= _MIN_TOGETHER and count > _MIN_SHARE * max(of_mine[kept], of_theirs[name]) - 1e-9
    }


def _renamed(part: Topology, names: Mapping[str, str]) -> Topology:
    if not names:
        return part
    return Topology(
        leaf_of={host: names.get(leaf, leaf) for host, leaf in part.leaf_of.items()},
        links=tuple(Link(k.id, k.a, names.get(k.b, k.b), k.capacity_bytes_per_s) for k in part.links),
        source=part.source,
        paths={h: tuple(names.get(s, s) if s is not None else None for s in path) for h, path in part.paths.items()},
        domain_of={kind: {h: names.get(n, n) for h, n in homes.items()} for kind, homes in part.domain_of.items()},
        machines=part.machines,
        aliases=part.aliases,
        said_by=part.said_by,
        conflicts=part.conflicts,
        unknowns=part.unknowns,
    )


def _paths(whole: Topology, part: Topology, clashes: _Clashes) -> dict[str, Path]:
    hosts = dict.fromkeys((*whole.paths, *whole.leaf_of, *part.paths, *part.leaf_of))
    return {host: _path(host, whole.path(host), part.path(host), clashes) for host in sorted(hosts)}


def _path(host: str, kept: Path, other: Path, clashes: _Clashes) -> Path:
    """The kept path, with what it leaves open filled in; above a switch that differs nothing is taken over."""
    way = list(kept)
    for tier, switch in enumerate(other):
        if tier >= len(way):
            way.append(switch)
        elif way[tier] is None:
            way[tier] = switch
        elif switch is not None and way[tier] != switch:
            what = "leaf switch" if tier == 0 else f"tier {tier} switch"
            clashes.add(host, what, str(way[tier]), switch)
            break
    return tuple(way)


def _domains(whole: Topology, part: Topology, clashes: _Clashes) -> dict[str, dict[str, str]]:
    merged = {kind: dict(homes) for kind, homes in whole.domain_of.items()}
    for kind, homes in part.domain_of.items():
        into = merged.setdefault(kind, {})
        for host, name in homes.items():
            kept = into.setdefault(host, name)
            if kept != name:
                clashes.add(host, f"{kind} domain", kept, name)
    return merged


def _links(mine: Iterable[Link], theirs: Iterable[Link], clashes: _Clashes) -> tuple[Link, ...]:
    merged = {str(link.id): link for link in mine}
    for link in theirs:
        name = str(link.id)
        kept = merged.get(name)
        if kept is None:
            merged[name] = link
            continue
        if kept.b and link.b and kept.b != link.b:
            clashes.add(name, "far end", kept.b, link.b)
        a, b = kept.capacity_bytes_per_s, link.capacity_bytes_per_s
        if a is not None and b is not None and a != b:
            clashes.add(name, "capacity in bytes per second", f"{a:g}", f"{b:g}")
        merged[name] = Link(kept.id, kept.a, kept.b or link.b, b if a is None else a)
    return tuple(merged.values())


def _said(whole: Topology, part: Topology) -> dict[str, tuple[str, ...]]:
    said = dict(whole.said_by)
    facts: dict[str, tuple[str, ...]] = {fact: (part.source,) for fact in _facts(part)}
    for fact, sources in {**facts, **part.said_by}.items():
        said[fact] = tuple(dict.fromkeys((*said.get(fact, ()), *sources)))
    return said


def _facts(topology: Topology) -> list[str]:
    facts = [f"switches above {host}" for host in {**topology.leaf_of, **topology.paths} if topology.path(host)]
    facts += [f"{kind} of {host}" for kind, homes in topology.domain_of.items() for host in homes]
    facts += [f"inside of {host}" for host in topology.machines]
    return facts + [f"port {link.id}" for link in topology.links]
