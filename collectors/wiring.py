"""Who is plugged into which switch port, from a fabric exporter's pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from collectors.entities import Place
from collectors.exposition import ParsedPage
from collectors.fields import FieldMapper
from telemetry.catalogue import UPLINK_FIELD
from telemetry.ids import LinkId
from telemetry.samples import SampleBatch
from telemetry.topology import Link, Topology

CAPACITY_METRIC = "port_capacity_bytes_per_s"


@dataclass(frozen=True, slots=True, order=True)
class Wiring:
    """One cable seen from a switch port.

    Args:
        link: the switch port.
        a: the switch.
        b: host or switch at the other end.
        far_device: NIC at the other end as the host describes it, such as ``mlx5_0``; empty for a switch.
        far_port: port number at the other end; empty when not told.
        to_host: True when the other end is a host.
    """

    link: LinkId
    a: str
    b: str
    far_device: str = ""
    far_port: str = ""
    to_host: bool = True


@runtime_checkable
class TellsWiring(Protocol):
    """A collector that learns wiring on the way."""

    wiring: tuple[Wiring, ...]
    """Cables seen."""
    capacity_bytes_per_s: dict[str, float]
    """Text form of a port -> speed of one direction."""
    nics: set[LinkId]
    """Host ports with samples."""


def wiring_of(page: ParsedPage) -> tuple[Wiring, ...]:
    """Every cable that a page tells of; empty for most pages.

    A host's end is described as ``node-01 mlx5_0`` or ``node-01 HCA-1`` (its NodeDescription): the first word is the
    host, the second the NIC.
    """
    rows = zip(page.layout.names, page.layout.labels, strict=True)
    return wiring_of_labels([labels for name, labels in rows if name == UPLINK_FIELD])


def wiring_of_labels(rows: Iterable[Mapping[str, str]]) -> tuple[Wiring, ...]:
    """Every cable told by label sets of the uplink family."""
    found: list[Wiring] = []
    for labels in rows:
        switch, port = labels.get("switch") or labels.get("guid", ""), labels.get("port", "")
        far = labels.get("uplink", "").split()
        if not switch or not port or not far:
            continue
        to_host = labels.get("uplink_type", "CA") != "SW"
        found.append(
            Wiring(
                link=LinkId(switch, port, "leaf"),
                a=switch,
                b=far[0] if to_host else " ".join(far),
                far_device=far[1] if to_host and len(far) > 1 else "",
                far_port=labels.get("uplink_port", ""),
                to_host=to_host,
            )
        )
    return tuple(found)


def build_topology(
    wiring: Iterable[Wiring], capacity: Mapping[str, float], nics: Iterable[LinkId] = (), *, source: str = ""
) -> Topology:
    """Hosts under leaf switches, and every link with its capacity where it is known.

    Args:
        wiring: cables seen from switch ports.
        capacity: text form of a LinkId -> bytes per second of one direction.
        nics: host ports that are measured, wired or not.
        source: where this came from.

    A switch with a host behind one of its ports is a leaf, any other a spine. A host with NICs under several leaves is
    booked under the first by name, while each of its NIC links keeps its own leaf.
    """
    cables = sorted(set(wiring))
    leaf_switches = {cable.a for cable in cables if cable.to_host}
    leaf_of: dict[str, str] = {}
    behind: dict[str, str] = {}
    links: list[Link] = []
    for cable in cables:
        tier = "leaf" if cable.a in leaf_switches else "spine"
        link = LinkId(cable.link.device, cable.link.port, tier)
        links.append(Link(link, cable.a, cable.b, capacity.get(str(link))))
        if cable.to_host:
            leaf_of.setdefault(cable.b, cable.a)
            behind[f"{cable.b}:{cable.far_device}"] = cable.a
    for nic in sorted(set(nics)):
        leaf = behind.get(nic.device) or leaf_of.get(nic.node, "")
        links.append(Link(nic, nic.node, leaf, capacity.get(str(nic))))
    return Topology(leaf_of, tuple(links), source)


def capacities_of(batch: SampleBatch) -> dict[str, float]:
    """Text form of a port -> its speed in bytes per second, the last one where the batch tells several."""
    speeds = [i for i, key in enumerate(batch.keys) if key.metric == CAPACITY_METRIC]
    if not speeds:
        return {}
    rows = np.flatnonzero(np.isin(batch.series, speeds) & (batch.reason == 0) & (batch.value > 0))
    return {batch.keys[batch.series[row]].entity: float(batch.value[row]) for row in rows}


def nics_of(batch: SampleBatch) -> set[LinkId]:
    """Host NIC ports that a batch has any sample of."""
    ports = {key.entity for key in batch.keys if key.metric.startswith("port_")}
    links = (LinkId.parse(port, "nic") for port in ports)
    return {link for link in links if link.node}


def topology_from_pages(pages: Iterable[tuple[ParsedPage, Place]], *, source: str = "") -> Topology:
    """The topology that a set of pages tells together: fabric exporter and node exporters."""
    wiring: list[Wiring] = []
    capacity: dict[str, float] = {}
    nics: set[LinkId] = set()
    for page, place in pages:
        batch = FieldMapper("", place).batch(page, 0.0)
        wiring += wiring_of(page)
        capacity |= capacities_of(batch)
        nics |= nics_of(batch)
    return build_topology(wiring, capacity, nics, source=source)
