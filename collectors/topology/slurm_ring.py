"""Slurm's rings and three-dimensional tori: which hosts share one. Their neighbours inside it are not weighed.

A ring stands in ``topology.conf`` (``RingName=R Nodes=LIST``) or in ``topology.yaml``, a torus only in the latter, with
all hosts in one list or in regions (src/plugins/topology/ring/ring_record.c and torus3d/torus3d_record.c of Slurm).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from collectors.topology.reading import Reading, counted, short
from collectors.topology.slurm_lines import HostLists, aliases, config_lines, unread
from telemetry.errors import BadReply
from telemetry.samples import Finding, Problem
from telemetry.topology import RING, TORUS, Conflict, Topology

FORMAT = "Slurm rings"
KINDS = {"ring": RING, "torus3d": TORUS}
"""Slurm's word -> ours for the kind of domain."""
_LISTS = {"ring": ("rings",), "torus3d": ("toruses", "tori", "torus3ds")}
_NAMES = {"ring": ("ring", "name"), "torus3d": ("torus", "torus3d", "name")}
Group = tuple[str, tuple[str, ...], int | None]
"""Name, hosts in their order, and how many hosts the dimensions ask for; None where nothing asks."""


def read_rings(text: str, source: str) -> Reading:
    """The rings of a ``topology.conf``.

    Raises:
        BadReply: no ring can be read, or the file is too large.
    """
    lists, findings, groups = HostLists(source), [], []
    for number, keys in config_lines(text):
        if "ringname" not in keys:
            continue
        if not keys["ringname"] or not keys.get("nodes"):
            findings.append(unread(source, number, keys, "a ring needs a name and Nodes="))
            continue
        groups.append((keys["ringname"], lists.expand(keys["nodes"], f"line {number}, Nodes"), None))
    topology, wrong = group_topology("ring", groups, source, aliases(text))
    return Reading(FORMAT, topology, (*lists.findings, *findings, *wrong))


def groups_of(kind: str, body: Any, where: str, lists: HostLists) -> list[Group]:
    """The rings or tori below the kind's word in ``topology.yaml``."""
    rows = next((body[name] for name in _LISTS[kind] if isinstance(body.get(name), list)), []) if _is(body) else body
    found: list[Group] = []
    for row in (row for row in (rows if isinstance(rows, list) else []) if _is(row)):
        name = next((str(row[word]) for word in _NAMES[kind] if isinstance(row.get(word), str)), "")
        regions = row.get("regions")
        parts = [row, *(part for part in regions if _is(part))] if isinstance(regions, list) else [row]
        hosts = [
            host
            for part in parts
            for host in lists.expand(host_text(part.get("nodes")), f"{where}, {kind} {short(name)}")
        ]
        if name:
            found.append((name, tuple(hosts), _size(row) if len(parts) == 1 else None))
    return found


def group_topology(
    kind: str, groups: Iterable[Group], source: str, real_names: dict[str, str]
) -> tuple[Topology, tuple[Finding, ...]]:
    """A topology from rings or tori, and what is wrong with them.

    Raises:
        BadReply: there is none.
    """
    homes: dict[str, str] = {}
    conflicts: list[Conflict] = []
    findings: list[Finding] = []
    names: set[str] = set()
    for name, hosts, size in groups:
        if name in names:
            findings.append(Finding(Problem.DUPLICATE_SERIES, source, f"the {kind} {short(name)} is told twice"))
        names.add(name)
        if size is not None and size != len(hosts):
            detail = f"the {kind} {short(name)} has {counted(len(hosts), 'host')}, and its dimensions ask for {size}"
            findings.append(Finding(Problem.INCONSISTENT, source, detail))
        for host in hosts:
            kept = homes.setdefault(host, name)
            if kept != name:
                conflicts.append(Conflict(host, kind, ((source, kept), (source, name)), kept))
    if not names:
        raise BadReply(source, f"names no {kind}", mend="Each needs a name and its nodes")
    real = {other: name for name, other in real_names.items() if name in names}
    note = f"{source} tells a {kind}: which hosts are neighbours in it is not used, only that they share it"
    topology = Topology(
        source=source, domain_of={KINDS[kind]: homes}, aliases=real, conflicts=tuple(conflicts), unknowns=(note,)
    )
    return topology, tuple(findings)


def _size(row: dict[str, Any]) -> int | None:
    dims = row.get("dims")
    sides = dims if isinstance(dims, dict) else row
    numbers = [str(sides.get(side, "")) for side in ("x", "y", "z")]
    if not all(number.isascii() and number.isdigit() and len(number) <= 6 for number in numbers):
        return None
    x, y, z = map(int, numbers)
    return x * y * z


def _is(value: Any) -> bool:
    return isinstance(value, dict)


def host_text(value: Any) -> str:
    """A host list that YAML gives as a text or as a list of texts."""
    return ",".join(str(item) for item in value) if isinstance(value, list) else str(value or "")
