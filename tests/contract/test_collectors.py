"""Every built-in collector keeps the contract, whatever its source is like."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from collectors.base import Collector
from collectors.checks import CONDITIONS, yield_checks
from collectors.prometheus import PrometheusCollector
from collectors.registry import BUILTIN, load_collector
from collectors.scrape import ExporterCollector
from telemetry.errors import ConfigError
from telemetry.samples import Window
from tests.kit.fake_nvml import NvmlStage
from tests.kit.kubernetes import KubernetesStage
from tests.kit.nccl import InspectorStage, RasStage
from tests.kit.page_server import Handler, broken_page, endless_page, serve, slow_page, text_page
from tests.kit.prometheus_server import free_port
from tests.kit.slurm import SlurmStage

GPU = 'UUID="GPU-1",hostname="n1"'
GOOD = f"DCGM_FI_DEV_POWER_USAGE{{{GPU}}} 70\n"
PAGES: dict[str, Handler] = {
    "good": text_page(GOOD.encode()),
    "slow": slow_page(5.0),
    "huge": endless_page(GOOD.encode()),
    "torn": broken_page(GOOD.encode() + b"DCGM_FI_DEV"),
    "empty": text_page(b""),
    "nan": text_page(f"{GOOD}DCGM_FI_DEV_GPU_UTIL{{{GPU}}} NaN\n".encode()),
    "duplicate": text_page((GOOD + GOOD).encode()),
    "not_text": text_page(b"\xff\xfe\x00\x01" * 100 + b"\n"),
}


class ExporterStage:
    """Pages of an exporter."""

    window = Window(1000.0, 1000.0)

    @asynccontextmanager
    async def collector(self, condition: str) -> AsyncIterator[Collector]:
        async with _source(PAGES, condition) as url:
            collector = ExporterCollector(f"{url}/metrics", timeout_s=0.5, max_bytes=1_000_000)
            try:
                yield collector
            finally:
                await collector.close()


@asynccontextmanager
async def _source(handlers: dict[str, Handler], condition: str) -> AsyncIterator[str]:
    if condition == "dead":
        yield f"http://127.0.0.1:{free_port()}"
        return
    async with serve(handlers[condition]) as url:
        yield url


def _series(field: str, *values: str) -> dict[str, object]:
    metric = {"__name__": field, "UUID": "GPU-1", "Hostname": "n1", "instance": "n1:9400"}
    return {"metric": metric, "values": [[1000 + 10 * i, value] for i, value in enumerate(values)]}


def _prometheus(*series: dict[str, object], body: bytes | None = None, status: int = 200) -> Handler:
    """A server that knows two families and gives these series for any query."""
    good = json.dumps({"status": "success", "data": {"resultType": "matrix", "result": series}}).encode()

    async def handler(request: web.Request) -> web.StreamResponse:
        if "label" in request.path:
            names = ["DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_GPU_UTIL"]
            return web.json_response({"status": "success", "data": names})
        return web.Response(body=good if body is None else body, status=status, content_type="application/json")

    return handler


POWER = _series("DCGM_FI_DEV_POWER_USAGE", "70", "71")
TOO_MANY = b'{"status":"error","errorType":"execution","error":"query processing would load too many samples"}'
ANSWERS: dict[str, Handler] = {
    "good": _prometheus(POWER),
    "slow": slow_page(5.0),
    "huge": _prometheus(body=TOO_MANY, status=422),
    "torn": _prometheus(body=b'{"status":"success","data":{"resultType":"mat'),
    "empty": _prometheus(),
    "nan": _prometheus(POWER, _series("DCGM_FI_DEV_GPU_UTIL", "NaN")),
    "duplicate": _prometheus(POWER, POWER),
    "not_text": _prometheus(body=b"\xff\xfe\x00"),
}


class PrometheusStage:
    """Answers of a Prometheus server."""

    window = Window(900.0, 1100.0)

    @asynccontextmanager
    async def collector(self, condition: str) -> AsyncIterator[Collector]:
        async with _source(ANSWERS, condition) as url:
            collector = PrometheusCollector(url, timeout_s=0.5)
            try:
                yield collector
            finally:
                collector.close()


STAGES = {
    "exporter": ExporterStage(),
    "prometheus": PrometheusStage(),
    "nvml": NvmlStage(),
    "nccl_inspector": InspectorStage(),
    "nccl_ras": RasStage(),
    "slurm": SlurmStage(),
    "kubernetes": KubernetesStage(),
}
CHECKS = [
    pytest.param(check, id=f"{name}: {law}") for name, stage in STAGES.items() for law, check in yield_checks(stage)
]


@pytest.mark.parametrize("check", CHECKS)
def test_contract(check):
    asyncio.run(check())


def test_every_built_in_collector_is_staged():
    assert set(BUILTIN) == set(STAGES)
    assert set(PAGES) | {"dead"} == set(ANSWERS) | {"dead"} == set(CONDITIONS)
    assert load_collector("exporter") is ExporterCollector
    with pytest.raises(ConfigError, match="no collector 'nope'"):
        load_collector("nope")
