"""A topology as lines of text: a tree of switches and hosts, the inside of hosts, domains, conflicts, unknowns. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TypeVar

from collectors.hostlists import fold_hosts
from collectors.topology.reading import counted
from telemetry.machine import Machine
from telemetry.topology import NVLINK, Topology

Row = TypeVar("Row")

_UNKNOWN_SWITCH = "? (not told)"
_MAX_LISTED = 40
"""Domains, conflicts and unknowns shown of each kind; --json has all of them."""


def drawn(topology: Topology) -> list[str]:
    """All of it, as lines."""
    if not topology.hosts:
        return ["topology unknown: no source tells of any host"]
    lines = [_headline(topology), *_tree(topology)]
    lines += _section("inside of hosts", _insides(topology))
    lines += _section("domains", _domains(topology))
    lines += _section("names for one thing", [f"{a} = {b}" for a, b in sorted(topology.aliases.items())])
    lines += _section("conflicts", [str(conflict) for conflict in topology.conflicts])
    return lines + _section("unknown", list(topology.unknowns))


def _headline(topology: Topology) -> str:
    leaves = len(set(topology.leaf_of.values()))
    parts = [counted(len(topology.hosts), "host"), counted(leaves, "leaf switch") if leaves else "no leaf switch known"]
    gpus = [machine.gpu_count for machine in topology.machines.values()]
    known = [count for count in gpus if count is not None]
    if known:
        parts.append(f"{counted(sum(known), 'GPU')} in {counted(len(known), 'host')}")
    return ", ".join(parts)


def _section(title: str, rows: list[str]) -> list[str]:
    if not rows:
        return []
    shown = [f"  {row}" for row in rows[:_MAX_LISTED]]
    more = [f"  ... {len(rows) - _MAX_LISTED} more; --json has all"] if len(rows) > _MAX_LISTED else []
    return ["", title, *shown, *more]


def _tree(topology: Topology) -> list[str]:
    below: dict[str, set[str]] = {}
    hosts: dict[str, list[str]] = {}
    roots: set[str] = set()
    loose: list[str] = []
    for host in topology.hosts:
        path = topology.path(host)
        names = [switch or _UNKNOWN_SWITCH for switch in path]
        if not names:
            loose.append(host)
            continue
        hosts.setdefault(names[0], []).append(host)
        roots.add(names[-1])
        for low, high in pairwise(names):
            below.setdefault(high, set()).add(low)
    lines: list[str] = []
    inner = {low for lows in below.values() for low in lows}
    for root in sorted(roots - inner) or sorted(roots):
        lines.append(root)
        lines += _branch(root, below, hosts, topology, "", frozenset({root}))
    if loose:
        lines.append("no switch known")
        lines += [f"{'└─' if last else '├─'} {row}" for row, last in _with_last(_host_rows(loose, topology))]
    return lines


def _branch(
    name: str,
    below: Mapping[str, set[str]],
    hosts: Mapping[str, list[str]],
    topology: Topology,
    indent: str,
    above: frozenset[str],
) -> list[str]:
    rows: list[tuple[str, bool]] = [(row, False) for row in _host_rows(hosts.get(name, []), topology)]
    rows += [(low, True) for low in sorted(below.get(name, ())) if low not in above]
    lines: list[str] = []
    for (row, is_switch), last in _with_last(rows):
        lines.append(f"{indent}{'└─' if last else '├─'} {row}")
        if is_switch:
            deeper = indent + ("   " if last else "│  ")
            lines += _branch(row, below, hosts, topology, deeper, above | {row})
    return lines


def _with_last(rows: Sequence[Row]) -> Iterable[tuple[Row, bool]]:
    return ((row, place == len(rows) - 1) for place, row in enumerate(rows))


def _host_rows(hosts: list[str], topology: Topology) -> list[str]:
    """Hosts that look alike in one line."""
    groups: dict[str, list[str]] = {}
    for host in hosts:
        groups.setdefault(_host_text(host, topology), []).append(host)
    return [fold_hosts(names) + (f"  {text}" if text else "") for text, names in sorted(groups.items(), key=_first)]


def _first(group: tuple[str, list[str]]) -> str:
    return min(group[1])


def _host_text(host: str, topology: Topology) -> str:
    machine, domain = topology.machines.get(host), topology.domain_of.get(NVLINK, {}).get(host, "")
    parts = [_gpus_text(machine)] if machine is not None else []
    return ", ".join(part for part in (*parts, f"NVLink domain {domain}" if domain else "") if part)


def _gpus_text(machine: Machine) -> str:
    model = machine.product or "GPU"
    text = f"{machine.gpu_count} x {model}" if machine.gpu_count is not None else f"? x {model}" * bool(machine.product)
    cut: dict[str, int] = {}
    for piece in machine.mig:
        cut[piece.profile] = cut.get(piece.profile, 0) + piece.count
    slices = " + ".join(f"{count} x {profile}" for profile, count in sorted(cut.items()))
    return text + (f" cut into {slices}" if slices else "")


def _insides(topology: Topology) -> list[str]:
    groups: dict[tuple[str, ...], list[str]] = {}
    for host, machine in topology.machines.items():
        rows = tuple(_inside(machine))
        if rows:
            groups.setdefault(rows, []).append(host)
    lines: list[str] = []
    for rows, hosts in sorted(groups.items(), key=lambda group: min(group[1])):
        lines += [fold_hosts(hosts), *(f"  {row}" for row in rows)]
    return lines


def _inside(machine: Machine) -> list[str]:
    rows = []
    for names in machine.nvlink_domains:
        gpus = [gpu.name for gpu in machine.gpus if gpu.name in names]
        ways = sorted({str(machine.distance(a, b) or "?") for a in gpus for b in gpus if a < b})
        rows.append(f"NVLink {' '.join(gpus)}: {', '.join(ways)}")
    for gpu in machine.gpus:
        nics = machine.best_nics(gpu.name)
        best = f"nearest NIC {', '.join(nic.name for nic, _ in nics)} ({nics[0][1]})" if nics else ""
        numa = f"NUMA {gpu.numa_node}" if gpu.numa_node is not None else ""
        slices = " ".join(
            piece.profile + (f"@{piece.start}" if piece.start is not None else "")
            for piece in machine.mig
            if piece.gpu == gpu.name
        )
        told = ", ".join(part for part in (best, numa, f"MIG {slices}" if slices else "") if part)
        if told:
            rows.append(f"{gpu.name}: {told}")
    rows += [f"{nic.name}: {nic.capacity_bytes_per_s / 1e9:g} GB/s" for nic in machine.nics if nic.capacity_bytes_per_s]
    return rows


def _domains(topology: Topology) -> list[str]:
    return [
        f"{kind} {name}: {fold_hosts(hosts)}"
        for kind in topology.domain_of
        for name, hosts in topology.domains(kind).items()
    ]
