"""Lists of the Kubernetes API as ``gpucast inspect`` shows them. Pure; never raises on any bytes."""

from __future__ import annotations

from typing import Any

import orjson

from collectors.inspection import Inspection, count_text, rows_of
from collectors.kubernetes.devices import read_pod_resources
from collectors.kubernetes.objects import read_node, read_pod
from collectors.kubernetes.owners import claims_of, job_records, nodes_gpus
from collectors.node_counts import NodeCounts
from collectors.roster_text import roster_facts, roster_summary
from telemetry.roster import Roster

NAME = "Kubernetes pod or node list"


def read_kubernetes(data: bytes, source: str) -> Inspection | None:
    """A list of pods, of nodes or of both, or the kubelet's pod resources; None for anything else."""
    if data.lstrip()[:1] != b"{":
        return None
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(document, dict):
        return None
    if isinstance(document.get("podResources", document.get("pod_resources")), list):
        return _pod_resources(document, source)
    kind, items = document.get("kind"), document.get("items")
    if kind not in ("PodList", "NodeList", "List") or not isinstance(document.get("apiVersion"), str):
        return None
    return _lists(
        [item for item in items if isinstance(item, dict)] if isinstance(items, list) else [], str(kind), source
    )


def _lists(items: list[dict[str, Any]], kind: str, source: str) -> Inspection | None:
    def are(one: str) -> list[dict[str, Any]]:
        # Objects inside a PodList carry no kind of their own.
        return [item for item in items if item.get("kind", kind.removesuffix("List")) == one]

    pods = [pod for pod in map(read_pod, are("Pod")) if pod is not None]
    nodes = {node.name: node for node in map(read_node, are("Node")) if node is not None}
    roster = Roster(0.0, source, tuple(job_records(pods, nodes)), tuple(nodes_gpus(nodes.values(), pods)))
    batch = NodeCounts(source).batch(roster.nodes, 0.0)
    facts = roster_facts(roster, claims_of(pods, nodes))
    summary = f"{len(items)} objects; {roster_summary(roster)}: {count_text(batch)}"
    return Inspection(source, NAME, summary, rows_of(batch, False), (), facts)


def _pod_resources(document: dict[str, Any], source: str) -> Inspection:
    found = read_pod_resources(document)
    facts = tuple(
        f"{namespace}/{pod} has {', '.join((*devices.uuids, *devices.slices))}{' as shares' if devices.shared else ''}"
        for (namespace, pod), devices in sorted(found.items())
    )
    summary = f"kubelet's pod resources: {len(found)} pods with devices"
    return Inspection(source, NAME, summary, (), (), facts[:200])
