"""The sources ``kubernetes`` and ``slurm`` of the settings, against pretend ones."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from api.settings import KubernetesSettings, SlurmSettings, TopologySettings, load_settings
from api.topology import TopologyFeed
from collectors.kubernetes.client import KubernetesLists
from collectors.kubernetes.collector import KubernetesCollector
from collectors.pool import ScrapePool
from collectors.status import TargetStatus
from collectors.wall_clock import WallClock
from telemetry.errors import ConfigError
from telemetry.samples import SampleBatch, Window
from tests.kit.kubernetes import lists, node, pod
from tests.kit.page_server import serve
from tests.kit.slurm import install, printing

LABELS = {"nvidia.com/gpu.clique": "abc.7", "network.topology.nvidia.com/leaf": "leaf-1"}


def _read(feed: TopologyFeed) -> TargetStatus:
    """The one source, once it was looked at."""

    async def run() -> TargetStatus:
        async def take(batch: SampleBatch) -> None: ...

        pool = ScrapePool(take, WallClock())
        feed.add_to(pool)
        async with asyncio.timeout(20):
            while not ((status := pool.statuses()[0]).last_ok_s or status.last_error):
                await asyncio.sleep(0.02)
        await pool.stop()
        await feed.close()
        return status

    return asyncio.run(run())


def _feed(source: str, tmp_path: Path, url: str = "") -> TopologyFeed:
    return TopologyFeed(TopologySettings(sources=[source]), SlurmSettings(), KubernetesSettings(url=url), tmp_path)


def test_the_labels_of_kubernetes_nodes(tmp_path: Path) -> None:
    """Leaves and NVLink domains; the scheduler itself need not be switched on."""
    seen: list[TopologyFeed] = []

    async def run() -> None:
        nodes = [node("n1", labels=LABELS), node("n2", labels=LABELS), node("n3")]
        async with serve(lists(nodes=nodes)) as url:
            feed = _feed("kubernetes", tmp_path, url)
            seen.append(feed)
            await asyncio.to_thread(_read, feed)

    asyncio.run(run())
    topology = seen[0].book.topology
    assert topology.leaf_of == {"n1": "leaf-1", "n2": "leaf-1"}
    assert set(topology.domains("nvlink")["abc.7"]) == {"n1", "n2"}


@pytest.mark.parametrize(
    ("text", "up", "word"),
    [
        ("SwitchName=s0 Level=0 LinkSpeed=1 Nodes=n[1-2]\n", True, ""),
        ("No topology information available\n", False, "Slurm has no topology. Set TopologyPlugin"),
        ("hello\n", False, "no topology format"),
    ],
)
def test_scontrol_show_topology(
    text: str, up: bool, word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or why there is none, with the mend."""
    environment = install(tmp_path, scontrol=printing(text))
    monkeypatch.setenv("PATH", environment["PATH"] + ":" + os.environ["PATH"])
    feed = _feed("slurm", tmp_path)
    status = _read(feed)
    assert status.up is up
    assert word in status.last_error
    assert feed.book.topology.leaf_of == ({"n1": "s0", "n2": "s0"} if up else {})


@pytest.mark.parametrize("sources", [[""], ["-"], ["slurm", "slurm"]])
def test_sources_that_cannot_be(sources: list[str]) -> None:
    """Named in the error."""
    with pytest.raises(ConfigError, match=r"topology\.sources"):
        load_settings(environment={}, topology__sources=sources)


def test_a_job_that_waits_for_part_of_its_pods_asks_for_more_than_it_has() -> None:
    """Held and asked for are two numbers."""

    async def run() -> tuple[int | None, int | None]:
        pods = [pod("train-0", "gpu-01", 2), pod("train-1", "", 2)]
        for one in pods:
            one["metadata"]["labels"] = {"jobset.sigs.k8s.io/jobset-name": "train"}
        async with serve(lists(nodes=[node("gpu-01")], pods=pods)) as url:
            collector = KubernetesCollector(KubernetesLists(url))
            await collector.collect(Window(1000.0, 1000.0))
            await collector.close()
            (record,) = collector.roster.jobs
            return record.gpu_count, record.asked_gpu_count

    assert asyncio.run(run()) == (2, 4)
