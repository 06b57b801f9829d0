"""Scraping: what a bad target does to itself, and to nobody else."""

from __future__ import annotations

import asyncio
import gzip

import pytest
from aiohttp import web

from collectors.cadence import Cadence, CadenceLimits
from collectors.pool import ScrapePool
from collectors.scrape import ExporterCollector
from collectors.wall_clock import WallClock
from telemetry.samples import Problem, SampleBatch, Window, validate_batch
from tests.kit.page_server import broken_page, endless_page, serve, slow_page, text_page

NOW = Window(1000.0, 1000.0)
PAGE = b'DCGM_FI_DEV_POWER_USAGE{UUID="GPU-1",hostname="n1"} 70\n'


async def read(handler, **settings) -> SampleBatch:
    async with serve(handler) as url:
        collector = ExporterCollector(f"{url}/metrics", **settings)
        try:
            batch = await collector.collect(NOW)
        finally:
            await collector.close()
    validate_batch(batch)
    return batch


def problems(batch: SampleBatch) -> set[Problem]:
    return {finding.problem for finding in batch.findings}


@pytest.mark.asyncio
async def test_a_page_is_stamped_with_the_time_of_the_scrape():
    batch = await read(text_page(PAGE))
    assert (batch.value.tolist(), batch.at_s.tolist()) == ([70.0], [1000.0])
    assert batch.findings == ()


@pytest.mark.asyncio
async def test_nobody_there():
    async with serve(text_page(PAGE)) as url:
        pass
    collector = ExporterCollector(url)
    batch = await collector.collect(NOW)
    await collector.close()
    assert problems(batch) == {Problem.UNREACHABLE}


@pytest.mark.asyncio
async def test_a_url_that_is_none():
    collector = ExporterCollector("http://not a host:99999/")
    batch = await collector.collect(NOW)
    await collector.close()
    assert problems(batch) == {Problem.UNREACHABLE}


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("handler", "problem"),
    [
        (slow_page(3.0), Problem.TIMEOUT),
        (endless_page(PAGE), Problem.TOO_LARGE),
        (text_page(b"gone", status=404), Problem.HTTP_STATUS),
        (text_page(PAGE, content_type="text/html"), Problem.NOT_TEXT),
        (text_page(b""), Problem.EMPTY),
        (text_page(b"other 1\n"), Problem.EMPTY),
        (text_page(bytes(range(128, 256)) * 10 + b"\n"), Problem.EMPTY),
    ],
)
async def test_what_cannot_be_used_is_named(handler, problem):
    batch = await read(handler, timeout_s=0.3, max_bytes=1_000_000)
    assert len(batch) == 0
    assert problem in problems(batch)


@pytest.mark.asyncio
async def test_redirects_are_not_followed():
    async def handler(request: web.Request) -> web.StreamResponse:
        raise web.HTTPFound("http://elsewhere/metrics")

    batch = await read(handler)
    assert problems(batch) == {Problem.HTTP_STATUS}
    assert "elsewhere" in batch.findings[0].detail


@pytest.mark.asyncio
async def test_a_connection_that_breaks_leaves_the_whole_lines():
    batch = await read(broken_page(PAGE + b"DCGM_FI_DEV_GPU_U"))
    assert batch.value.tolist() == [70.0]
    assert problems(batch) == {Problem.TORN}


@pytest.mark.asyncio
async def test_compressed_pages_are_read_and_measured_unpacked():
    async def handler(request: web.Request) -> web.StreamResponse:
        return web.Response(body=gzip.compress(PAGE * 10_000), headers={"Content-Encoding": "gzip"})

    assert (await read(handler)).value.tolist() == [70.0]
    assert problems(await read(handler, max_bytes=100_000)) == {Problem.TOO_LARGE}


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("offset_s", "expected"), [(0.0, set()), (60.0, {Problem.CLOCK_AHEAD}), (-600.0, {Problem.CLOCK_BEHIND})]
)
async def test_a_wrong_clock_is_told_and_its_samples_are_kept(offset_s, expected):
    line = PAGE.rstrip() + f" {int((1000.0 + offset_s) * 1000)}\n".encode()
    batch = await read(text_page(line))
    assert problems(batch) == expected
    assert batch.at_s.tolist() == [1000.0 + offset_s]


