"""Slurm's tree of switches: ``topology.conf`` (SwitchName=) and ``scontrol show topology``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from collectors.topology.reading import MAX_TIERS, Reading, counted, short
from collectors.topology.slurm_lines import HostLists, aliases, config_lines, unread
from telemetry.errors import BadReply
from telemetry.samples import Finding, Problem
from telemetry.topology import Conflict, Topology

FORMAT = "Slurm tree"


@dataclass(frozen=True, slots=True)
class Switch:
    """One switch as a source tells it.

    Args:
        name: its name.
        children: switches below it.
        hosts: hosts below it, where there are no switches below it.
    """

    name: str
    children: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()


def read_tree(text: str, source: str) -> Reading:
    """The tree that the lines tell. ``LinkSpeed`` is left out: Slurm ignores it too.

    Raises:
        BadReply: no switch can be read, switches form a ring, or the file is too large.
    """
    lists, findings, switches = HostLists(source), [], []
    for number, keys in config_lines(text):
        if "switchname" not in keys:
            continue
        name, above, below = keys["switchname"], keys.get("switches", ""), keys.get("nodes", "")
        if not name:
            findings.append(unread(source, number, keys, "the switch has no name"))
            continue
        if above and below and "level" not in keys:
            findings.append(
                unread(source, number, keys, f"{short(name)} has Switches and Nodes; its Nodes are left out")
            )
        children = lists.expand(above, f"line {number}, Switches") if above else ()
        # A spine in scontrol's answer lists every host below it again.
        hosts = lists.expand(below, f"line {number}, Nodes") if below and not above else ()
        switches.append(Switch(name, children, hosts))
    topology, wrong = tree_topology(switches, source, aliases(text))
    return Reading(FORMAT, topology, (*lists.findings, *findings, *wrong))


def tree_topology(
    switches: Iterable[Switch], source: str, real_names: Mapping[str, str]
) -> tuple[Topology, tuple[Finding, ...]]:
    """A topology from switches, and what is wrong with them.

    Raises:
        BadReply: there is no switch, or switches form a ring.
    """
    known: dict[str, Switch] = {}
    conflicts: list[Conflict] = []
    findings: list[Finding] = []
    for switch in switches:
        if switch.name in known:
            findings.append(Finding(Problem.DUPLICATE_SERIES, source, f"the switch {short(switch.name)} is told twice"))
            continue
        known[switch.name] = switch
    if not known:
        raise BadReply(source, "names no switch", mend="A tree needs SwitchName= lines with Switches= or Nodes=")
    above = _one_each(((c, s.name) for s in known.values() for c in s.children), "switch above", source, conflicts)
    leaf_of = _one_each(((h, s.name) for s in known.values() for h in s.hosts), "leaf switch", source, conflicts)
    lost = sorted(set(above) - set(known))
    if lost:
        findings.append(Finding(Problem.PARTIAL, source, f"no line for the switch {short(lost[0])}", len(lost)))
    tops = {leaf: _way_up(leaf, above, source) for leaf in set(leaf_of.values())}
    return (
        Topology(
            leaf_of=leaf_of,
            source=source,
            paths={host: tops[leaf] for host, leaf in leaf_of.items()},
            aliases={real: name for name, real in real_names.items() if name in known},
            conflicts=tuple(conflicts),
            unknowns=_roots({way[-1] for way in tops.values()}, source),
        ),
        tuple(findings),
    )


def _one_each(pairs: Iterable[tuple[str, str]], what: str, source: str, conflicts: list[Conflict]) -> dict[str, str]:
    found: dict[str, str] = {}
    for below, above in pairs:
        kept = found.setdefault(below, above)
        if kept != above:
            conflicts.append(Conflict(below, what, ((source, kept), (source, above)), kept))
    return found


def _way_up(leaf: str, above: Mapping[str, str], source: str) -> tuple[str, ...]:
    way = [leaf]
    while (top := above.get(way[-1])) is not None:
        if top in way:
            raise BadReply(source, f"the switches {short(', '.join(way[way.index(top) :]))} are above each other")
        way.append(top)
        if len(way) > MAX_TIERS:
            raise BadReply(source, f"more than {MAX_TIERS} switches above {short(leaf)}")
    return tuple(way)


def _roots(tops: set[str], source: str) -> tuple[str, ...]:
    if len(tops) < 2:
        return ()
    some = ", ".join(sorted(tops)[:3]) + (", ..." if len(tops) > 3 else "")
    return (f"{source} does not say what connects {counted(len(tops), 'switch')} that have none above ({some})",)
