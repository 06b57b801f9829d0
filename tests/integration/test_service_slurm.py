"""The whole service beside a real Slurm: the queue, a job's record, the wiring from scontrol and a file, readiness."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from api.settings import load_settings
from api.wiring import Built, build
from tests.kit.http_client import get
from tests.kit.page_server import serve, text_page
from tests.kit.slurm_cluster import SlurmCluster, slurm_cluster

pytestmark = pytest.mark.slurm
PAGE = "".join(
    f'DCGM_FI_DEV_POWER_USAGE{{gpu="{i}",UUID="GPU-{i}",Hostname="gpu001.cluster.example"}} {300 + i}\n'
    for i in range(4)
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    folder = Path(tempfile.mkdtemp(prefix="gpucast-slurm-"))
    try:
        with slurm_cluster(folder, "--nodes", "4", "--gpus", "4", "--leaf", "2") as running:
            yield running
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _built(tmp_path: Path, url: str, sources: list[str]) -> Built:
    settings = load_settings(
        environment={},
        store__folder=tmp_path / "store",
        scrape__targets=[{"url": url}],
        scrape__interval_s=0.2,
        slurm__enabled=True,
        slurm__poll_s=1.0,
        topology__sources=sources,
        topology__poll_s=0.2,
    )
    return build(settings)


async def _while_running(built: Built, look: Callable[[], Awaitable[bool]]) -> None:
    """Read and forecast by hand until ``look`` is content."""
    source = asyncio.create_task(built.service._source.run())
    try:
        async with asyncio.timeout(40):
            while not await look():
                assert not source.done(), source
                await asyncio.sleep(0.1)
    finally:
        source.cancel()
        await asyncio.gather(source, return_exceptions=True)
        await built.service._intake.close()
        built.service.end_worker()


async def _asked(app: FastAPI, *paths: str) -> list[Any]:
    return [(await asyncio.to_thread(get, app, path)).json() for path in paths]


def test_queue_record_and_wiring(cluster: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slurm's words reach the API: who waits and why, whose job it is, hosts under switches by telemetry's names."""
    for name, value in cluster.environment.items():
        monkeypatch.setenv(name, value)
    running = cluster.submit("--gres=gpu:4", "-w", "gpu001", "-t", "60", "-J", "pretrain")
    waiting = cluster.submit("-N4", "--gres=gpu:4", "-t", "120", "-J", "too big yet")
    other = tmp_path / "other.conf"
    other.write_text("SwitchName=leafX Nodes=gpu001\nSwitchName=leafY Nodes=gpu00[2-4]\n")
    answers: list[Any] = []

    async def run() -> None:
        async with serve(text_page(PAGE.encode())) as url:
            built = _built(tmp_path, url, ["slurm", str(other)])

            async def look() -> bool:
                await built.service.forecast_once()
                wiring = built.service.wiring()
                known = any(one.record is not None for one in (frame.job for frame in built.service.frames.values()))
                # Slurm says for a moment that the priority is to be found.
                reasons = {job.reason for roster in built.service.rosters() for job in roster.waiting}
                if not (known and len(wiring.sources) == 2 and "gpu001.cluster.example" in wiring.topology.leaf_of):
                    return False
                if not reasons or reasons & {"", "None"}:
                    return False
                answers.extend(
                    await _asked(built.app, "/v1/queue", f"/v1/jobs/slurm:{running}", "/v1/topology", "/v1/health")
                )
                return True

            await _while_running(built, look)

    try:
        asyncio.run(run())
    finally:
        cluster.run("scancel", running, waiting)
    queue, job, wiring, health = answers
    (queued,) = queue["items"]
    assert (queued["id"], queued["name"], queued["gpus_asked"]) == (f"slurm:{waiting}", "too big yet", 16)
    assert (queued["node_count"], queued["time_limit_s"], queued["state"]) == (4, 7200.0, "waiting")
    assert queued["reason"]
    assert queued["start_forecast"]["why"] in {"insufficient_history", "no_data"}
    (slurm,) = queue["schedulers"]
    assert (slurm["gpus_total"], slurm["gpus_used"], slurm["gpus_free"]) == (16, 4, 12)
    listed = job["scheduled"]
    assert (listed["name"], listed["gpus_held"], listed["gpus_asked"]) == ("pretrain", 4, 4)
    assert (listed["state"], listed["time_limit_s"], listed["nodes"]) == ("running", 3600.0, ["gpu001"])
    hosts = {host["id"]: host["switches"] for host in wiring["hosts"]}
    assert "gpu001.cluster.example" in hosts
    assert "gpu001" not in hosts
    assert len({hosts[name][0] for name in ("gpu003", "gpu004")}) == 1
    assert len(hosts["gpu003"]) == 2, "leaf and the switch above it"
    assert any(one["subject"] == "gpu002" for one in wiring["conflicts"]), "the file puts it elsewhere"
    assert {one["role"] for one in health["targets"]} == {"telemetry", "scheduler", "topology"}


def test_a_scheduler_alone_makes_nothing_ready(
    cluster: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slurm is up, the exporter is not: there is nothing to forecast, and the reason names the exporter's trouble."""
    for name, value in cluster.environment.items():
        monkeypatch.setenv(name, value)
    seen: list[Any] = []

    async def run() -> None:
        built = _built(tmp_path, "http://127.0.0.1:1/metrics", [])

        async def look() -> bool:
            state = built.service.health()
            seen[:] = [state]
            by_role = {target.role: target for target in state.targets}
            return {"scheduler", "telemetry"} <= set(by_role) and (
                by_role["scheduler"].up and bool(by_role["telemetry"].last_error)
            )

        await _while_running(built, look)

    asyncio.run(run())
    assert not seen[0].ready
    assert seen[0].reasons[0].startswith("none of 1 sources gives samples")
