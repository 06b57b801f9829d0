"""Replay over real HTTP, on a small record of our own and on the public 10 Hz one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import duckdb
import pytest
from prometheus_client.parser import text_string_to_metric_families

from forecast.simulator.recording import read_run
from forecast.simulator.replay import replay, run_replay
from telemetry.errors import ConfigError

COLUMNS = """
    'M' as gpu_model, 100.0 as power_w, 40 as temp_c, 1000 as mem_used_mib, 81559 as mem_total_mib, 5 as gpu_util_pct,
    7 as mem_util_pct, i / 100.0 as sm_active, 0.25 as tensor_active, 0.5 as dram_active, 0.0 as fp16_active,
    1e9 as pcie_tx_bytes_s, 2e9 as pcie_rx_bytes_s, 3e9 as nvlink_tx_bytes_s, 4e9 as nvlink_rx_bytes_s,
    0 as throttle_reasons, 1000 + i as energy_mj
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run ``two``: two hosts of two cards, 40 samples at 10 Hz."""
    made = tmp_path_factory.mktemp("record")
    rows = f"""
        select 'two' as run, node, 1700000000.0 + i / 10.0 as timestamp, 'steady' as phase, gpu, {COLUMNS}
        from range(2) as n(node), range(40) as t(i), range(2) as g(gpu)
    """
    duckdb.sql(f"copy ({rows}) to '{made / 'telemetry.parquet'}' (format parquet)")
    return made


async def page_of(url: str) -> dict[str, list]:
    async with aiohttp.ClientSession() as session, session.get(url) as reply:
        assert reply.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        return {family.name: family.samples for family in text_string_to_metric_families(await reply.text())}


@pytest.mark.asyncio
async def test_two_hosts_are_served_on_their_own_ports_until_the_end(folder: Path) -> None:
    """Ready says where; each host has its pod; progress comes; the summary says how much was played."""
    ready: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    steps: list[dict[str, Any]] = []
    task = asyncio.create_task(
        replay(folder, "two", speed=4.0, port=0, on_ready=ready.put_nowait, on_progress=steps.append)
    )
    hello = await asyncio.wait_for(ready.get(), 20)
    assert (hello["nodes"], hello["gpus"], hello["port_urls"]) == (2, 4, [])
    for node, url in enumerate(hello["urls"]):
        shown = (await page_of(url))["DCGM_FI_PROF_SM_ACTIVE"]
        assert [(s.labels["gpu"], s.labels["pod"]) for s in shown] == [("0", f"two-{node}"), ("1", f"two-{node}")]
        assert all(s.timestamp is not None for s in shown)
    summary = await asyncio.wait_for(task, 20)
    assert summary["played_s"] == summary["length_s"] == pytest.approx(3.9)
    assert (summary["stopped"], steps[0]["phase"]) == (False, "steady")


@pytest.mark.asyncio
async def test_it_can_be_stopped(folder: Path) -> None:
    """The summary says so."""
    stop = asyncio.Event()
    summary = await replay(folder, "two", speed=0.01, port=0, stop=stop, on_ready=lambda _: stop.set())
    assert summary["stopped"] is True


@pytest.mark.asyncio
async def test_a_port_in_use_is_said(folder: Path) -> None:
    """Also when it is the second host's."""
    server = await asyncio.start_server(lambda _r, w: w.close(), "127.0.0.1", 0)
    async with server:
        taken = server.sockets[0].getsockname()[1]
        for port in (taken, taken - 1):
            with pytest.raises(ConfigError, match=f"127.0.0.1:({taken}|{taken - 1}) for replayed host . is in use"):
                await replay(folder, "two", speed=1.0, port=port)


def test_it_runs_without_an_event_loop(folder: Path) -> None:
    """The blocking form serves and ends."""
    seen: list[dict[str, Any]] = []
    summary = run_replay(folder, "two", speed=40.0, port=0, on_ready=seen.append)
    assert seen[0]["urls"] == summary["urls"]
    assert summary["played_s"] == pytest.approx(3.9)


@pytest.mark.shared
@pytest.mark.asyncio
async def test_the_public_record_is_served_as_it_was_recorded(shared_dir: Path) -> None:
    """Run t6: what a scrape reads is a recorded sample of each card, value for value."""
    data = shared_dir / "data" / "h100_dcgm_10hz"
    record = read_run(data, "t6")[0]
    ready: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    stop = asyncio.Event()
    task = asyncio.create_task(
        replay(data, "t6", speed=4.0, port=0, start="steady", on_ready=ready.put_nowait, stop=stop)
    )
    hello = await asyncio.wait_for(ready.get(), 60)
    await asyncio.sleep(0.7)
    page = await page_of(hello["urls"][0])
    stop.set()
    await task
    sm = {int(s.labels["gpu"]): s.value for s in page["DCGM_FI_PROF_SM_ACTIVE"]}
    power = {int(s.labels["gpu"]): s.value for s in page["DCGM_FI_DEV_POWER_USAGE"]}
    assert len(sm) == len(power) == 8
    matching = [
        row
        for row in range(record.at_s.size)
        if all(abs(record.value[row, 1, g] - power[g]) < 1e-6 for g in range(8))
        and all(abs(record.value[row, 6, g] - sm[g]) < 1e-6 for g in range(8))
    ]
    assert len(matching) == 1
    assert record.phase[matching[0]] == "steady"


@pytest.mark.shared
def test_the_public_record_holds_what_its_description_says(shared_dir: Path) -> None:
    """t13 has two hosts with port counters that only rise; b1 has none."""
    data = shared_dir / "data" / "h100_dcgm_10hz"
    two = read_run(data, "t13")
    assert [record.gpus.size for record in two] == [8, 8]
    for record in two:
        assert record.port_tx_bytes.shape[1] == 8
        assert (record.port_tx_bytes[1:] >= record.port_tx_bytes[:-1]).all()
    assert read_run(data, "b1")[0].port_at_s.size == 0
