"""Hosts of files and of telemetry under one name: one side often uses the short name, the other the full one. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from telemetry.ids import LinkId
from telemetry.topology import Link, Topology

T = TypeVar("T")


def as_named(topology: Topology, known: Iterable[str]) -> Topology:
    """The topology with its hosts called as ``known`` calls them, where the part before the first dot tells which it is.

    A host stays as it is when it is known by its own name, or when two hosts on either side have one short name.
    """
    names = _names(topology.hosts, known)
    if not names:
        return topology
    return replace(
        topology,
        leaf_of=_renamed(topology.leaf_of, names),
        links=tuple(_link(link, names) for link in topology.links),
        paths=_renamed(topology.paths, names),
        domain_of={kind: _renamed(homes, names) for kind, homes in topology.domain_of.items()},
        machines={
            names.get(host, host): replace(machine, host=names.get(host, host))
            for host, machine in topology.machines.items()
        },
        said_by={_fact(fact, names): sources for fact, sources in topology.said_by.items()},
    )


def _names(told: Iterable[str], known: Iterable[str]) -> dict[str, str]:
    hosts, theirs = set(told), set(known)
    of_short = {_short(host): host for host in theirs}
    theirs_short, ours_short = Counter(map(_short, theirs)), Counter(map(_short, hosts))
    return {
        host: of_short[short]
        for host in hosts - theirs
        if theirs_short[short := _short(host)] == 1 and ours_short[short] == 1
    }


def _short(host: str) -> str:
    return host.partition(".")[0]


def _renamed(facts: Mapping[str, T], names: Mapping[str, str]) -> dict[str, T]:
    return {names.get(host, host): fact for host, fact in facts.items()}


def _link(link: Link, names: Mapping[str, str]) -> Link:
    host, colon, nic = link.id.device.partition(":")
    device = f"{names.get(host, host)}{colon}{nic}"
    return replace(
        link, id=LinkId(device, link.id.port, link.id.tier), a=names.get(link.a, link.a), b=names.get(link.b, link.b)
    )


def _fact(fact: str, names: Mapping[str, str]) -> str:
    what, of, host = fact.rpartition(" ")
    return f"{what}{of}{names.get(host, host)}"
