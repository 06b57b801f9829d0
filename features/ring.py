"""The last minutes of every series in memory, for the service loop; answers as the store does."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

import numpy as np

from features.ring_block import Block, Piece, cut, join
from features.store.allocations import AllocationBook
from features.store.base import Series
from telemetry.ids import SeriesKey
from telemetry.jobs import Allocation
from telemetry.samples import SampleBatch, Sighting, SightingsAt, validate_batch

EVICT_EVERY = 256
"""Least number of appends between two looks for layouts that fell out of the window; a look costs as much as there are
layouts, so with more of them than this it waits for one append of each."""
_FORGET_EVERY = 8
"""Looks for layouts between two looks for owners that are over, of which there are more."""


class Ring:
    """The recent past in memory, bounded.

    ``read`` gives the same answer as ``DuckStore.read`` for whatever still is inside the ring. One lock guards
    it, so that the loop may append while a forecast reads.

    Args:
        window_s: how far back reads must reach.
        max_samples_per_target: most instants kept per layout; the oldest go first.
    """

    def __init__(self, window_s: float, max_samples_per_target: int = 4096) -> None:
        self.window_s = window_s
        self._max_rows = max(1, max_samples_per_target)
        self._blocks: dict[tuple[SeriesKey, ...], Block] = {}
        self._by_identity: dict[int, Block] = {}
        self._places: dict[SeriesKey, list[tuple[Block, int]]] = {}
        self._by_metric: dict[str, dict[SeriesKey, None]] = {}
        self._book = AllocationBook()
        self._seen_s = -np.inf
        self._appends = 0
        self._look_at = EVICT_EVERY
        self._looks = 0
        self._lock = threading.Lock()

    def append(self, batch: SampleBatch) -> None:
        """Take in a batch.

        Raises:
            SchemaError: a batch of a layout not seen before breaks a law of ``SampleBatch``.
        """
        with self._lock:
            self._appends += 1
            if len(batch):
                self._block(batch).append(batch, self._appends)
            self._note(batch.sightings)
            if self._appends >= self._look_at:
                self._look_at = self._appends + max(EVICT_EVERY, len(self._blocks))
                self._evict()

    def _note(self, sightings: Sequence[Sighting]) -> None:
        if sightings:
            self._book.add(sightings)
            newest_s = sightings.at_s if isinstance(sightings, SightingsAt) else max(s.at_s for s in sightings)
            self._seen_s = max(self._seen_s, newest_s)

    def _block(self, batch: SampleBatch) -> Block:
        known = self._by_identity.get(id(batch.keys))
        if known is not None:
            return known
        validate_batch(batch)
        block = self._blocks.get(batch.keys)
        if block is None:
            block = Block(batch.keys, self.window_s, self._max_rows)
            self._blocks[batch.keys] = block
            for column, key in enumerate(batch.keys):
                self._places.setdefault(key, []).append((block, column))
                self._by_metric.setdefault(key.metric, {})[key] = None
        if block.keys is batch.keys:
            # Only the tuple that the block holds alive: another one's id may be used again by a stranger.
            self._by_identity[id(batch.keys)] = block
        return block

    def _evict(self) -> None:
        newest_s = max((block.newest_received_s for block in self._blocks.values()), default=0.0)
        for keys, block in list(self._blocks.items()):
            if block.newest_received_s >= newest_s - self.window_s:
                continue
            del self._blocks[keys]
            del self._by_identity[id(block.keys)]
            for key in keys:
                self._places[key] = [place for place in self._places[key] if place[0] is not block]
                if not self._places[key]:
                    del self._places[key]
                    del self._by_metric[key.metric][key]
        self._looks += 1
        if self._looks % _FORGET_EVERY == 0:
            self._book.forget(self._seen_s - self.window_s)

    def read(self, keys: Sequence[SeriesKey], as_of_s: float, window_s: float) -> list[Series]:
        """The series as known at ``as_of_s``, in the order asked; an unknown key gives an empty series."""
        with self._lock:
            wanted: dict[int, tuple[Block, list[int], list[int]]] = {}
            for position, key in enumerate(keys):
                for block, column in self._places.get(key, ()):
                    _, positions, columns = wanted.setdefault(id(block), (block, [], []))
                    positions.append(position)
                    columns.append(column)
            parts: list[list[Piece]] = [[] for _ in keys]
            for block, positions, columns in wanted.values():
                cut(block, keys, positions, columns, block.rows(as_of_s, window_s), parts)
        return [join(key, part) for key, part in zip(keys, parts, strict=True)]

    def keys(self, metrics: Iterable[str] | None = None) -> list[SeriesKey]:
        """Every series in the ring, optionally of some metrics only."""
        with self._lock:
            if metrics is None:
                return list(self._places)
            return [key for metric in dict.fromkeys(metrics) for key in self._by_metric.get(metric, ())]

    def allocations(self, as_of_s: float, window_s: float) -> list[Allocation]:
        """Who had what inside the window, as known at ``as_of_s``."""
        with self._lock:
            return self._book.allocations(as_of_s, window_s)

    def received_s(self, key: SeriesKey) -> float | None:
        """When the newest sample of a series arrived, in this machine's clock; None when there is none."""
        with self._lock:
            return max((block.received_s(column) for block, column in self._places.get(key, ())), default=None)

    def latest_s(self, key: SeriesKey) -> float | None:
        """Time of the newest sample of a series, in the source's clock; None when there is none."""
        with self._lock:
            latest = max((block.latest_s(column) for block, column in self._places.get(key, ())), default=-np.inf)
        return None if latest == -np.inf else latest
