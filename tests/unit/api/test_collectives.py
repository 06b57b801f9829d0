"""NCCL's sources by the settings."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from api.collectives import STAMPED, STATE_NAME, Collectives, stamped_series
from api.settings import NcclSettings, load_settings
from collectors.nccl.standing import CommunicatorState
from collectors.pool import ScrapePool
from collectors.wall_clock import WallClock
from telemetry.errors import ConfigError
from telemetry.ids import CommunicatorId, JobId, SeriesKey
from telemetry.samples import SampleBatch
from tests.kit.nccl import ras_answer, ras_communicator, ras_rank, record
from tests.kit.ras_server import ras_server


def test_files_and_ras_are_read(tmp_path: Path) -> None:
    """What the settings name is read; places in files are kept in the store's folder."""
    (tmp_path / "a.log").write_bytes(record())
    got: list[SampleBatch] = []

    async def run() -> None:
        async def take(batch: SampleBatch) -> None:
            got.append(batch)

        async with ras_server(ras_answer(ras_communicator(ras_rank(0, AllReduce=3)))) as server:
            settings = NcclSettings(
                inspector_folders=[tmp_path], ras=[f"127.0.0.1:{server.port}"], poll_s=0.1, lookback_s=1e12
            )
            pool = ScrapePool(take, WallClock())
            Collectives(settings, tmp_path).add_to(pool)
            async with asyncio.timeout(20):
                while not (tmp_path / STATE_NAME).exists() or len({batch.source for batch in got}) < 2:
                    await asyncio.sleep(0.02)
            await pool.stop()

    asyncio.run(run())
    metrics = {key.metric for batch in got for key in batch.keys}
    assert {"nccl_busbw_bytes_per_s", "nccl_launched_total"} <= metrics


def test_nothing_is_read_by_default(tmp_path: Path) -> None:
    """Without settings no source is added."""

    async def run() -> list[str]:
        async def take(batch: SampleBatch) -> None: ...

        pool = ScrapePool(take, WallClock())
        Collectives(NcclSettings(), tmp_path).add_to(pool)
        return [status.source for status in pool.statuses()]

    assert asyncio.run(run()) == []


@pytest.mark.parametrize("address", ["", ":28028", "h:", "h:x", "h:0", "h:99999", "h h:1", "h:1²"])
def test_an_address_that_is_none(address: str) -> None:
    """It is named in the error."""
    with pytest.raises(ConfigError, match=r"nccl\.ras"):
        load_settings(environment={}, nccl__ras=[address])


def test_a_series_belongs_to_the_job_of_its_communicator() -> None:
    """By name and hash; not where no job is known, nor where two communicators of one id have different jobs."""
    one, two = JobId("slurm", "1"), JobId("slurm", "2")
    states = [
        CommunicatorState(CommunicatorId("world", "0xa"), one),
        CommunicatorState(CommunicatorId("world", "0xb"), two),
        CommunicatorState(CommunicatorId("world", "0xc"), None),
        CommunicatorState(CommunicatorId("split", "0xd"), one),
        CommunicatorState(CommunicatorId("split", "0xd"), two),
    ]
    entities = ["world:0xa:AllReduce", "world:0xa:Send:3", "world:0xb:AllReduce", "world:0xc:AllReduce"]
    keys = [SeriesKey(STAMPED, entity) for entity in [*entities, "split:0xd:AllGather", "other:0xa:AllReduce"]]
    found = stamped_series(states, keys)
    assert found == {one: keys[:2], two: [keys[2]]}
