"""The service behind a real Prometheus says the same as the service that reads the exporters itself."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from api.service import Service
from api.settings import Settings, load_settings
from api.wiring import build
from collectors.wall_clock import WallClock
from forecast.predict.types import Period, QuantilePath
from forecast.simulator.scenarios import demo_spec
from forecast.simulator.server import SimServer, serve_cluster
from tests.kit.prometheus_server import prometheus

WITHIN_S = 300.0
TOLERANCE = 0.05
"""The first period found rests on few iterations, and the machine may be busy with other tests."""


def _settings(folder: Path, **more: object) -> Settings:
    return load_settings(
        environment={},
        port=0,
        store__folder=folder,
        forecast__every_s=2.0,
        forecast__window_s=120.0,
        forecast__horizon_s=10.0,
        **more,
    )


def _periods(service: Service) -> dict[str, float]:
    return {str(job.job): job.period.period_s for job in service.jobs() if isinstance(job.period, Period)}


async def _found(services: list[Service], wanted: set[str]) -> list[dict[str, float]]:
    """Per service, the newest period of every wanted job, once each was found at least once."""
    newest: list[dict[str, float]] = [{} for _ in services]
    async with asyncio.timeout(WITHIN_S):
        while not all(wanted <= set(found) for found in newest):
            await asyncio.sleep(1.0)
            for found, service in zip(newest, services, strict=True):
                found.update(_periods(service))
    return newest


async def _compare(tmp_path: Path, server: SimServer, url: str) -> None:
    direct = build(_settings(tmp_path / "direct", scrape__targets_from=f"{server.base_url}/targets")).service
    through = build(_settings(tmp_path / "through", prometheus__url=url)).service
    tasks = [asyncio.create_task(service.run()) for service in (direct, through)]
    truth = {str(job.spec.id): job.spec.period_s for job in server.cluster.jobs}
    # Two of the six: their iterations stay undisturbed, and their rhythm shows within seconds.
    wanted = {"kubernetes:ads:rank-e", "kubernetes:audio:speech-d"}
    try:
        periods = await _found([direct, through], wanted)
        for service, found in zip((direct, through), periods, strict=True):
            assert set(truth) == {str(job.job) for job in service.jobs()}
            for job in wanted:
                assert found[job] == pytest.approx(truth[job], rel=TOLERANCE)
            paths = {
                metric
                for job in service.jobs()
                for metric, path in job.metrics.items()
                if isinstance(path, QuantilePath)
            }
            assert {"gpu_sm_active_ratio", "gpu_power_watts", "job_fabric_tx_bytes_per_s"} <= paths
        assert {str(link.link) for link in direct.links()} == {str(link.link) for link in through.links()}
        assert {f.job: (f.nodes, f.gpu_count) for f in direct.jobs()} == {
            f.job: (f.nodes, f.gpu_count) for f in through.jobs()
        }
        assert through.health().ready
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.prometheus
@pytest.mark.slow
def test_same_jobs_links_and_periods_through_a_real_prometheus(tmp_path: Path) -> None:
    """Jobs, hosts, links and found periods agree, and each period is the simulator's own within 3 %."""

    async def main() -> None:
        async with serve_cluster(demo_spec(), seed=11, clock=WallClock()) as server:
            # Labels of the targets as a site relabels them; pages keep their own pod labels.
            jobs: list[dict[str, object]] = [
                {"job_name": "simulated", "http_sd_configs": [{"url": f"{server.base_url}/targets"}]}
            ]
            folder = tmp_path / "prometheus"
            folder.mkdir()
            with await asyncio.to_thread(_enter, folder, jobs) as url:
                await _compare(tmp_path, server, url)

    asyncio.run(main())


class _enter:  # noqa: N801
    """Start the server in a thread: its pages come from this very loop."""

    def __init__(self, folder: Path, jobs: list[dict[str, object]]) -> None:
        self._context = prometheus(folder, jobs)
        self._url = self._context.__enter__()

    def __enter__(self) -> str:
        return self._url

    def __exit__(self, *error: object) -> None:
        self._context.__exit__(None, None, None)
