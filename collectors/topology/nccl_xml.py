"""NCCL's topology dump (``NCCL_TOPO_DUMP_FILE``): PCIe tree, NICs with their speed, NVLinks of one host.

Read as a stream: no tree is built, entities and document types are refused, depth and counts are bounded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from xml.etree import ElementTree

from collectors.topology.nccl_ways import Placed, nvlink_ways, pcie_way
from collectors.topology.reading import NotTopology, Reading
from telemetry.distance import Distance
from telemetry.errors import BadReply
from telemetry.ids import LinkId
from telemetry.machine import Device, Machine, pair
from telemetry.samples import Finding, Problem
from telemetry.topology import Link, Topology

FORMAT = "NCCL topology XML"
MAX_DEPTH = 64
MAX_DEVICES = 256

_FORBIDDEN = re.compile(r"<!\s*(?:DOCTYPE|ENTITY)", re.IGNORECASE)
_SPEED = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,2})?) GT/s")
_GEN1_AND_2 = 5.0
"""Up to 5 GT/s PCIe spends 2 of 10 bits on coding, above it 2 of 130 (PCI Express base specification 3.0, 4.2)."""


@dataclass(slots=True)
class _Found:
    """What the stream told so far."""

    source: str
    stack: list[tuple[str, Mapping[str, str]]] = field(default_factory=list)
    placed: dict[str, Placed] = field(default_factory=dict)
    devices: dict[str, Device] = field(default_factory=dict)
    ports: dict[str, str] = field(default_factory=dict)
    hosts: set[str] = field(default_factory=set)
    findings: list[Finding] = field(default_factory=list)

    def start(self, tag: str, told: Mapping[str, str]) -> None:
        """An element opens."""
        if not self.stack and tag != "system":
            raise NotTopology(self.source, f"is XML of {tag!r}, not NCCL's topology")
        if len(self.stack) >= MAX_DEPTH:
            raise BadReply(self.source, f"nests more than {MAX_DEPTH} elements")
        self.stack.append((tag, told))
        if tag == "cpu" and told.get("host_hash"):
            self.hosts.add(told["host_hash"])
        elif tag == "gpu":
            self._device(f"GPU{told.get('dev', '')}", "gpu", told)
        elif tag == "net":
            self._device(told.get("name", ""), "nic", told)
        elif tag == "nvlink":
            self._nvlink(told)

    def end(self, _tag: str) -> None:
        """An element closes."""
        self.stack.pop()

    def _device(self, name: str, kind: str, told: Mapping[str, str]) -> None:
        if name in ("", "GPU") or name in self.devices or len(self.devices) >= MAX_DEVICES:
            self.findings.append(Finding(Problem.MALFORMED_LINE, self.source, f"the {kind} {name!r} is left out"))
            return
        way = [(place, told) for place, (tag, told) in enumerate(self.stack) if tag == "pci"]
        own = way[-1][1] if way else {}
        cpu = next((told for tag, told in self.stack if tag == "cpu"), {})
        numa = _int(cpu.get("numaid"))
        self.placed[name] = Placed(
            cpu=(cpu.get("host_hash", ""), numa) if numa is not None and numa >= 0 else None,
            bridges=tuple(told.get("busid", "") for _, told in way[:-1]),
            bus_id=own.get("busid", ""),
        )
        speed_mbit = _int(told.get("speed"))
        self.devices[name] = Device(
            name,
            kind,
            bus_id=own.get("busid", ""),
            cpus=_cpus(cpu.get("affinity", "")),
            numa=(numa,) if numa is not None and numa >= 0 else (),
            capacity_bytes_per_s=speed_mbit * 1e6 / 8 if kind == "nic" and speed_mbit else None,
            pcie_bytes_per_s=_pcie(own),
            compute_capability=_int(told.get("sm")) if kind == "gpu" else None,
        )
        if kind == "nic" and told.get("port", "").isdigit():
            self.ports[name] = told["port"]

    def _nvlink(self, told: Mapping[str, str]) -> None:
        gpu = next((f"GPU{at.get('dev', '')}" for tag, at in reversed(self.stack) if tag == "gpu"), "")
        count = _int(told.get("count"))
        if (
            gpu in self.placed
            and count is not None
            and 0 < count <= 1000
            and len(self.placed[gpu].nvlinks) < MAX_DEVICES
        ):
            self.placed[gpu].nvlinks.append((told.get("target", ""), count, told.get("tclass", "")))


class _Target:
    """What ElementTree's parser calls; text and comments are not looked at."""

    def __init__(self, found: _Found) -> None:
        self.start, self.end = found.start, found.end

    def close(self) -> None:
        """Nothing is built."""


def read_nccl_xml(text: str, source: str, host: str) -> Reading:
    """The inside of ``host``.

    Raises:
        BadReply: it is no XML of NCCL's, or it holds a document type, which is refused.
    """
    if _FORBIDDEN.search(text):
        raise BadReply(source, "holds a document type or an entity, which is refused", mend="NCCL writes none")
    found = _Found(source)
    parser = ElementTree.XMLParser(target=_Target(found))
    try:
        parser.feed(text)
        parser.close()
    except ElementTree.ParseError as odd:
        raise BadReply(source, f"is no XML ({odd})", mend="Was the file cut?") from odd
    if not found.devices:
        raise BadReply(source, "names no GPU and no NIC")
    machine = Machine(host, tuple(found.devices.values()), _between(found), source=source)
    links = tuple(
        Link(LinkId(f"{host}:{name}", port, "nic"), host, "", found.devices[name].capacity_bytes_per_s)
        for name, port in found.ports.items()
    )
    unknowns = (f"{source} holds {len(found.hosts)} hosts; all are taken for {host}",) if len(found.hosts) > 1 else ()
    return Reading(
        FORMAT, Topology(links=links, source=source, machines={host: machine}, unknowns=unknowns), tuple(found.findings)
    )


def _between(found: _Found) -> dict[tuple[str, str], Distance]:
    ways: dict[tuple[str, str], Distance] = {}
    for a, b in combinations(found.placed, 2):
        way = pcie_way(found.placed[a], found.placed[b])
        if way is not None:
            ways[pair(a, b)] = way
    return ways | nvlink_ways(found.placed)


def _pcie(told: Mapping[str, str]) -> float | None:
    """Bytes per second of one direction."""
    match, lanes = _SPEED.match(told.get("link_speed", "")), _int(told.get("link_width"))
    if match is None or not lanes:
        return None
    rate = float(match[1])
    return rate * 1e9 * (0.8 if rate <= _GEN1_AND_2 else 128 / 130) * lanes / 8


def _cpus(mask: str) -> tuple[tuple[int, int], ...]:
    """Closed ranges of a mask of 32-bit words, the highest first."""
    words = mask.split(",")
    if len(words) > 256 or not all(re.fullmatch(r"[0-9a-fA-F]{1,8}", word) for word in words):
        return ()
    bits = int("".join(word.zfill(8) for word in words), 16)
    found: list[tuple[int, int]] = []
    for cpu in range(bits.bit_length()):
        if bits >> cpu & 1:
            found[-1:] = [(found[-1][0], cpu)] if found and found[-1][1] == cpu - 1 else [*found[-1:], (cpu, cpu)]
    return tuple(found)


def _int(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"-?[0-9]{1,9}", text) else None
