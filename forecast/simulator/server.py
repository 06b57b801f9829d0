"""The simulated cluster on loopback HTTP: exporter pages, their list, the truth, and the one thing it obeys.

Routes: ``/dcgm/{node}/metrics``, ``/node/{node}/metrics``, ``/switch/{switch}/metrics``, ``/targets`` (Prometheus
http_sd), ``/control/state`` (truth), ``POST /control/shift``. Simulated time follows the clock given.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from forecast.simulator.cluster import SimCluster
from forecast.simulator.exporters import DcgmPages, node_page, switch_page
from forecast.simulator.exposition import CONTENT_TYPE
from forecast.simulator.loopback import LOOPBACK, listen
from forecast.simulator.scenarios import ClusterSpec
from forecast.simulator.truth import cluster_truth
from telemetry.clock import Clock
from telemetry.errors import ConfigError


class ShiftRequest(BaseModel):
    """Body of ``POST /control/shift``.

    Args:
        job: id as ``kubernetes:namespace:name``, or the bare name.
        offset_s: one pause before the job's next iteration.
        advice_id: the same id twice pauses once; empty means no such guard.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    job: str = Field(min_length=1, max_length=300)
    offset_s: float = Field(allow_inf_nan=False)
    advice_id: str = Field(default="", max_length=200)


class SimServer:
    """One cluster behind routes."""

    def __init__(self, cluster: SimCluster, clock: Clock) -> None:
        self.cluster, self._clock = cluster, clock
        self.base_url = ""
        self.started_s = clock.now()
        self._started_monotonic_s = clock.monotonic()
        self._dcgm = DcgmPages(cluster)
        self._obeyed: set[str] = set()
        self._switches = frozenset(cluster.fabric.leaves + cluster.fabric.spines)

    def app(self) -> web.Application:
        """The routes."""
        app = web.Application(client_max_size=64 * 1024)
        app.add_routes(
            [
                web.get("/dcgm/{node}/metrics", self._get_dcgm),
                web.get("/node/{node}/metrics", self._get_node),
                web.get("/switch/{switch}/metrics", self._get_switch),
                web.get("/targets", self._get_targets),
                web.get("/control/state", self._get_state),
                web.post("/control/shift", self._post_shift),
            ]
        )
        return app

    def catch_up(self) -> None:
        """Bring simulated time to the clock's."""
        self.cluster.advance(self._clock.monotonic() - self._started_monotonic_s)

    def targets(self) -> list[dict[str, Any]]:
        """Every page, in Prometheus http_sd form; ``instance`` is the host or switch, as sites relabel it."""
        host = self.base_url.removeprefix("http://")
        nodes = self.cluster.fabric.spec.nodes
        groups = [
            *(("dcgm-exporter", "dcgm", "node", node) for node in nodes),
            *(("node-exporter", "node", "node", node) for node in nodes),
            *(("infiniband-exporter", "switch", "switch", name) for name in sorted(self._switches)),
        ]
        return [
            {
                "targets": [host],
                "labels": {"__metrics_path__": f"/{path}/{name}/metrics", "job": job, "instance": name, kind: name},
            }
            for job, path, kind, name in groups
        ]

    async def _get_dcgm(self, request: web.Request) -> web.Response:
        node = self._known_node(request)
        self.catch_up()
        return _page(self._dcgm.page(node))

    async def _get_node(self, request: web.Request) -> web.Response:
        node = self._known_node(request)
        self.catch_up()
        return _page(node_page(self.cluster, node))

    async def _get_switch(self, request: web.Request) -> web.Response:
        name = request.match_info["switch"]
        if name not in self._switches:
            raise _problem(404, f"no switch {name!r}; switches are {', '.join(sorted(self._switches))}")
        self.catch_up()
        return _page(switch_page(self.cluster, name))

    async def _get_targets(self, _: web.Request) -> web.Response:
        return web.json_response(self.targets())

    async def _get_state(self, _: web.Request) -> web.Response:
        self.catch_up()
        return web.json_response(cluster_truth(self.cluster, self.started_s, self._clock.now()))

    async def _post_shift(self, request: web.Request) -> web.Response:
        try:
            wish = ShiftRequest.model_validate_json(await request.read())
        except ValidationError as error:
            fault = error.errors()[0]
            where = ".".join(str(part) for part in fault["loc"]) or "body"
            raise _problem(422, f"{where}: {fault['msg']}") from error
        self.catch_up()
        if wish.advice_id and wish.advice_id in self._obeyed:
            return web.json_response({"applied": False, "detail": f"advice {wish.advice_id} was applied before"})
        if not any(wish.job in (str(job.spec.id), job.spec.name) for job in self.cluster.jobs):
            raise _problem(404, f"no job {wish.job!r}")
        try:
            job = self.cluster.shift(wish.job, wish.offset_s)
        except ConfigError as error:
            raise _problem(422, str(error)) from error
        if wish.advice_id:
            self._obeyed.add(wish.advice_id)
        detail = f"{job.spec.id} pauses {wish.offset_s:g} s before its next iteration"
        return web.json_response({"applied": True, "detail": detail})

    def _known_node(self, request: web.Request) -> str:
        node = request.match_info["node"]
        if node not in self.cluster.fabric.node_index:
            raise _problem(404, f"no node {node!r}; nodes are {', '.join(self.cluster.fabric.spec.nodes)}")
        return node


def _page(body: bytes) -> web.Response:
    return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE})


def _problem(status: int, detail: str) -> web.HTTPException:
    kind = {404: web.HTTPNotFound, 422: web.HTTPUnprocessableEntity}[status]
    body = json.dumps({"type": "about:blank", "title": kind().reason, "status": status, "detail": detail})
    return kind(text=body, content_type="application/problem+json")


@asynccontextmanager
async def serve_cluster(
    spec: ClusterSpec, *, seed: int, clock: Clock, port: int = 0, host: str = LOOPBACK
) -> AsyncIterator[SimServer]:
    """Serve a cluster while the context lasts; ``base_url`` of the value says where.

    Raises:
        ConfigError: the port is taken, or the spec does not fit together.
    """
    server = SimServer(SimCluster(seed, spec), clock)
    async with listen(server.app(), host=host, port=port, what="the simulated cluster") as bound:
        server.base_url = f"http://{host}:{bound}"
        yield server