@pytest.mark.asyncio
async def test_repeats_are_dropped_but_a_constant_source_goes_on():
    async with serve(text_page(PAGE)) as url:
        collector = ExporterCollector(url)
        sizes = [len(await collector.collect(Window(at_s, at_s))) for at_s in (10.0, 10.2, 10.4, 11.1, 11.3)]
        await collector.close()
    assert sizes == [1, 0, 0, 1, 0]


def _pool(batches: list[SampleBatch]) -> ScrapePool:
    async def keep(batch: SampleBatch) -> None:
        batches.append(batch)

    return ScrapePool(keep, WallClock(), CadenceLimits(fixed_s=0.05))


async def _until(condition, limit_s: float = 5.0) -> None:
    for _ in range(int(limit_s / 0.02)):
        if condition():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it did not come to pass in time")


def _counting_page() -> tuple[list[int], object]:
    count = [0]

    async def handler(request: web.Request) -> web.StreamResponse:
        count[0] += 1
        return web.Response(body=PAGE.replace(b"70", str(70 + count[0]).encode()))

    return count, handler


@pytest.mark.asyncio
async def test_a_target_that_hangs_delays_no_other():
    batches: list[SampleBatch] = []
    _, handler = _counting_page()
    async with serve(handler) as good, serve(slow_page(30.0)) as hanging:
        pool = _pool(batches)
        for url in (hanging, good):
            pool.add(ExporterCollector(url, cadence=Cadence(pool.limits), timeout_s=20.0))
        await _until(lambda: sum(len(batch) for batch in batches) >= 5)
        status = {status.source: status for status in pool.statuses()}
        await pool.stop()
    assert status[good].up
    assert not status[hanging].up
    assert {batch.source for batch in batches} == {good}


@pytest.mark.asyncio
async def test_the_status_tells_what_is_wrong_and_targets_come_and_go():
    batches: list[SampleBatch] = []
    count, handler = _counting_page()
    async with serve(handler) as good, serve(text_page(b"x", status=503)) as bad:
        pool = _pool(batches)
        pool.add(ExporterCollector(good, cadence=Cadence(pool.limits)))
        pool.add(ExporterCollector(bad, cadence=Cadence(pool.limits)))
        await _until(lambda: all(s.findings or s.up for s in pool.statuses()))
        status = {status.source: status for status in pool.statuses()}
        pool.remove(good)
        await asyncio.sleep(0.1)
        reads = count[0]
        await asyncio.sleep(0.2)
        assert count[0] == reads
        assert [s.source for s in pool.statuses()] == [bad]
        await pool.stop()
    assert status[good].up
    assert status[good].samples == 1
    assert "503" in status[bad].last_error
    assert status[bad].findings[Problem.HTTP_STATUS] >= 1


@pytest.mark.asyncio
async def test_a_receiver_that_fails_does_not_end_the_reading(caplog):
    seen = []

    async def fail_once(batch: SampleBatch) -> None:
        seen.append(batch)
        if len(seen) == 1:
            raise RuntimeError("full")

    _, handler = _counting_page()
    async with serve(handler) as url:
        pool = ScrapePool(fail_once, WallClock(), CadenceLimits(fixed_s=0.05))
        pool.add(ExporterCollector(url, cadence=Cadence(pool.limits)))
        await _until(lambda: len(seen) >= 2)
        await pool.stop()
    assert "full" in caplog.text


@pytest.mark.asyncio
async def test_a_password_in_the_address_is_sent_and_never_shown():
    """Basic authorisation from the address; names, findings and samples do without it."""
    seen: list[str] = []

    async def guarded(request: web.Request) -> web.StreamResponse:
        seen.append(request.headers.get("Authorization", ""))
        return web.Response(text='DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-0"} NaN\n')

    async with serve(guarded) as url:
        collector = ExporterCollector(url.replace("http://", "http://me:secret@") + "/metrics", timeout_s=2.0)
        batch = await collector.collect(Window(0.0, 1000.0))
        await collector.close()
    assert seen == ["Basic bWU6c2VjcmV0"]
    assert collector.name == f"{url}/metrics"
    assert batch.findings
    assert "secret" not in repr((batch, collector.name))
