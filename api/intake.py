"""From batches to the hot window at once, and to the store in groups."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from collectors.served import ServedDevices
from features.ring import Ring
from features.store.base import FeatureStore
from telemetry.errors import GpucastError, StoreError
from telemetry.ids import SeriesKey
from telemetry.samples import SampleBatch

Result = TypeVar("Result")

MAX_WAITING_SAMPLES = 4_000_000
"""About 100 MB of waiting columns; beyond it the oldest batches are dropped and counted."""

MAX_PUSHED_SAMPLES = 1_000_000
"""About 30 MB of columns that senders wait for; beyond it a sender is asked to come again."""

log = logging.getLogger("gpucast")


class IntakeBusy(GpucastError):
    """As many pushed samples wait for the store as may; the sender keeps its own and comes again."""


class Intake:
    """Hands every batch to the ring now and to the store within ``flush_s``.

    When the store refuses, batches wait in memory and are tried again; the service says so and turns unready. What
    senders push (``keep``) does not wait that long, and is not kept for them when the store refuses.

    Args:
        ring: hot window in memory.
        store: durable store.
        flush_s: longest wait.
        now: wall clock.
        spill_after_s: samples older than this move to cold partitions; None never moves any.
    """

    def __init__(
        self,
        ring: Ring,
        store: FeatureStore,
        *,
        flush_s: float,
        now: Callable[[], float],
        spill_after_s: float | None = None,
    ) -> None:
        self._ring = ring
        self._store = store
        self._flush_s = flush_s
        self._now = now
        self.served = ServedDevices()
        """Which source serves which GPU."""
        self._spill_after_s = spill_after_s
        self._waiting: list[SampleBatch] = []
        self._pushed: list[tuple[Sequence[SampleBatch], asyncio.Future[Counter[SeriesKey]]]] = []
        self._pushed_samples = 0
        self._try_again_s = 0.0
        self._refusal: StoreError | None = None
        self._storing: asyncio.Task[None] | None = None
        # One thread: DuckDB takes one writer, and a slow disk must not stop the loop.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store")
        self._failed_in_a_row = 0
        self.problem = ""
        self.samples_total = 0
        self.stored_total = 0
        self.dropped_total = 0
        self.failures_total = 0

    @property
    def refused_total(self) -> int:
        """Samples of new series beyond the store's limit; stores without one refuse none."""
        return sum(getattr(self._store, "refused", {}).values())

    @property
    def set_aside_total(self) -> int:
        """Damaged cold files that the store no longer reads; stores without such files have none."""
        cold = getattr(self._store, "cold", None)
        return len(cold.aside) if cold is not None else 0

    async def take(self, batch: SampleBatch) -> None:
        """Accept one batch from a collector."""
        if len(batch) == 0 and not batch.sightings:
            return
        self._ring.append(batch)
        self._waiting.append(batch)
        self.served.note(batch)
        self.samples_total += len(batch)

    async def keep(self, batches: Sequence[SampleBatch]) -> Counter[SeriesKey]:
        """Accept batches that somebody pushed, and come back once they are on disk.

        Those who push while the store writes share its next transaction. Samples older than the ring's window go to
        the store only: in the ring they would push newer ones out.

        Returns:
            Samples that are not on disk, by series, as their series are beyond the store's limit of them.

        Raises:
            IntakeBusy: too many pushed samples wait already; nothing is taken.
            StoreError: the store refused; nothing is stored, and the sender has to send them again.
        """
        count = sum(len(batch) for batch in batches)
        if self._pushed_samples and self._pushed_samples + count > MAX_PUSHED_SAMPLES:
            raise IntakeBusy(f"{self._pushed_samples} pushed samples wait for the store", mend="Send again in a second")
        loop = asyncio.get_running_loop()
        if self._refusal is not None and loop.time() < self._try_again_s:
            raise _again(self._refusal)
        done: asyncio.Future[Counter[SeriesKey]] = loop.create_future()
        done.add_done_callback(lambda told: told.cancelled() or told.exception())  # the sender may have left meanwhile
        self._pushed.append((batches, done))
        self._pushed_samples += count
        self._start_storing()
        left_out = await asyncio.shield(done)
        oldest_s = self._now() - self._ring.window_s
        for batch in batches:
            self.served.note(batch)
            if batch.sightings or (len(batch) and float(batch.at_s.max()) >= oldest_s):
                self._ring.append(batch)
        self.samples_total += count
        return left_out

    async def run(self) -> None:
        """Flush for ever; cancel to stop, then call ``close``."""
        spilled_s = self._now()
        while True:
            await asyncio.sleep(self._pause_s())
            await self.flush()
            if self._spill_after_s is not None and self._now() - spilled_s > max(60.0, self._spill_after_s / 12):
                spilled_s = self._now()
                await self._spill(spilled_s - self._spill_after_s)

    async def flush(self) -> None:
        """Store what waits; on failure keep it for the next try. A flush under way ends also when this is cancelled."""
        await asyncio.shield(self._start_storing())

    def _start_storing(self) -> asyncio.Task[None]:
        if self._storing is None:
            self._storing = asyncio.create_task(self._store_waiting(), name="store samples")
        return self._storing

    async def _store_waiting(self) -> None:
        batches, self._waiting = self._waiting, []
        pushed, self._pushed, self._pushed_samples = self._pushed, [], 0
        try:
            left_out: list[Counter[SeriesKey]] = []
            if batches or pushed:
                stored, left_out = await self._in_thread(self._append, (batches, [group for group, _ in pushed]))
                self.stored_total += stored
                self.problem, self._failed_in_a_row, self._refusal = "", 0, None
            for (_, done), left in zip(pushed, left_out, strict=True):
                done.set_result(left)
        except Exception as error:  # whatever it is, the samples wait for the next try and the service goes on
            self._note(error)
            self._failed_in_a_row += 1
            self._refusal = error if isinstance(error, StoreError) else StoreError(self.problem)
            self._try_again_s = asyncio.get_running_loop().time() + self._pause_s()
            self._waiting = batches + self._waiting
            self._drop_oldest()
            for _, done in pushed:
                done.set_exception(_again(self._refusal))
        finally:
            self._storing = None
            if self._pushed:
                self._start_storing()

    def _append(
        self, waiting: tuple[list[SampleBatch], list[Sequence[SampleBatch]]]
    ) -> tuple[int, list[Counter[SeriesKey]]]:
        """Store everything in one transaction; how much was stored, and what of each pushed group was left out."""
        batches, groups = waiting
        stored = self._store.append([*batches, *(batch for group in groups for batch in group)])
        left_out = getattr(self._store, "left_out", None)  # a store without a limit of series needs none
        return stored, [left_out(group) if left_out is not None else Counter() for group in groups]

    def _pause_s(self) -> float:
        """Until the next try: a store that refuses is asked less often, as each may have to read its log again."""
        return self._flush_s * 2.0 ** min(self._failed_in_a_row, 5)

    async def _in_thread(self, call: Callable[[Any], Result], argument: object) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call, argument)

    def _note(self, error: Exception) -> None:
        """Log a trouble when it begins, not each time that it recurs."""
        told = str(error) if isinstance(error, StoreError) else f"{type(error).__name__}: {error}"
        if told != self.problem:
            log.error(
                "samples cannot be stored and wait in memory: %s", told, exc_info=not isinstance(error, StoreError)
            )
        self.problem = told
        self.failures_total += 1

    async def _spill(self, before_s: float) -> None:
        spill = getattr(self._store, "spill", None)
        if spill is None:
            return
        known = self.set_aside_total
        try:
            await self._in_thread(spill, before_s)
        except Exception as error:  # the samples stay where they are; the next spill tries again
            self._note(error)
        if self.set_aside_total > known:
            log.error("%s", "; ".join(self._store.cold.aside[known:]))  # type: ignore[attr-defined]

    def _drop_oldest(self) -> None:
        waiting = sum(len(batch) for batch in self._waiting)
        while waiting > MAX_WAITING_SAMPLES and self._waiting:
            oldest = self._waiting.pop(0)
            waiting -= len(oldest)
            self.dropped_total += len(oldest)

    async def close(self) -> None:
        """Store what still waits and release the files."""
        while self._storing is not None:
            await self._storing
        await self.flush()
        left = sum(len(batch) for batch in self._waiting)
        if left:
            log.error("%d samples are lost: they could not be stored before the end (%s)", left, self.problem)
        self._thread.shutdown(wait=True)
        try:
            self._store.close()
        except StoreError as error:
            log.error("the store could not be closed well; what it acknowledged is safe: %s", error)


def _again(refusal: StoreError) -> StoreError:
    """The same refusal for another sender; one object raised in several places would gather their tracebacks."""
    return type(refusal)(refusal.message, mend=refusal.mend)
