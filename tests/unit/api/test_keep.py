"""What senders push is acknowledged once it is on disk, together, and never twice promised."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest

import api.intake
from api.intake import Intake, IntakeBusy
from features.ring import Ring
from telemetry.errors import StoreError, StoreFull
from telemetry.ids import GpuId, JobId, SeriesKey
from telemetry.samples import SampleBatch, Sighting

KEY = SeriesKey("gpu_power_watts", "n:G")
NOW = 10_000.0


def batch(at_s: float) -> SampleBatch:
    return SampleBatch.of([(KEY, at_s, 300.0)], received_s=NOW)


class Store:
    """Counts transactions; waits for ``gate`` and refuses with ``trouble`` where these are set."""

    def __init__(self) -> None:
        self.trouble: Exception | None = None
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()
        self.transactions: list[list[float]] = []

    def append(self, batches: Sequence[SampleBatch]) -> int:
        self.entered.set()
        self.gate.wait(10.0)
        if self.trouble is not None:
            raise self.trouble
        self.transactions.append([float(at_s) for one in batches for at_s in one.at_s])
        return sum(map(len, batches))

    def close(self) -> None:
        return


@pytest.fixture
def store() -> Store:
    """A store that works."""
    return Store()


@pytest.fixture
def ring() -> Ring:
    """A minute of memory."""
    return Ring(60.0)


@pytest.fixture
def intake(store: Store, ring: Ring) -> Intake:
    """An intake into both."""
    return Intake(ring, store, flush_s=0.01, now=lambda: NOW)  # type: ignore[arg-type]


@pytest.mark.asyncio
async def test_it_comes_back_once_the_store_has_written(store: Store, intake: Intake, ring: Ring) -> None:
    """Not before, and then the ring has it too."""
    store.gate.clear()
    sending = asyncio.create_task(intake.keep([batch(NOW)]))
    await asyncio.to_thread(store.entered.wait, 10.0)
    assert not sending.done()
    store.gate.set()
    await sending
    assert store.transactions == [[NOW]]
    assert ring.latest_s(KEY) == NOW
    assert (intake.samples_total, intake.stored_total) == (1, 1)


@pytest.mark.asyncio
async def test_those_who_come_meanwhile_share_one_transaction(store: Store, intake: Intake) -> None:
    """And what collectors brought goes with them."""
    store.gate.clear()
    first = asyncio.create_task(intake.keep([batch(1.0)]))
    await asyncio.to_thread(store.entered.wait, 10.0)
    later = [asyncio.create_task(intake.keep([batch(at_s)])) for at_s in (2.0, 3.0, 4.0)]
    await intake.take(batch(5.0))
    await asyncio.sleep(0)
    store.gate.set()
    await asyncio.gather(first, *later)
    assert store.transactions == [[1.0], [5.0, 2.0, 3.0, 4.0]]


@pytest.mark.asyncio
async def test_a_refusal_reaches_the_sender_and_nothing_of_his_is_kept(store: Store, intake: Intake) -> None:
    """He sends again; what collectors brought waits for the next try as before."""
    store.trouble = StoreFull("no room", mend="Make some")
    await intake.take(batch(1.0))
    with pytest.raises(StoreFull, match="no room"):
        await intake.keep([batch(2.0)])
    assert intake.problem
    with pytest.raises(StoreFull):
        await intake.keep([batch(2.0)])
    assert intake.failures_total == 1, "a store that has just refused is not asked by every sender"
    store.trouble = None
    await intake.flush()
    assert store.transactions == [[1.0]]
    await intake.keep([batch(2.0)])
    assert store.transactions == [[1.0], [2.0]]
    assert intake.problem == ""


@pytest.mark.asyncio
async def test_after_a_pause_a_sender_is_the_next_try(store: Store, intake: Intake) -> None:
    """Where nothing else comes in, nobody else would ask the store again."""
    store.trouble = RuntimeError("odd")
    with pytest.raises(StoreError, match="odd"):
        await intake.keep([batch(1.0)])
    store.trouble = None
    await asyncio.sleep(0.05)
    await intake.keep([batch(1.0)])
    assert (store.transactions, intake.problem) == ([[1.0]], "")


@pytest.mark.asyncio
async def test_too_much_at_once_is_sent_away(store: Store, intake: Intake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded; a single large one is still taken."""
    monkeypatch.setattr(api.intake, "MAX_PUSHED_SAMPLES", 2)
    store.gate.clear()
    first = asyncio.create_task(intake.keep([batch(1.0)]))
    await asyncio.to_thread(store.entered.wait, 10.0)
    waiting = [asyncio.create_task(intake.keep([batch(at_s)])) for at_s in (2.0, 3.0)]
    await asyncio.sleep(0)
    with pytest.raises(IntakeBusy):
        await intake.keep([batch(4.0)])
    store.gate.set()
    await asyncio.gather(first, *waiting)
    await intake.keep([batch(5.0), batch(6.0), batch(7.0)])
    assert store.transactions == [[1.0], [2.0, 3.0], [5.0, 6.0, 7.0]]


@pytest.mark.asyncio
async def test_a_sender_that_left_does_not_take_its_samples_along(store: Store, intake: Intake) -> None:
    """The transaction ends as if he were there."""
    store.gate.clear()
    sending = asyncio.create_task(intake.keep([batch(1.0)]))
    await asyncio.to_thread(store.entered.wait, 10.0)
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    store.gate.set()
    await intake.close()
    assert store.transactions == [[1.0]]


@pytest.mark.asyncio
async def test_old_samples_go_to_the_store_alone(store: Store, intake: Intake, ring: Ring) -> None:
    """In the ring they would push newer ones out; who had which GPU is still noted."""
    await intake.keep([batch(NOW - 3600.0)])
    assert store.transactions == [[NOW - 3600.0]]
    assert ring.latest_s(KEY) is None
    sighting = Sighting(GpuId("n", "G"), NOW, JobId("slurm", "1"), sharers=1)
    empty = SampleBatch.empty(received_s=NOW)
    await intake.keep(
        [SampleBatch(*(getattr(empty, c) for c in ("keys", "series", "at_s", "value", "reason")), (sighting,))]
    )
    assert [one.job for one in ring.allocations(NOW, 60.0)] == [JobId("slurm", "1")]
