"""The cluster as a tree of domains, for placing gangs. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from telemetry.topology import Topology


@dataclass(frozen=True, slots=True)
class Domain:
    """A part of the cluster: a host, or what a switch connects.

    Args:
        name: unique in the tree.
        level: what kind of domain it is, such as ``host``, ``rack`` or ``tier 1``.
        children: domains inside; none for the smallest.
        free: what is free in the smallest, in the request's unit; NaN where unknown, which holds nothing.
    """

    name: str
    level: str
    children: tuple[Domain, ...] = ()
    free: float = 0.0

    def leaves(self) -> Iterator[Domain]:
        """The smallest domains inside."""
        if not self.children:
            yield self
        for child in self.children:
            yield from child.leaves()


def domains_of(topology: Topology, free: Mapping[str, float]) -> Domain:
    """The tree of hosts under their switches, for ``place``; levels ``host``, ``leaf``, ``tier 1`` and so on, ``cluster``.

    Args:
        topology: what is known of the wiring. A host whose leaf switch is unknown stands right under the whole, since
            nothing is known that it shares with others.
        free: host -> what is free on it; hosts that are not in it hold nothing.
    """
    below: dict[tuple[str, ...], set[str]] = {}
    hosts: dict[tuple[str, ...], list[str]] = {}
    for host in topology.hosts:
        path = topology.path(host)
        told = path[: path.index(None)] if None in path else path
        way = tuple(switch for switch in reversed(told) if switch is not None)
        hosts.setdefault(way, []).append(host)
        for depth in range(len(way)):
            below.setdefault(way[:depth], set()).add(way[depth])
    used = {"cluster", *topology.hosts}

    def built(way: tuple[str, ...]) -> Domain:
        name = way[-1] if way and way[-1] not in used else " < ".join(way[::-1]) or "cluster"
        used.add(name)
        inside = [built((*way, switch)) for switch in sorted(below.get(way, ()))]
        inside += [Domain(host, "host", free=free.get(host, math.nan)) for host in hosts.get(way, ())]
        if not way:
            return Domain(name, "cluster", tuple(inside))
        tier = 1 + max((tiers[domain.name] for domain in inside), default=-1)
        tiers[name] = tier
        return Domain(name, f"tier {tier}" if tier else "leaf", tuple(inside))

    tiers = dict.fromkeys(topology.hosts, -1)
    return built(())
