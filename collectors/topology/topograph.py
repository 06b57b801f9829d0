"""Topograph's graph (JSON): instances with the network layers above them, nearest first."""

from __future__ import annotations

from typing import Any

from collectors.topology.node_labels import Node, topology_of_nodes
from collectors.topology.reading import MAX_TIERS, Reading, short
from telemetry.errors import BadReply
from telemetry.samples import Finding, Problem
from telemetry.topology import Topology

FORMAT = "Topograph graph"


def is_graph(document: Any) -> bool:
    """Whether a JSON document has the shape of Topograph's graph."""
    return isinstance(document, dict) and isinstance(document.get("instances"), list)


def read_graph(document: Any, source: str) -> Reading:
    """Switches above each instance, and the accelerator domains that its labels name.

    Raises:
        BadReply: no instance has an id.
    """
    paths: dict[str, tuple[str | None, ...]] = {}
    nodes: list[Node] = []
    findings: list[Finding] = []
    for place, item in enumerate(document["instances"], 1):
        host = item.get("id") if isinstance(item, dict) else None
        if not isinstance(host, str) or not host:
            findings.append(Finding(Problem.MALFORMED_LINE, source, f"instance {place} has no id"))
            continue
        if host in paths:
            findings.append(Finding(Problem.DUPLICATE_SERIES, source, f"the instance {short(host)} is told twice"))
            continue
        layers = item.get("network_layers")
        told = layers[:MAX_TIERS] if isinstance(layers, list) else []
        path = tuple(layer if isinstance(layer, str) and layer else None for layer in told)
        paths[host] = path if any(path) else ()
        labels = item.get("labels")
        nodes.append(Node(host, labels if isinstance(labels, dict) else {}))
    if not paths:
        raise BadReply(source, "names no instance")
    labelled = topology_of_nodes(nodes, source)
    known = {host: path for host, path in paths.items() if path}
    leaf_of = {host: path[0] for host, path in known.items() if path[0] is not None}
    whole = Topology(
        leaf_of=leaf_of,
        source=source,
        paths=paths,
        domain_of=labelled.topology.domain_of,
        machines=labelled.topology.machines,
        conflicts=labelled.topology.conflicts,
    )
    return Reading(FORMAT, whole, (*findings, *labelled.findings))
