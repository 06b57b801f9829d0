"""Ways between devices in NCCL's PCIe tree. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations

from telemetry.distance import Distance, Reach
from telemetry.machine import pair

_SWITCH_CLASS = "0x068000"
"""PCI class of an NVSwitch."""


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a device sits.

    Args:
        cpu: (host hash, NUMA node); None when the NUMA node is not told.
        bridges: PCI addresses of the bridges above it, the outermost first.
        bus_id: its own PCI address.
        nvlinks: (target, how many, class of the target) of each bundle of NVLinks.
    """

    cpu: tuple[str, int] | None
    bridges: tuple[str, ...]
    bus_id: str
    nvlinks: list[tuple[str, int, str]] = field(default_factory=list)


def pcie_way(a: Placed, b: Placed) -> Distance | None:
    """PIX, PXB, PHB or SYS, in NCCL's sense: PHB is any way over the host bridges of one NUMA node."""
    common = 0
    for mine, its in zip(a.bridges, b.bridges, strict=False):
        if not mine or mine != its:
            break
        common += 1
    if a.bus_id and a.bus_id == b.bus_id:
        return Distance(Reach.PIX)
    if common:
        crossed = len(a.bridges) + len(b.bridges) - 2 * common + 1
        return Distance(Reach.PIX if crossed == 1 else Reach.PXB)
    if a.cpu is None or b.cpu is None:
        return None
    return Distance(Reach.PHB if a.cpu == b.cpu else Reach.SYS)


def nvlink_ways(placed: Mapping[str, Placed]) -> dict[tuple[str, str], Distance]:
    """Pairs of GPUs with NVLink, direct or through NVSwitches, where each GPU's whole bundle counts."""
    by_bus = {place.bus_id: name for name, place in placed.items() if place.bus_id}
    ways: dict[tuple[str, str], Distance] = {}
    switched: dict[str, int] = {}
    for name, place in placed.items():
        for target, count, kind in place.nvlinks:
            peer = by_bus.get(target)
            if peer is not None and peer != name:
                ways[pair(name, peer)] = Distance(Reach.NVLINK, count)
            elif kind == _SWITCH_CLASS:
                switched[name] = switched.get(name, 0) + count
    for a, b in combinations(switched, 2):
        ways[pair(a, b)] = Distance(Reach.NVLINK, min(switched[a], switched[b]))
    return ways
