"""Appends numbered batches to a store for ever and says on standard output which were acknowledged."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from features.store.duck import DuckStore
from telemetry.ids import GpuId, JobId, SeriesKey
from telemetry.samples import SampleBatch, Sighting

START_S = 1_767_225_600.0
N_SERIES = 200
KEYS = tuple(SeriesKey("gpu_power_watts", f"node-{i // 8}:GPU-{i % 8}") for i in range(N_SERIES))
GPU, JOB = GpuId("node-0", "GPU-0"), JobId("slurm", "1")


def numbered(number: int) -> SampleBatch:
    """Batch ``number``: every series once, at its own second, with the number as value."""
    at_s = START_S + number
    return SampleBatch(
        KEYS,
        np.arange(N_SERIES, dtype=np.int32),
        np.full(N_SERIES, at_s),
        np.full(N_SERIES, float(number)),
        np.zeros(N_SERIES, np.uint8),
        sightings=(Sighting(GPU, at_s, JOB, sharers=1),),
        received_s=at_s,
    )


def main() -> None:
    path, first = Path(sys.argv[1]), int(sys.argv[2])
    store = DuckStore(path)
    number = first
    while True:
        store.append([numbered(number)])
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()
        if number % 20 == 19:
            store.spill(START_S + number - 10)
        number += 1


if __name__ == "__main__":
    main()
