"""Slurm beside the exporters: pages without job labels, and still every GPU has its job."""

from __future__ import annotations

import asyncio
import os

from api.beside import Beside
from api.schedulers import Schedulers
from api.settings import KubernetesSettings, ScrapeSettings, SlurmSettings, TargetSettings
from api.sources import ExporterSource
from collectors.wall_clock import WallClock
from features.store.allocations import AllocationBook
from telemetry.ids import GpuId, JobId
from telemetry.samples import SampleBatch
from tests.kit.page_server import serve, text_page
from tests.kit.slurm import JOB, NODE, install, printing, squeue_json

LABELS = 'gpu="{i}",UUID="GPU-{i}",Hostname="gpu-01.example"'
PAGE = "".join(f"DCGM_FI_DEV_POWER_USAGE{{{LABELS.format(i=i)}}} 70\n" for i in range(4))


def test_jobs_without_labels(tmp_path, monkeypatch):
    """The page tells number -> card, Slurm job -> number; the page's silence on owners ends nothing."""
    environment = install(tmp_path, squeue=printing(squeue_json(JOB)), scontrol=printing(NODE))
    monkeypatch.setenv("PATH", environment["PATH"] + ":" + os.environ["PATH"])
    book, batches = AllocationBook(), []

    async def take(batch: SampleBatch) -> None:
        batches.append(batch)
        book.add(batch.sightings)

    async def run() -> tuple[int, float]:
        async with serve(text_page(PAGE.encode())) as url:
            schedulers = Schedulers(SlurmSettings(enabled=True, poll_s=1.0), KubernetesSettings())
            scrape = ScrapeSettings(targets=[TargetSettings(url=url)], interval_s=0.2)
            source = ExporterSource(scrape, take, WallClock(), Beside(schedulers))
            task = asyncio.create_task(source.run())
            async with asyncio.timeout(20):
                while sum(batch.source == "slurm" and len(batch.sightings) == 4 for batch in batches) < 2:
                    assert not task.done()
                    await asyncio.sleep(0.05)
            rosters = schedulers.rosters()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            return len(rosters), rosters[0].at_s

    count, at_s = asyncio.run(run())

    assert count == 1
    held = [a for a in book.allocations(at_s, 600.0) if a.job == JobId("slurm", "7")]
    assert {a.gpu for a in held} == {GpuId("gpu-01.example", f"GPU-{i}") for i in range(2)}
    assert all(a.to_s is None for a in held)


def test_none_by_default():
    """Without a scheduler nothing is read, kept or compared."""
    schedulers = Schedulers(SlurmSettings(), KubernetesSettings())
    assert schedulers.ownership is None
    assert schedulers.rosters() == ()
