"""From batches to the hot window at once, and to the store in groups."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from features.ring import Ring
from features.store.base import FeatureStore
from telemetry.errors import StoreError
from telemetry.samples import SampleBatch

MAX_WAITING_SAMPLES = 4_000_000
"""About 100 MB of waiting columns; beyond it the oldest batches are dropped and counted."""


class Intake:
    """Hands every batch to the ring now and to the store within ``flush_s``.

    When the store refuses, batches wait in memory and are tried again; the service says so and turns unready.

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
        self._spill_after_s = spill_after_s
        self._waiting: list[SampleBatch] = []
        # One thread: DuckDB takes one writer, and a slow disk must not stop the loop.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store")
        self.problem = ""
        self.samples_total = 0
        self.stored_total = 0
        self.dropped_total = 0
        self.failures_total = 0

    async def take(self, batch: SampleBatch) -> None:
        """Accept one batch from a collector."""
        if len(batch) == 0 and not batch.sightings:
            return
        self._ring.append(batch)
        self._waiting.append(batch)
        self.samples_total += len(batch)

    async def run(self) -> None:
        """Flush for ever; cancel to stop, then call ``close``."""
        spilled_s = self._now()
        while True:
            await asyncio.sleep(self._flush_s)
            await self.flush()
            if self._spill_after_s is not None and self._now() - spilled_s > max(60.0, self._spill_after_s / 12):
                spilled_s = self._now()
                await self._spill(spilled_s - self._spill_after_s)

    async def flush(self) -> None:
        """Store what waits; on failure keep it for the next try."""
        batches, self._waiting = self._waiting, []
        if not batches:
            return
        try:
            self.stored_total += await asyncio.get_running_loop().run_in_executor(
                self._thread, self._store.append, batches
            )
            self.problem = ""
        except StoreError as error:
            self.problem = str(error)
            self.failures_total += 1
            self._waiting = batches + self._waiting
            self._drop_oldest()

    async def _spill(self, before_s: float) -> None:
        spill = getattr(self._store, "spill", None)
        if spill is None:
            return
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, spill, before_s)
        except StoreError as error:
            self.problem = str(error)
            self.failures_total += 1

    def _drop_oldest(self) -> None:
        waiting = sum(len(batch) for batch in self._waiting)
        while waiting > MAX_WAITING_SAMPLES and self._waiting:
            oldest = self._waiting.pop(0)
            waiting -= len(oldest)
            self.dropped_total += len(oldest)

    async def close(self) -> None:
        """Store what still waits and release the files."""
        await self.flush()
        self._thread.shutdown(wait=True)
        self._store.close()
