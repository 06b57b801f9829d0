"""The nodes' labels, from which the topology room reads where hosts stand."""

from __future__ import annotations

from typing import Any

import orjson

from collectors.kubernetes.client import KubernetesLists, ListFailed
from telemetry.errors import BadReply, SourceUnreachable
from telemetry.samples import Problem

_NO_ANSWER = (Problem.UNREACHABLE, Problem.TIMEOUT)


async def node_labels_json(lists: KubernetesLists, source: str) -> bytes:
    """A list of nodes with nothing but their names and labels, sorted by name, as ``kubectl get nodes -o json`` has them.

    Raises:
        SourceUnreachable: no answer.
        BadReply: a refusal, or nothing that can be used.
    """
    found: dict[str, dict[str, Any]] = {}
    try:
        async for items in lists.items("/api/v1/nodes"):
            for item in items:
                about = item.get("metadata") if isinstance(item, dict) else None
                if isinstance(about, dict) and isinstance(about.get("name"), str):
                    found[about["name"]] = {"name": about["name"], "labels": about.get("labels") or {}}
    except ListFailed as failed:
        kind = SourceUnreachable if failed.problem in _NO_ANSWER else BadReply
        raise kind(source, failed.detail) from failed
    if not found:
        raise BadReply(source, "the cluster lists no nodes")
    nodes = [{"kind": "Node", "metadata": found[name]} for name in sorted(found)]
    return orjson.dumps({"kind": "List", "items": nodes}, option=orjson.OPT_SORT_KEYS)
