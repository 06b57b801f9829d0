"""A recorded run of H100 hosts in a ring, as a collector would have brought it."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np

from features.ring import Ring
from forecast.simulator.recording import COLUMNS, TELEMETRY_FILE, read_run
from telemetry.ids import GpuId, JobId, SeriesKey
from telemetry.jobs import JobView
from telemetry.samples import SampleBatch

REASONS = "gpu_clock_event_reasons_bits"


def ring_of_run(folder: Path, run: str, *, every: int = 1) -> tuple[Ring, JobView, float, float]:
    """Ring, the job that has every card, and the first and last moment.

    Args:
        folder: laid out as ``h100_dcgm_10hz``.
        run: its name.
        every: only each so-many-th reading, for a slower exporter.
    """
    ring = Ring(3600.0, max_samples_per_target=1 << 16)
    gpus: list[GpuId] = []
    first_s, last_s = np.inf, 0.0
    for node in read_run(folder, run):
        cards = [GpuId(f"h{node.node}", f"GPU-h{node.node}-{gpu}") for gpu in node.gpus]
        gpus += cards
        bits = _reasons(folder, run, node.node, node.at_s, node.gpus)
        keys = tuple(SeriesKey(metric, str(card)) for metric in (*COLUMNS, REASONS) for card in cards)
        scale = np.array([one[1] for one in COLUMNS.values()])
        value = np.concatenate([node.value * scale[None, :, None], bits[:, None, :]], axis=1)
        value = value.reshape(node.at_s.size, -1)
        for row in range(0, node.at_s.size, every):
            ring.append(
                SampleBatch(
                    keys,
                    np.arange(len(keys), dtype=np.int32),
                    np.full(len(keys), node.at_s[row]),
                    value[row],
                    np.where(np.isnan(value[row]), 3, 0).astype(np.uint8),
                    received_s=float(node.at_s[row]),
                )
            )
        first_s, last_s = min(first_s, float(node.at_s[0])), max(last_s, float(node.at_s[-1]))
    nodes = tuple(sorted({gpu.node for gpu in gpus}))
    return ring, JobView(JobId("slurm", run), nodes, tuple(sorted(gpus)), first_s, last_s), first_s, last_s


def _reasons(folder: Path, run: str, node: int, at_s: np.ndarray, gpus: np.ndarray) -> np.ndarray:
    """Clock event reasons, (n_times, n_gpus)."""
    text = "select timestamp, gpu, throttle_reasons from read_parquet($path) where run = $run and node = $node"
    with duckdb.connect() as connection:
        table = connection.execute(text, {"path": str(folder / TELEMETRY_FILE), "run": run, "node": node}).fetchnumpy()
    bits = np.full((at_s.size, gpus.size), np.nan)
    value = np.ma.filled(np.ma.asarray(table["throttle_reasons"]).astype(np.float64), np.nan)
    bits[np.searchsorted(at_s, table["timestamp"]), np.searchsorted(gpus, table["gpu"])] = value
    return bits
