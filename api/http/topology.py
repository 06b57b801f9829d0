"""The wiring: hosts, switches, domains, links, and what sources do not agree on."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from api.http.answers import answer
from api.http.dependencies import ReadsDep, errors
from api.http.problems import unknown
from api.http.schemas.topology import (
    ConflictOut,
    DomainOut,
    HostOut,
    SaysOut,
    TopologyOut,
    TopologySourceOut,
    WiredLinkOut,
)
from collectors.topology.document import inside_of
from collectors.topology.keeper import SourceState
from telemetry.topology import Link, Topology

router = APIRouter(tags=["topology"])
Hosts = Annotated[
    list[str] | None, Query(max_length=256, description="Only these hosts, with their inside; repeat it.")
]
Most = Annotated[int, Query(ge=1, le=20000, description="Most hosts, domains and links in the reply, each.")]


@router.get("/v1/topology", response_model=TopologyOut, responses=errors(404, 422))
async def topology(request: Request, reads: ReadsDep, host: Hosts = None, limit: Most = 1000) -> Response:
    """Hosts under switches, domains, links with capacities, conflicts and unknowns."""
    view = reads.wiring()
    known = view.topology
    for one in host or ():
        if one not in known.hosts:
            raise unknown("host", one, known.hosts)
    return answer(request, _rendered(known, view.sources, tuple(dict.fromkeys(host or ())), limit))


def _rendered(known: Topology, sources: tuple[SourceState, ...], wanted: tuple[str, ...], limit: int) -> TopologyOut:
    all_hosts = known.hosts
    hosts = wanted or all_hosts
    links = [link for link in known.links if not wanted or _touches(link, wanted)]
    domains = [
        (kind, name, members)
        for kind in sorted(known.domain_of)
        for name, members in known.domains(kind).items()
        if not wanted or members & set(wanted)
    ]
    return TopologyOut(
        host_count=len(all_hosts),
        link_count=len(known.links),
        truncated=max(len(hosts), len(links), len(domains)) > limit,
        hosts=[_host(name, known, bool(wanted)) for name in hosts[:limit]],
        domains=[DomainOut(kind=kind, name=name, hosts=sorted(members)) for kind, name, members in domains[:limit]],
        links=[_link(link) for link in links[:limit]],
        aliases=dict(known.aliases),
        conflicts=[
            ConflictOut(
                subject=conflict.subject,
                what=conflict.what,
                says=[SaysOut(source=source, value=value) for source, value in conflict.says],
                kept=conflict.kept or None,
            )
            for conflict in known.conflicts[:limit]
        ],
        unknowns=list(known.unknowns[:limit]),
        sources=[_source(state) for state in sources],
        told_by=known.source,
    )


def _touches(link: Link, hosts: Collection[str]) -> bool:
    return link.a in hosts or link.b in hosts


def _host(name: str, known: Topology, with_inside: bool) -> HostOut:
    machine = known.machines.get(name)
    return HostOut(
        id=name,
        leaf=known.leaf_of.get(name),
        switches=list(known.path(name)),
        domains={kind: homes[name] for kind, homes in known.domain_of.items() if name in homes},
        gpu_count=machine.gpu_count if machine is not None else None,
        product=(machine.product or None) if machine is not None else None,
        inside=inside_of(machine) if machine is not None and with_inside else None,
    )


def _link(link: Link) -> WiredLinkOut:
    return WiredLinkOut(
        id=str(link.id),
        tier=link.id.tier or None,
        a=link.a,
        b=link.b or None,
        capacity_bytes_per_s=link.capacity_bytes_per_s,
    )


def _source(state: SourceState) -> TopologySourceOut:
    return TopologySourceOut(
        source=state.source,
        host=state.host or None,
        format=state.format or None,
        age_s=state.age_s,
        error=state.error or None,
    )
