"""Labels of Kubernetes nodes: clouds, both generations of Topograph's, GPU feature discovery, levels that a site names.

A label that is missing or empty means unknown, never a domain that hosts without it share.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from collectors.topology.gpu_labels import machine_of
from collectors.topology.merge import merge
from collectors.topology.reading import MAX_TIERS, Reading, counted
from telemetry.errors import BadReply
from telemetry.samples import Finding, Problem
from telemetry.topology import NVLINK, Topology

FORMAT = "Kubernetes node labels"
HOSTNAME = "kubernetes.io/hostname"
CLIQUE = "nvidia.com/gpu.clique"

FABRICS: Mapping[str, tuple[str, ...]] = {
    "Topograph": tuple(f"fabric.topograph.run/tier-{tier}" for tier in range(MAX_TIERS)),
    "Topograph before mid-2026": tuple(f"network.topology.nvidia.com/{tier}" for tier in ("leaf", "spine", "core")),
    "AWS": tuple(f"topology.k8s.aws/network-node-layer-{layer}" for layer in (4, 3, 2, 1)),
    "GCP": tuple(f"cloud.google.com/gce-topology-{tier}" for tier in ("subblock", "block")),
    "OCI": (
        "oci.oraclecloud.com/host.rack_id",
        "oci.oraclecloud.com/host.network_block_id",
        "oci.oraclecloud.com/host.hpc_island_id",
    ),
}
"""Who writes them -> labels of the switches or racks above a host, nearest first. Azure writes none."""

DOMAINS: Mapping[str, tuple[str, str]] = {
    "accelerator.topograph.run/domain": ("Topograph", NVLINK),
    "accelerator.topograph.run/sub-domain": ("Topograph", "nvlink sub-domain"),
    "network.topology.nvidia.com/accelerator": ("Topograph before mid-2026", NVLINK),
    "cloud.google.com/gce-topology-host": ("GCP", "physical host"),
    "topology.k8s.aws/ultraserver-id": ("AWS", "rack"),
    "topology.k8s.aws/capacity-block-id": ("AWS", "capacity block"),
    "topology.kubernetes.io/zone": ("Kubernetes", "zone"),
    "topology.kubernetes.io/region": ("Kubernetes", "region"),
}
"""Label -> who writes it, and the kind of domain that it names."""

_CLIQUE = re.compile(r"([0-9A-Za-z-]{1,64})\.([0-9]{1,10})")
_HASHED = re.compile(r"x[0-9a-f]{8,62}")


@dataclass(frozen=True, slots=True)
class Node:
    """A node's name and labels."""

    host: str
    labels: Mapping[str, Any]


def is_nodes(document: Any) -> bool:
    """Whether a JSON document is a node or a list of nodes, as ``kubectl get nodes -o json`` prints it."""
    if not isinstance(document, dict):
        return False
    items = document.get("items")
    if isinstance(items, list):
        return any(isinstance(item, dict) and isinstance(item.get("metadata"), dict) for item in items)
    return document.get("kind") == "Node" and isinstance(document.get("metadata"), dict)


def read_nodes(document: Any, source: str, levels: Sequence[str] = ()) -> Reading:
    """What the labels of all nodes tell together.

    Args:
        document: a node or a list of nodes.
        source: path or URL.
        levels: further labels that name what is above a host, nearest first, such as a Kueue topology's.

    Raises:
        BadReply: no node has a name.
    """
    items = document["items"] if isinstance(document.get("items"), list) else [document]
    nodes, unnamed = [], 0
    for item in items:
        about = item.get("metadata") if isinstance(item, dict) else None
        labels = about.get("labels") if isinstance(about, dict) else None
        labels = labels if isinstance(labels, dict) else {}
        name = about.get("name") if isinstance(about, dict) else None
        host = name or labels.get(HOSTNAME)
        if isinstance(host, str) and host:
            nodes.append(Node(host, labels))
        else:
            unnamed += 1
    if not nodes:
        raise BadReply(source, "names no node")
    reading = topology_of_nodes(nodes, source, levels)
    lost = [Finding(Problem.NO_NODE, source, "nodes without a name are left out", unnamed)] if unnamed else []
    return Reading(reading.format, reading.topology, (*lost, *reading.findings))


