"""A real Prometheus scrapes pages, and the collector reads them back."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from aiohttp import web

from collectors.prometheus import PrometheusCollector
from collectors.prometheus_tail import PrometheusTail
from telemetry.ids import JobId, SeriesKey
from telemetry.samples import Problem, SampleBatch, Window, validate_batch
from tests.kit.page_server import serve
from tests.kit.prometheus_server import prometheus

pytestmark = [pytest.mark.prometheus, pytest.mark.asyncio]
POWER = SeriesKey("gpu_power_watts", "n1:GPU-1")
SENT = SeriesKey("port_tx_bytes_total", "n1:mlx5_0:1")


class Exporters:
    """Two pages whose numbers grow by one at each scrape."""

    def __init__(self) -> None:
        self.scrapes = 0

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        if request.path.startswith("/gpu"):
            self.scrapes += 1
            who = 'namespace="team-a",pod="train-0",container="main"'
            text = (
                f'DCGM_FI_DEV_POWER_USAGE{{UUID="GPU-1",Hostname="n1",{who}}} {100 + self.scrapes}\n'
                f'DCGM_FI_DEV_GPU_UTIL{{UUID="GPU-1",Hostname="n1",{who}}} 97\n'
                f'DCGM_FI_DEV_MEMORY_TEMP{{UUID="GPU-1",Hostname="n1",{who}}} NaN\n'
            )
        else:
            text = (
                'node_uname_info{nodename="n1"} 1\n'
                f'node_infiniband_port_data_transmitted_bytes_total{{device="mlx5_0",port="1"}} {self.scrapes}\n'
                'infiniband_switch_uplink_info{guid="0x1",port="1",switch="leaf1",uplink="n1 mlx5_0",'
                'uplink_type="CA"} 1\n'
            )
        return web.Response(text=text)


def _jobs(url: str) -> list[dict[str, object]]:
    host = url.removeprefix("http://")
    own = {"pod": "nvidia-dcgm-exporter-abcde", "namespace": "gpu-operator"}
    gpu = {"job_name": "gpu", "metrics_path": "/gpu", "static_configs": [{"targets": [host], "labels": own}]}
    return [gpu, {"job_name": "node", "metrics_path": "/node", "static_configs": [{"targets": [host]}]}]


async def _after_scrapes(scrapes: Callable[[], int], n: int) -> None:
    for _ in range(600):
        if scrapes() >= n:
            await asyncio.sleep(0.3)  # until the last one is committed
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"Prometheus scraped {scrapes()} times only")


def _values(batch: SampleBatch, key: SeriesKey) -> tuple[np.ndarray, np.ndarray]:
    rows = batch.series == batch.keys.index(key)
    return batch.at_s[rows], batch.value[rows]


async def test_raw_samples_come_back_with_their_own_times_and_owners(tmp_path: Path):
    started_s, exporters = time.time(), Exporters()
    async with serve(exporters) as url:
        with prometheus(tmp_path, _jobs(url)) as server:
            await _after_scrapes(lambda: exporters.scrapes, 6)
            collector = PrometheusCollector(server, timeout_s=10)
            window = Window(started_s, time.time())
            batch = await collector.collect(window)
            stepped = await _read_stepped(server, window)
            tail = PrometheusTail(collector)
            first = await tail.collect(Window(started_s, time.time()))
            more = exporters.scrapes + 3
            await _after_scrapes(lambda: exporters.scrapes, more)
            second = await tail.collect(Window(started_s, time.time()))
            collector.close()
    validate_batch(batch)
    at_s, watts = _values(batch, POWER)
    assert watts.tolist() == [101.0 + i for i in range(len(watts))]  # every scrape once, in order
    assert len(watts) >= 5
    assert np.diff(at_s) == pytest.approx(0.5, abs=0.2)
    assert len(_values(batch, SENT)[0]) >= 5  # the NIC carries the host's own name
    assert {s.job for s in batch.sightings} == {JobId("kubernetes", "team-a:train")}
    assert Problem.NOT_FINITE in {f.problem for f in batch.findings}
    assert [(w.a, w.b) for w in collector.wiring] == [("leaf1", "n1")]
    assert np.isin(_values(stepped, POWER)[1], watts).all()
    again_at_s, again = _values(second, POWER)
    assert again[0] == _values(first, POWER)[1][-1] + 1  # follows on, nothing twice, nothing lost
    assert np.diff(again).tolist() == [1.0] * (len(again) - 1)
    assert again_at_s[0] > _values(first, POWER)[0][-1]


async def _read_stepped(server: str, window: Window) -> SampleBatch:
    collector = PrometheusCollector(server, timeout_s=10, step_s=0.5, metrics=["gpu_power_watts"])
    batch = await collector.collect(window)
    collector.close()
    validate_batch(batch)
    assert {key.metric for key in batch.keys} == {"gpu_power_watts"}
    return batch


async def test_a_server_that_knows_no_gpu_says_so(tmp_path: Path):
    with prometheus(tmp_path, []) as server:
        collector = PrometheusCollector(server, timeout_s=10)
        batch = await collector.collect(Window(time.time() - 60, time.time()))
        collector.close()
    assert [finding.problem for finding in batch.findings] == [Problem.EMPTY]


async def test_samples_of_other_servers_on_this_machine_stay_apart(tmp_path: Path):
    """NIC families without a host name take the instance, port included."""
    seen: Counter[str] = Counter()

    async def page(request: web.Request) -> web.StreamResponse:
        seen[request.host] += 1
        return web.Response(text='node_infiniband_port_data_transmitted_bytes_total{device="mlx5_0",port="1"} 1\n')

    async with serve(page) as one, serve(page) as two:
        hosts = [url.removeprefix("http://") for url in (one, two)]
        with prometheus(tmp_path, [{"job_name": "n", "static_configs": [{"targets": hosts}]}]) as server:
            await _after_scrapes(lambda: min(seen[host] for host in hosts), 1)
            collector = PrometheusCollector(server, timeout_s=10)
            batch = await collector.collect(Window(time.time() - 60, time.time()))
            collector.close()
    assert {key.entity.partition(":")[0] for key in batch.keys} == {host.replace(":", "_") for host in hosts}
