"""Slurm's ``topology.yaml``: several topologies in one file. Where it exists, Slurm ignores ``topology.conf``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from collectors.topology.reading import Reading, short
from collectors.topology.slurm_block import Block, block_sizes, block_topology
from collectors.topology.slurm_lines import HostLists, aliases
from collectors.topology.slurm_ring import KINDS, group_topology, groups_of, host_text
from collectors.topology.slurm_tree import Switch, tree_topology
from collectors.topology.yaml_text import read_yaml
from telemetry.errors import BadReply
from telemetry.samples import Finding, Problem
from telemetry.topology import Topology

FORMAT = "Slurm topology.yaml"
_KINDS = ("tree", "block", "ring", "torus3d", "flat")
_TRUE = ("true", "yes", "on", "y")


def is_slurm_yaml(document: Any) -> bool:
    """Whether a YAML document has the shape of ``topology.yaml``."""
    return isinstance(document, list) and any(isinstance(item, dict) and "topology" in item for item in document)


def read_slurm_yaml(text: str, source: str) -> Reading:
    """Tree, blocks, ring and torus of the file: of each kind the cluster's default, else the first.

    Raises:
        BadReply: it is no YAML of this shape, or it has none of them.
    """
    document = next((item for item in read_yaml(text, source) if is_slurm_yaml(item)), None)
    if document is None:
        raise BadReply(
            source, "is no list of topologies", mend="Each needs topology: NAME and one of tree, block, flat"
        )
    return _reading([item for item in document if isinstance(item, dict)], source, aliases(text))


def _reading(items: list[dict[str, Any]], source: str, real: Mapping[str, str]) -> Reading:
    lists, parts, unknowns = HostLists(source), [], []
    broken: list[BadReply] = []
    findings: list[Finding] = []
    items = sorted(items, key=lambda item: str(item.get("cluster_default", "")).lower() not in _TRUE)
    taken: dict[str, str] = {}
    for item in items:
        name, kinds = str(item.get("topology", "")), [kind for kind in _KINDS if kind in item]
        if len(kinds) != 1:
            detail = f"the topology {short(name)} has {' and '.join(kinds) or 'no kind'}; it needs exactly one kind"
            findings.append(Finding(Problem.MALFORMED_LINE, source, detail))
            continue
        kind = kinds[0]
        if kind in taken:
            unknowns.append(f"{source} also has the {kind} {name}, which is left out beside {taken[kind]}")
        elif kind != "flat":
            taken[kind] = name
            if lists.left < 0:
                break
            try:
                part, wrong = _part(kind, item[kind], name, source, lists, real)
            except BadReply as bad:
                broken.append(bad)
                continue
            parts.append(part)
            findings += wrong
    if broken and (not parts or lists.left < 0):
        raise broken[0]
    findings += [Finding(Problem.MALFORMED_LINE, source, str(bad)) for bad in broken]
    if not parts:
        raise BadReply(source, "has neither tree, blocks, ring nor torus3d", mend="A flat topology tells no distances")
    return Reading(FORMAT, _joined(parts, source, tuple(unknowns)), (*lists.findings, *findings))


def _part(
    kind: str, body: Any, name: str, source: str, lists: HostLists, real: Mapping[str, str]
) -> tuple[Topology, tuple[Finding, ...]]:
    where = f"{kind} {short(name)}"
    if kind == "tree":
        switches = [
            Switch(
                str(row["switch"]),
                lists.expand(host_text(row.get("children")), f"{where}, switch {row['switch']}"),
                lists.expand(host_text(row.get("nodes")), f"{where}, switch {row['switch']}"),
            )
            for row in _rows(body, "switches", "switch")
        ]
        return tree_topology(switches, source, real)
    if kind in KINDS:
        return group_topology(kind, groups_of(kind, body, where, lists), source, dict(real))
    sizes, wrong = _sizes(body, source)
    blocks = [
        Block(str(row["block"]), lists.expand(host_text(row.get("nodes")), f"{where}, block {row['block']}"))
        for row in _rows(body, "blocks", "block")
    ]
    topology, more = block_topology(blocks, sizes, source, real)
    return topology, (*wrong, *more)


def _sizes(body: Any, source: str) -> tuple[tuple[int, ...], list[Finding]]:
    told = body.get("block_sizes") if isinstance(body, dict) else None
    return block_sizes([str(size) for size in told], source) if isinstance(told, list) and told else ((), [])


def _rows(body: Any, name: str, needs: str) -> list[dict[str, Any]]:
    rows = body.get(name) if isinstance(body, dict) else None
    return [row for row in rows if isinstance(row, dict) and row.get(needs)] if isinstance(rows, list) else []


def _joined(parts: list[Topology], source: str, unknowns: tuple[str, ...]) -> Topology:
    """A tree and blocks of one file tell different things, so nothing of them can clash."""
    whole = Topology(source=source)
    for part in parts:
        whole = Topology(
            leaf_of=whole.leaf_of | part.leaf_of,
            source=source,
            paths={**whole.paths, **part.paths},
            domain_of={**whole.domain_of, **part.domain_of},
            aliases={**whole.aliases, **part.aliases},
            conflicts=whole.conflicts + part.conflicts,
            unknowns=whole.unknowns + part.unknowns,
        )
    return replace(whole, unknowns=whole.unknowns + unknowns)