def topology_of_nodes(nodes: Sequence[Node], source: str, levels: Sequence[str] = ()) -> Reading:
    """What the labels of nodes tell; each writer of labels is a source of its own, so that they can be compared."""
    fabrics = {"levels of the site": tuple(levels), **FABRICS} if levels else FABRICS
    parts: list[Topology] = []
    findings: list[Finding] = []
    for writer, keys in fabrics.items():
        part = _fabric(nodes, keys, f"{source} ({writer})")
        if part is not None:
            parts.append(part)
    for label, (writer, kind) in DOMAINS.items():
        homes = {node.host: name for node in nodes if (name := _label(node, label))}
        if homes:
            parts.append(Topology(source=f"{source} ({writer})", domain_of={kind: homes}))
    feature_discovery, wrong = _gpus(nodes, f"{source} (GPU feature discovery)")
    parts.append(feature_discovery)
    findings += wrong
    return Reading(FORMAT, _named(merge(parts), nodes, source), tuple(findings))


def _fabric(nodes: Sequence[Node], keys: Sequence[str], source: str) -> Topology | None:
    """Paths from one writer's labels. The nearest label that any node carries is tier 0 for all of them."""
    told = {node.host: tuple(_label(node, key) or None for key in keys) for node in nodes}
    used = [tier for tier in range(len(keys)) if any(path[tier] for path in told.values())]
    if not used:
        return None
    paths = {
        host: tuple(path[used[0] : 1 + max(tier for tier in used if path[tier])])
        for host, path in told.items()
        if any(path)
    }
    partial = sorted(host for host, path in paths.items() if path[0] is None)
    unknowns: tuple[str, ...] = (f"{source}: {partial[0]} has no {keys[used[0]]}",) if partial else ()
    if len(partial) > 1:
        unknowns = (f"{source}: {counted(len(partial), 'host')} have no {keys[used[0]]} ({partial[0]}, ...)",)
    hashed = sorted({switch for path in paths.values() for switch in path if switch and _HASHED.fullmatch(switch)})
    if hashed:
        unknowns += (f"{source}: {hashed[0]} stands for a name of more than 63 characters",)
    leaf_of = {host: path[0] for host, path in paths.items() if path[0] is not None}
    return Topology(leaf_of, source=source, paths=paths, unknowns=unknowns)


def _gpus(nodes: Sequence[Node], source: str) -> tuple[Topology, list[Finding]]:
    cliques: dict[str, str] = {}
    racks: dict[str, str] = {}
    machines = {}
    findings: list[Finding] = []
    unknowns: list[str] = []
    for node in nodes:
        clique = _label(node, CLIQUE)
        match = _CLIQUE.fullmatch(clique)
        if match is not None:
            # The number repeats over racks, so the whole value is the NVLink domain; the UUID is the rack.
            cliques[node.host], racks[node.host] = clique, match[1]
        elif clique:
            detail = f"{node.host}: {CLIQUE} is not ClusterUUID.CliqueID, so its NVLink domain is unknown"
            findings.append(Finding(Problem.MALFORMED_LINE, source, detail))
        machine, notes = machine_of(node.host, node.labels, source)
        unknowns += notes
        if machine is not None:
            machines[node.host] = machine
    homes = {NVLINK: cliques, "rack": racks} if cliques else {}
    return Topology(source=source, domain_of=homes, machines=machines, unknowns=tuple(unknowns)), findings


def _named(whole: Topology, nodes: Iterable[Node], source: str) -> Topology:
    """The same with every node in it, so that a node without any label is seen as unknown, not as absent."""
    paths = {node.host: whole.path(node.host) for node in nodes}
    return Topology(
        whole.leaf_of,
        source=source,
        paths=paths,
        domain_of=whole.domain_of,
        machines=whole.machines,
        aliases=whole.aliases,
        said_by=whole.said_by,
        conflicts=whole.conflicts,
        unknowns=whole.unknowns,
    )


def _label(node: Node, key: str) -> str:
    value = node.labels.get(key)
    return value.strip() if isinstance(value, str) else ""
