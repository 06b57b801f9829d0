"""One topology from several: the first source that tells a thing is used, what others say differently is a conflict.

Two sources may call one switch by different names. That is no conflict where one of them says so (a comment in Slurm's
file), or where they use no name in common and put the same hosts together; the other name is then kept as an alias.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from collectors.hostlists import fold_hosts
from collectors.topology.merge_machines import merged_machine
from telemetry.machine import Machine
from telemetry.topology import Conflict, Link, Topology

Path = tuple[str | None, ...]

_MIN_TOGETHER = 2
"""Hosts that two sources must put together before two names are taken for one thing; a single host shows nothing."""
_MIN_SHARE = 2.0 / 3.0
"""Share of a name's hosts that must agree; below, the two sources tell different wirings."""


def merge(parts: Sequence[Topology]) -> Topology:
    """One topology; the order of ``parts`` is the order of trust."""
    wiring = Topology()
    said: dict[str, list[str]] = {}
    conflicts: list[Conflict] = []
    for part in parts:
        conflicts += part.conflicts
        if part.paths or part.leaf_of or part.domain_of or part.links:
            clashes = _Clashes(said, part.source)
            wiring = _added(wiring, part, clashes)
            conflicts += clashes.conflicts()
        for fact, sources in (part.said_by or {fact: (part.source,) for fact in _facts(part)}).items():
            said.setdefault(fact, []).extend(sources)
    machines, wrong = _machines(parts)
    return replace(
        wiring,
        source=", ".join(dict.fromkeys(part.source for part in parts if part.source)),
        machines=machines,
        said_by={fact: tuple(dict.fromkeys(sources)) for fact, sources in said.items()},
        conflicts=tuple(dict.fromkeys(conflicts + wrong)),
        unknowns=tuple(dict.fromkeys(sentence for part in parts for sentence in part.unknowns)),
    )


def _added(whole: Topology, part: Topology, clashes: _Clashes) -> Topology:
    """Switches, domains and links of both; the rest is left to ``merge``."""
    part = _renamed(part, _spoken(whole, part))
    alias: dict[str, str] = {**whole.aliases, **part.aliases}
    part = _renamed(part, _one_thing(whole, part, alias))
    paths = _paths(whole, part, clashes)
    leaf_of = {**part.leaf_of, **whole.leaf_of} | {host: path[0] for host, path in paths.items() if path and path[0]}
    return Topology(
        leaf_of=leaf_of,
        links=_links(whole.links, part.links, clashes),
        paths=paths,
        domain_of=_domains(whole, part, clashes),
        aliases=alias,
    )


def _machines(parts: Sequence[Topology]) -> tuple[dict[str, Machine], list[Conflict]]:
    machines: dict[str, Machine] = {}
    conflicts: list[Conflict] = []
    for part in parts:
        for host, machine in part.machines.items():
            if host in machines:
                machines[host], wrong = merged_machine(machines[host], machine)
                conflicts += wrong
            else:
                machines[host] = machine
    return machines, conflicts


class _Clashes:
    """Differences of one source from those before it, gathered so that many hosts under another leaf are one conflict.

    Args:
        said: fact -> the sources before it that told it.
        other: the source.
    """

    def __init__(self, said: Mapping[str, Sequence[str]], other: str) -> None:
        self._said, self._other = said, other
        self._found: dict[tuple[str, str, str, str], list[str]] = {}

    def add(self, subject: str, fact: str, what: str, kept: str, says: str) -> None:
        """One subject about which the sources differ; what was told before is kept."""
        before = ", ".join(dict.fromkeys(self._said.get(fact, ())))
        self._found.setdefault((what, before, kept, says), []).append(subject)

    def conflicts(self) -> list[Conflict]:
        """What was gathered."""
        return [
            Conflict(fold_hosts(subjects), what, ((before, kept), (self._other, says)), kept)
            for (what, before, kept, says), subjects in self._found.items()
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
    plugged = _plugged((*whole.links, *part.links))
    return {host: _path(host, whole.path(host), part.path(host), plugged, clashes) for host in sorted(hosts)}


def _plugged(links: Iterable[Link]) -> set[tuple[str, str]]:
    """(host, switch) of every cable: a host with a NIC under each of several leaves is under all of them."""
    return {(k.id.node, k.b) for k in links if k.id.node} | {(k.b, k.a) for k in links if not k.id.node}


def _path(host: str, kept: Path, other: Path, plugged: set[tuple[str, str]], clashes: _Clashes) -> Path:
    """The kept path, with what it leaves open filled in; above a switch that differs nothing is taken over."""
    way = list(kept)
    for tier, switch in enumerate(other):
        if tier >= len(way):
            way.append(switch)
        elif way[tier] is None:
            way[tier] = switch
        elif switch is not None and way[tier] != switch:
            if tier == 0 and {(host, str(way[0])), (host, switch)} <= plugged:
                break
            what = "leaf switch" if tier == 0 else f"tier {tier} switch"
            clashes.add(host, f"switches above {host}", what, str(way[tier]), switch)
            break
    return tuple(way)


def _domains(whole: Topology, part: Topology, clashes: _Clashes) -> dict[str, dict[str, str]]:
    merged = {kind: dict(homes) for kind, homes in whole.domain_of.items()}
    for kind, homes in part.domain_of.items():
        into = merged.setdefault(kind, {})
        for host, name in homes.items():
            kept = into.setdefault(host, name)
            if kept != name:
                clashes.add(host, f"{kind} of {host}", f"{kind} domain", kept, name)
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
            clashes.add(name, f"port {name}", "far end", kept.b, link.b)
        a, b = kept.capacity_bytes_per_s, link.capacity_bytes_per_s
        if a is not None and b is not None and a != b:
            clashes.add(name, f"port {name}", "capacity in bytes per second", f"{a:g}", f"{b:g}")
        merged[name] = Link(kept.id, kept.a, kept.b or link.b, b if a is None else a)
    return tuple(merged.values())


def _facts(topology: Topology) -> list[str]:
    facts = [f"switches above {host}" for host in {**topology.leaf_of, **topology.paths} if topology.path(host)]
    facts += [f"{kind} of {host}" for kind, homes in topology.domain_of.items() for host in homes]
    facts += [f"inside of {host}" for host in topology.machines]
    return facts + [f"port {link.id}" for link in topology.links]
