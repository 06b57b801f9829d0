"""Names, speeds and wiring of switch ports from a table of which server is plugged into which port."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from collectors.wiring import Wiring, build_topology
from telemetry.ids import LinkId
from telemetry.topology import Link, Topology

_SPEED = re.compile(r"(Eight|Four|Two|One)?Hundred|Fifty|Forty|TwentyFive|Ten", re.IGNORECASE)
_GBIT = {
    "eighthundred": 800.0,
    "fourhundred": 400.0,
    "twohundred": 200.0,
    "onehundred": 100.0,
    "hundred": 100.0,
    "fifty": 50.0,
    "forty": 40.0,
    "twentyfive": 25.0,
    "ten": 10.0,
}
_BYTES_PER_GBIT = 1e9 / 8


def link_of_port(switch: str, port: str, tier: str = "leaf") -> LinkId:
    """The port as a link; colons in its name become ``_``, for ids use the colon."""
    return LinkId(switch.partition(".")[0].replace(":", "_"), port.replace(":", "_"), tier)


def capacity_of(port: str) -> float | None:
    """Speed of one direction in bytes per second from a name such as ``TwoHundredGigE1/0/1``; None when it has none."""
    found = _SPEED.match(port)
    return _GBIT[found[0].lower()] * _BYTES_PER_GBIT if found and "GigE" in port else None


def port_topology(rows: Iterable[Mapping[str, str | None]], ports: Iterable[str], *, source: str = "") -> Topology:
    """Hosts behind switch ports, and uplinks.

    Args:
        rows: with ``switchname``, ``accessport``, ``sysname`` (the host) and ``nicname``; rows without are passed over.
        ports: text form of every recorded port. One that is faster than all ports of its switch with a
            server is an uplink, whose other end is not known.
        source: where this came from.
    """
    cables = []
    for row in rows:
        switch, port, host = (str(row.get(name) or "").strip() for name in ("switchname", "accessport", "sysname"))
        if switch and port and host:
            link = link_of_port(switch, port)
            cables.append(Wiring(link, link.device, host.replace(":", "_"), str(row.get("nicname") or "").strip()))
    known = {str(cable.link) for cable in cables}
    links = [LinkId.parse(port, "leaf") for port in ports]
    speeds = {str(link): speed for link in [*links, *(c.link for c in cables)] if (speed := capacity_of(link.port))}
    topology = build_topology(cables, speeds, source=source)
    fastest: dict[str, float] = {}
    for cable in cables:
        fastest[cable.a] = max(fastest.get(cable.a, 0.0), speeds.get(str(cable.link), 0.0))
    free = [
        link for link in links if str(link) not in known and speeds.get(str(link), 0.0) > fastest.get(link.device, 1e18)
    ]
    uplinks = tuple(Link(link, link.device, "", speeds[str(link)]) for link in free)
    return Topology(topology.leaf_of, topology.links + uplinks, source)
