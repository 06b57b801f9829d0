"""Whether sending everything three times, shuffled, leaves a store with the very content of sending it once in order."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from api.bench.result import Row
from features.store.content import content_digest
from features.store.duck import DuckStore
from telemetry.samples import SampleBatch

TIMES = 3
WITHIN_S = 600.0
_BATCHES_PER_APPEND = 60
_SPILLS = 4
_SEED = 20260101


def rows(batches: Sequence[SampleBatch], prefix: str) -> tuple[list[Row], str]:
    """Task ``replay``, and a sentence with the two digests.

    Args:
        batches: each with one moment, each its own samples.
        prefix: of the task's name.
    """
    shuffled = [batches[place] for place in replayed(batches)]
    with tempfile.TemporaryDirectory(prefix="gpucast-bench-") as folder:
        once = _digest(Path(folder) / "once", batches)
        again = _digest(Path(folder) / "again", shuffled)
    task = f"{prefix}replay"
    told = [
        Row(task, "gpucast", "identical", float(once == again), np.nan, np.nan, len(shuffled)),
        Row(task, "gpucast", "batches_sent", float(len(shuffled)), np.nan, np.nan, TIMES),
    ]
    word = "the same content" if once == again else f"OTHER content, {again}"
    return told, f"content of the store sent once in order: {once}; {TIMES} times shuffled within 10 min: {word}"


def replayed(batches: Sequence[SampleBatch]) -> list[int]:
    """Places of ``batches``, each ``TIMES`` times, each time up to ``WITHIN_S`` from its own moment."""
    dice = np.random.default_rng(_SEED)
    moment_s = np.tile(np.array([float(batch.at_s[0]) for batch in batches]), TIMES)
    order = np.argsort(moment_s + dice.uniform(0.0, WITHIN_S, moment_s.size), kind="stable")
    return [int(place) for place in order % len(batches)]


def _digest(file: Path, batches: Sequence[SampleBatch]) -> str:
    """The content after the batches went in with spills among them and a compaction in the end, as in a service."""
    store = DuckStore(file.with_suffix(".duckdb"))
    try:
        every = max(_BATCHES_PER_APPEND, len(batches) // _SPILLS)
        for first in range(0, len(batches), _BATCHES_PER_APPEND):
            part = batches[first : first + _BATCHES_PER_APPEND]
            store.append(part)
            if first % every < _BATCHES_PER_APPEND:
                store.spill(float(np.median([batch.at_s[0] for batch in part])))
        store.compact(max(float(batch.at_s[0]) for batch in batches))
        with store.using() as connection:
            return content_digest(connection, store.cold)
    finally:
        store.close()
