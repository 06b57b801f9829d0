"""A pretend Kubernetes API that gives lists, page by page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from collectors.base import Collector
from collectors.kubernetes.client import KubernetesLists
from collectors.kubernetes.collector import KubernetesCollector
from telemetry.samples import Window
from tests.kit.page_server import Handler, broken_page, endless_page, serve, slow_page, text_page
from tests.kit.prometheus_server import free_port


def pod(name: str, node: str = "", gpus: int = 1, **more: Any) -> dict[str, Any]:
    """A pod that asks for GPUs, running when it has a node."""
    resource = more.pop("resource", "nvidia.com/gpu")
    meta = {"namespace": "ml", "name": name, "uid": f"uid-{name}", **more.pop("meta", {})}
    containers = [{"name": "main", "resources": {"limits": {resource: str(gpus)}}}] if gpus else [{"name": "main"}]
    spec = {"containers": containers, **({"nodeName": node} if node else {}), **more.pop("spec", {})}
    status = {"phase": "Running" if node else "Pending", "startTime": "2026-11-30T20:00:00Z", **more.pop("status", {})}
    return {"metadata": meta, "spec": spec, "status": status}


def node(name: str, gpus: int = 8, **more: Any) -> dict[str, Any]:
    """A ready node with GPUs."""
    capacity = {"cpu": "64", **({"nvidia.com/gpu": str(gpus)} if gpus else {}), **more.pop("capacity", {})}
    status = {"capacity": capacity, "conditions": [{"type": "Ready", "status": more.pop("ready", "True")}]}
    return {
        "metadata": {"name": name, "labels": more.pop("labels", {})},
        "spec": more.pop("spec", {}),
        "status": status,
    }


def lists(asked: list[str] | None = None, **paths: Sequence[dict[str, Any]]) -> Handler:
    """Serves lists by the last part of their path, in pages of the size asked for; others are not found."""

    async def handler(request: web.Request) -> web.StreamResponse:
        name = request.path.rpartition("/")[2]
        if asked is not None:
            asked.append(f"{request.path}?{request.query_string}")
        if name not in paths:
            return web.json_response({"kind": "Status", "code": 404, "message": "not found"}, status=404)
        first, limit = int(request.query.get("continue", "0")), int(request.query["limit"])
        items = list(paths[name])[first : first + limit]
        more = {"continue": str(first + limit)} if first + limit < len(paths[name]) else {}
        return web.json_response({"kind": "List", "apiVersion": "v1", "metadata": more, "items": items or None})

    return handler


_PODS = [pod("train-0", "gpu-01", 2)]
_CONDITIONS: dict[str, Handler] = {
    "good": lists(nodes=[node("gpu-01")], pods=_PODS),
    "slow": slow_page(5.0),
    "huge": endless_page(b"{" * 100),
    "torn": broken_page(b'{"kind": "List", "items": [{'),
    "empty": lists(nodes=[], pods=[]),
    # A node that shares its cards tells no number of cards in use.
    "nan": lists(
        nodes=[
            node("gpu-01"),
            node("gpu-02", labels={"nvidia.com/gpu.sharing-strategy": "time-slicing", "nvidia.com/gpu.replicas": "2"}),
        ],
        pods=[*_PODS, pod("small", "gpu-02")],
    ),
    "duplicate": lists(nodes=[node("gpu-01"), node("gpu-01")], pods=_PODS * 2),
    "not_text": text_page(b"\xff\xfe\x00"),
}


class KubernetesStage:
    """An API server in every condition."""

    window = Window(1000.0, 1000.0)

    @asynccontextmanager
    async def collector(self, condition: str) -> AsyncIterator[Collector]:
        """A collector of such a server."""
        if condition == "dead":
            async with _reading(f"http://127.0.0.1:{free_port()}") as collector:
                yield collector
            return
        async with serve(_CONDITIONS[condition]) as url, _reading(url) as collector:
            yield collector


@asynccontextmanager
async def _reading(url: str) -> AsyncIterator[Collector]:
    collector = KubernetesCollector(KubernetesLists(url, timeout_s=0.5, max_bytes=1_000_000))
    try:
        yield collector
    finally:
        await collector.close()
