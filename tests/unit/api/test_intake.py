"""Samples wait in memory while the store refuses, and none that was taken is forgotten in silence."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

import api.intake
from api.intake import Intake
from features.ring import Ring
from features.store.duck import DuckStore
from features.store.policy import StorePolicy
from telemetry.errors import StoreError
from telemetry.ids import SeriesKey
from telemetry.samples import SampleBatch


def _batch(at_s: float) -> SampleBatch:
    return SampleBatch.of([(SeriesKey("gpu_power_watts", "n:G"), at_s, 300.0)], received_s=at_s)


class Store:
    """Refuses while ``trouble`` is set; waits for ``gate`` when there is one."""

    def __init__(self) -> None:
        self.trouble: Exception | None = None
        self.gate: threading.Event | None = None
        self.kept: list[float] = []
        self.closed = False

    def append(self, batches: Sequence[SampleBatch]) -> int:
        if self.gate is not None:
            self.gate.wait(10.0)
        if self.trouble is not None:
            raise self.trouble
        self.kept += [float(at_s) for batch in batches for at_s in batch.at_s]
        return sum(map(len, batches))

    def spill(self, before_s: float) -> int:
        if self.trouble is not None:
            raise self.trouble
        return 0

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def store() -> Store:
    """A store that works."""
    return Store()


@pytest.fixture
def intake(store: Store) -> Intake:
    """An intake into it."""
    return Intake(Ring(60.0), store, flush_s=0.01, now=lambda: 0.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("trouble", [StoreError("s.duckdb cannot be written"), RuntimeError("unforeseen")])
def test_what_the_store_refuses_waits_and_is_stored_in_order(intake: Intake, store: Store, trouble: Exception) -> None:
    """The trouble is told and counted while it lasts, whatever its kind; afterwards everything is there once."""

    async def main() -> None:
        running = asyncio.create_task(intake.run())
        store.trouble = trouble
        for at_s in range(5):
            await intake.take(_batch(float(at_s)))
            await asyncio.sleep(0.02)
        assert str(trouble) in intake.problem
        assert intake.failures_total >= 1
        store.trouble = None
        while intake.problem:
            await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await intake.close()

    asyncio.run(main())
    assert store.kept == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert (intake.samples_total, intake.stored_total, intake.dropped_total) == (5, 5, 0)
    assert store.closed


@pytest.mark.parametrize("fails", [False, True])
def test_a_stop_in_the_middle_of_storing_loses_nothing(intake: Intake, store: Store, fails: bool) -> None:
    """What was being stored when the stop came is stored, also when that very attempt fails."""

    async def main() -> None:
        store.gate = threading.Event()
        store.trouble = StoreError("full") if fails else None
        running = asyncio.create_task(intake.run())
        await intake.take(_batch(1.0))
        while intake._storing is None:
            await asyncio.sleep(0.005)
        await intake.take(_batch(2.0))
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        closing = asyncio.create_task(intake.close())
        await asyncio.sleep(0)
        store.gate.set()
        while fails and not intake.failures_total:
            await asyncio.sleep(0.005)
        await closing

    if fails:
        failing = store.append

        def once(batches: Sequence[SampleBatch]) -> int:
            try:
                return failing(batches)
            finally:
                store.trouble = None

        store.append = once  # type: ignore[method-assign]
    asyncio.run(main())
    assert store.kept == [1.0, 2.0]
    assert store.closed


def test_what_cannot_be_stored_before_the_end_is_said(
    intake: Intake, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    """The number of samples and the reason are in the log; the store is closed all the same."""
    store.trouble = StoreError("s.duckdb cannot be written", mend="Free disk space")

    async def main() -> None:
        await intake.take(_batch(1.0))
        await intake.close()

    with caplog.at_level(logging.ERROR):
        asyncio.run(main())
    assert "1 samples are lost: they could not be stored before the end (s.duckdb cannot be written" in caplog.text
    assert store.closed


def test_memory_is_bounded_while_the_store_refuses(
    intake: Intake, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest go first and are counted."""
    monkeypatch.setattr(api.intake, "MAX_WAITING_SAMPLES", 3)
    store.trouble = StoreError("full")

    async def main() -> None:
        for at_s in range(5):
            await intake.take(_batch(float(at_s)))
        await intake.flush()
        store.trouble = None
        await intake.close()

    asyncio.run(main())
    assert store.kept == [2.0, 3.0, 4.0]
    assert intake.dropped_total == 2


@pytest.mark.asyncio
async def test_a_damaged_cold_file_is_logged_by_name_and_counted(tmp_path: Path, caplog) -> None:
    """Growing old goes on around it; the log and the counter tell."""
    day_s = 86_400.0
    policy = StorePolicy(downsample_after_days=1)
    store = DuckStore(tmp_path / "s.duckdb", hot_window_s=60.0, policy=policy)
    intake = Intake(Ring(60.0), store, flush_s=0.01, now=lambda: 10 * day_s)
    store.append([_batch(1.0), _batch(2.0)])
    store.spill(50.0)  # the policy's present is then still the first day
    (file,) = store.cold.files()
    file.write_bytes(b"PAR1" + file.read_bytes()[4:-9] + b"x")
    await intake._spill(10 * day_s)
    assert intake.set_aside_total == 1
    assert [str(file) in record.getMessage() for record in caplog.records] == [True]
    assert intake.problem == ""
    await intake.close()
