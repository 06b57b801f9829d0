"""Bursts: bounded, rare, and only where they can show more."""

from __future__ import annotations

import asyncio

import pytest

from collectors.burst import BurstAnswer, BurstLimits, Bursts
from collectors.cadence import Cadence, CadenceLimits
from collectors.pool import ScrapePool
from collectors.wall_clock import WallClock
from telemetry.clock import VirtualClock
from telemetry.ids import GpuId, JobId, SeriesKey
from telemetry.samples import SampleBatch, Sighting, Window

KEY = SeriesKey("gpu_power_watts", "n1:G")


@pytest.fixture
def clock() -> VirtualClock:
    """Moves when told."""
    return VirtualClock()


@pytest.fixture
def bursts() -> Bursts:
    """With the usual limits."""
    return Bursts()


def test_a_burst_ends_by_itself(bursts, clock):
    """However long it was asked for."""
    assert bursts.ask("a", 0.5, 3600.0, clock.monotonic()) == ""
    assert bursts.interval_s("a", clock.monotonic()) == 0.5
    clock.advance(59.9)
    assert bursts.interval_s("a", clock.monotonic()) == 0.5
    clock.advance(0.2)
    assert bursts.interval_s("a", clock.monotonic()) is None
    assert bursts.interval_s("b", clock.monotonic()) is None


@pytest.mark.parametrize(("asked_s", "given_s"), [(0.0, 0.1), (-1.0, 0.1), (0.3, 0.3), (30.0, 1.0)])
def test_the_interval_is_brought_into_its_bounds(bursts, clock, asked_s, given_s):
    bursts.ask("a", asked_s, 10.0, clock.monotonic())
    assert bursts.interval_s("a", clock.monotonic()) == given_s


def test_a_source_rests_after_its_burst(bursts, clock):
    """Asked at every round, it is read more closely a tenth of the time at most."""
    granted_at_s = []
    for _ in range(3600):
        if bursts.ask("a", 0.5, 60.0, clock.monotonic()) == "":
            granted_at_s.append(clock.monotonic())
        clock.advance(1.0)
    assert granted_at_s == [600.0 * i for i in range(6)]


def test_all_bursts_together_are_bounded(clock):
    """So many readings a second, whoever asks."""
    bursts = Bursts(BurstLimits(max_reads_per_s=10.0))
    answers = [bursts.ask(f"s{i}", 0.5, 60.0, clock.monotonic()) for i in range(8)]
    assert answers == [""] * 5 + ["too_many"] * 3
    clock.advance(61.0)
    assert bursts.ask("s6", 0.5, 60.0, clock.monotonic()) == ""


def test_a_wall_clock_that_steps_ends_no_burst(bursts, clock):
    """Only the monotonic clock is asked."""
    bursts.ask("a", 0.5, 60.0, clock.monotonic())
    clock.step_wall(-86400.0)
    assert bursts.interval_s("a", clock.monotonic()) == 0.5


class Source:
    """Counts its readings; its value changes each time, or never."""

    def __init__(self, name: str, changes: bool = True, good: bool = True) -> None:
        self.name = name
        self.provides = frozenset({KEY.metric})
        self.reads = 0
        self.changes = changes
        self.good = good
        self.cadence = Cadence(CadenceLimits(fixed_s=30.0))

    async def collect(self, window: Window) -> SampleBatch:
        self.reads += 1
        if not self.good:
            raise OSError("down")
        self.cadence.observe(window.end_s, self.changes)
        batch = SampleBatch.of([(KEY, window.end_s, float(self.reads))], received_s=window.end_s)
        sighting = Sighting(GpuId(self.name, "G"), window.end_s, JobId("slurm", "1"), sharers=1)
        return SampleBatch(batch.keys, batch.series, batch.at_s, batch.value, batch.reason, (sighting,))


async def _taken(batch: SampleBatch) -> None:
    return


async def _pool(*sources: Source) -> ScrapePool:
    pool = ScrapePool(_taken, WallClock(), CadenceLimits(fixed_s=30.0))
    for source in sources:
        pool.add(source, cadence=source.cadence)
    async with asyncio.timeout(10.0):
        while not all(source.reads for source in sources):
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
    return pool


@pytest.mark.asyncio
async def test_a_burst_wakes_a_source_that_waits_and_leaves_the_others():
    """A fixed interval of 30 s does not hold it up."""
    a, b = Source("a"), Source("b")
    pool = await _pool(a, b)
    try:
        answer = pool.burst(["a"], 0.1, 60.0)
        assert (answer.granted, answer.refused) == (("a",), {})
        async with asyncio.timeout(10.0):
            while a.reads < 6:
                await asyncio.sleep(0.02)
        assert b.reads == 1
        assert pool.statuses()[0].interval_s == 0.1
        assert pool.burst(["a", "nobody"], 0.1, 60.0).refused == {"a": "resting", "nobody": "unknown"}
    finally:
        await pool.stop()


@pytest.mark.asyncio
async def test_after_the_burst_the_usual_rhythm_comes_back():
    source = Source("a")
    pool = await _pool(source)
    try:
        pool.burst(["a"], 0.1, 0.35)
        async with asyncio.timeout(10.0):
            while pool.statuses()[0].interval_s != 30.0 or source.reads < 3:
                await asyncio.sleep(0.02)
        reads = source.reads
        await asyncio.sleep(0.3)
        assert source.reads == reads
    finally:
        await pool.stop()


@pytest.mark.asyncio
async def test_a_source_that_is_known_to_be_slow_is_not_asked_in_vain():
    """It was read often enough to see repeats: it changes every 5 s."""
    source = Source("a")
    pool = await _pool(source)
    try:
        for step in range(200):
            source.cadence.observe(1000.0 + step, step % 5 == 0)
        assert not source.cadence.may_be_faster
        assert pool.burst(["a"], 0.2, 60.0).refused == {"a": "slow_source"}
    finally:
        await pool.stop()


@pytest.mark.asyncio
async def test_a_source_that_fails_is_left_alone_in_a_burst_too():
    """It backs off as ever."""
    source = Source("a", good=False)
    pool = await _pool(source)
    try:
        pool.burst(["a"], 0.1, 60.0)
        await asyncio.sleep(0.5)
        assert source.reads <= 3
    finally:
        await pool.stop()


@pytest.mark.asyncio
async def test_sources_are_found_by_the_hosts_they_tell_of():
    """And a source that left takes its burst along."""
    a, b = Source("a"), Source("b")
    pool = await _pool(a, b)
    try:
        assert pool.sources_of(["b", "elsewhere"]) == ["b"]
        pool.burst(["b"], 0.1, 60.0)
        pool.remove("b")
        assert pool.sources_of(["a", "b"]) == ["a"]
        pool.add(b, cadence=b.cadence)
        await asyncio.sleep(0.05)
        assert pool.burst(["b"], 0.1, 60.0).granted == ("b",)
    finally:
        await pool.stop()


def test_reasons_are_counted():
    answer = BurstAnswer(("a",), {"b": "resting", "c": "resting", "d": "too_many"})
    assert answer.reasons == {"resting": 2, "too_many": 1}
    assert BurstAnswer().reasons == {}
