"""What the store costs: CPU to append, time to read, bytes to keep."""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from api.bench import store_full, store_kill, store_replay
from api.bench.datasets import H100_COLUMNS, H100_FILE, Recording, digest_of
from api.bench.result import BenchResult, Row
from api.bench.simulated import GENERATOR, simulated_datasets
from features.store.duck import DuckStore
from features.store.stat import cold_stat
from telemetry.ids import SeriesKey
from telemetry.samples import Reason, SampleBatch

_COLUMNS = {
    **H100_COLUMNS,
    "mem_used_mib": ("gpu_memory_used_bytes", 2.0**20, np.inf),
    "fp16_active": ("gpu_fp16_active_ratio", 1.0, 1.0),
    "energy_mj": ("gpu_energy_joules_total", 1e-3, np.inf),
}
"""Every column of the recording that the catalogue has a metric for, not only those that are forecast."""

Progress = Callable[[str], None]

_SEED = 20260101
_START_S = 1_767_225_600.0
_BATCHES_PER_APPEND = 60
"""As the service does: what a second or so of scraping brought."""
_READS = 20
_JOB_GPUS = 1000
_JOB_WINDOW_S = 600
_N_PARTS = 8


TASKS = {
    "cost": "samples appended per CPU second, read times, bytes a sample",
    "kill": "kill -9 of a running service, 20 times under load: samples lost and doubled, seconds until it is ready",
    "replay": "every batch three times, shuffled within 10 minutes: whether the content stays the same",
    "full": "a disk that fills up under a running service: answers, and what is there once it has room again",
}
"""Task -> what it measures; ``cost`` and ``replay`` take recorded telemetry where there is some."""


def run(data: Path | None, progress: Progress, *, quick: bool = False, task: str = "cost") -> BenchResult:
    """One of ``TASKS``.

    Args:
        data: folder with recorded telemetry; without its recording, or without a folder, seeded simulated jobs.
        progress: told what is going on, a line at a time.
        quick: a part of the data or of the kills, for a first look.
        task: which one.

    Samples go in as they would come from a scrape, one batch per node and moment, arriving 2 to 20 ms (seeded) after
    their time. ``bytes_per_sample`` is the size of all cold files, footers included, over the samples in them, after
    ``compact``. CPU time is that of this process, all threads.
    """
    if task == "kill":
        told, digest = store_kill.rows(progress, quick=quick)
        return BenchResult("store", digest, tuple(told))
    if task == "full":
        told, digest, why = store_full.rows(progress)
        return BenchResult("store", digest, tuple(told), (why,) if why else ())
    batches, digest, recorded = _batches(data, progress, quick)
    prefix = "" if recorded else "sim-"
    if task == "replay":
        progress(f"sending {len(batches)} batches once, then {store_replay.TIMES} times in another order")
        told, sentence = store_replay.rows(batches, prefix)
        return BenchResult("store", digest, tuple(told), (sentence,))
    with tempfile.TemporaryDirectory(prefix="gpucast-bench-") as folder:
        rows = _telemetry(Path(folder), batches, prefix, progress)
        rows += _big_job(Path(folder), 150 if quick else _JOB_WINDOW_S, progress)
    note = "" if recorded else "simulated telemetry: bytes per sample of a real site are other ones"
    return BenchResult("store", digest, tuple(rows), (note,) if note else ())


def _batches(data: Path | None, progress: Progress, quick: bool) -> tuple[list[SampleBatch], str, bool]:
    """What goes in, its digest, and whether it was recorded."""
    file = None if data is None else data / H100_FILE
    if file is not None and file.is_file():
        progress("reading the recording")
        return list(_recorded(file, quick)), digest_of([file]), True
    progress("making simulated telemetry")
    digest = hashlib.sha256(f"store {GENERATOR} {_SEED} {quick}".encode()).hexdigest()
    return list(_simulated(quick)), digest, False


def _telemetry(folder: Path, batches: Sequence[SampleBatch], prefix: str, progress: Progress) -> list[Row]:
    store = DuckStore(folder / "telemetry.duckdb")
    try:
        progress(f"appending {sum(map(len, batches))} samples in {len(batches)} batches")
        rates = _append(store, batches)
        newest = max(batches, key=lambda batch: float(batch.at_s[0]))
        key, last_s = newest.keys[0], float(newest.at_s[0])
        hot = _timed(lambda: store.read([key], last_s, 600.0))
        progress("moving them to cold files")
        for batch_time_s in (*_middles(batches), last_s + 1.0):  # several spills a day, as a service makes them
            store.spill(batch_time_s)
        progress("compacting")
        store.compact(last_s)
        cold = _timed(lambda: store.read([key], last_s, 600.0))
        with store.using() as connection:
            stat = cold_stat(connection, store.cold)
    finally:
        store.close()
    per_sample = stat.bytes / stat.samples
    forecast = {ours for ours, _, _ in H100_COLUMNS.values()}
    mine = [(n, b) for m, n, b in stat.metrics if m in forecast]
    n_mine = sum(n for n, _ in mine)
    of_mine = sum(b for _, b in mine) / n_mine
    each = [Row(f"{prefix}cold", m, "bytes_per_sample", b / n, np.nan, np.nan, n) for m, n, b in stat.metrics]
    return [
        _row(f"{prefix}append", "gpucast", "samples_per_cpu_s", rates),
        _row(f"{prefix}read-series", "hot", "ms", hot),
        _row(f"{prefix}read-series", "cold", "ms", cold),
        Row(f"{prefix}cold", "all", "bytes_per_sample", per_sample, np.nan, np.nan, stat.samples),
        Row(f"{prefix}cold", "those forecast", "bytes_per_sample", of_mine, np.nan, np.nan, n_mine),
        *each,
    ]


def _middles(batches: Sequence[SampleBatch]) -> list[float]:
    """Per UTC day the median time of its batches."""
    at_s = np.array([batch.at_s[0] for batch in batches])
    days = np.floor(at_s / 86_400.0)
    return [float(np.median(at_s[days == day])) for day in np.unique(days)]


def _big_job(folder: Path, seconds: int, progress: Progress) -> list[Row]:
    """One metric of a job of 1,000 GPUs over the window, 1 Hz, hot and cold."""
    progress(f"reading a job of {_JOB_GPUS} GPUs over {seconds} s")
    random = np.random.default_rng(_SEED)
    keys = tuple(SeriesKey("gpu_util_ratio", f"n{i // 8}:GPU-{i}") for i in range(_JOB_GPUS))
    store = DuckStore(folder / "job.duckdb")
    try:
        for k in range(seconds):
            store.append([_batch(keys, _START_S + k, random.random(_JOB_GPUS).round(2), 0.005)])
        last_s = _START_S + seconds
        hot = _timed(lambda: store.read(keys, last_s, float(_JOB_WINDOW_S)))
        store.spill(last_s + 1)
        cold = _timed(lambda: store.read(keys, last_s, float(_JOB_WINDOW_S)))
    finally:
        store.close()
    return [_row("read-job-1000", "hot", "ms", hot), _row("read-job-1000", "cold", "ms", cold)]


def _recorded(file: Path, quick: bool) -> Iterator[SampleBatch]:
    """One batch per node and moment, in the order of the recording."""
    import duckdb

    only = "where run in (select min(run) from read_parquet($1))" if quick else ""
    query = f"select *, run || '-' || node as host from read_parquet($1) {only} order by host, timestamp, gpu"
    table: dict[str, Any] = duckdb.execute(query, [str(file)]).fetchnumpy()
    at_s: Any = table["timestamp"].astype(np.float64)
    host, gpu = table["host"].astype(str), table["gpu"].astype(int)
    values = np.stack(
        [np.ma.filled(table[column].astype(np.float64), np.nan) * scale for column, (_, scale, _) in _COLUMNS.items()]
    )
    edges = np.flatnonzero(np.r_[True, (at_s[1:] != at_s[:-1]) | (host[1:] != host[:-1]), True])
    names = [ours for ours, _, _ in _COLUMNS.values()]
    layouts: dict[tuple[str, bytes], tuple[SeriesKey, ...]] = {}
    late_s: NDArray[np.float64] = 0.002 + 0.018 * np.random.default_rng(_SEED).random((edges.size,))
    for k, (start, stop) in enumerate(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)):
        layout = str(host[start]), gpu[start:stop].tobytes()
        if layout not in layouts:
            layouts[layout] = tuple(SeriesKey(m, f"{layout[0]}:GPU-{g}") for m in names for g in gpu[start:stop])
        yield _batch(layouts[layout], float(at_s[start]), values[:, start:stop].ravel(), float(late_s[k]))


def _simulated(quick: bool) -> Iterator[SampleBatch]:
    for recording in simulated_datasets(_SEED, quick)[0].recordings:
        yield from _of(recording)


def _of(recording: Recording) -> Iterator[SampleBatch]:
    random = np.random.default_rng(_SEED)
    keys = tuple(SeriesKey(m, e) for m, e in zip(recording.metric, recording.entity, strict=True))
    points = recording.values.shape[1]
    at_s = _START_S + np.arange(points) * recording.step_s + 0.01 * random.random((points,))
    late_s: NDArray[np.float64] = 0.002 + 0.018 * random.random((points,))
    for k in range(points):
        yield _batch(keys, float(at_s[k]), recording.values[:, k], float(late_s[k]))


def _batch(keys: tuple[SeriesKey, ...], at_s: float, value: NDArray[np.float64], late_s: float) -> SampleBatch:
    n = len(keys)
    reason = np.where(np.isnan(value), np.uint8(Reason.BLANK), np.uint8(0)).astype(np.uint8)
    return SampleBatch(
        keys, np.arange(n, dtype=np.int32), np.full(n, at_s), value, reason, source="bench", received_s=at_s + late_s
    )


def _append(store: DuckStore, batches: Sequence[SampleBatch]) -> list[float]:
    """Samples per CPU second of each part."""
    size = max(1, len(batches) // _N_PARTS)
    rates = []
    for start in range(0, size * _N_PARTS, size):
        part = batches[start:] if start == size * (_N_PARTS - 1) else batches[start : start + size]
        before_s = time.process_time()
        for first in range(0, len(part), _BATCHES_PER_APPEND):
            store.append(part[first : first + _BATCHES_PER_APPEND])
        rates.append(sum(map(len, part)) / max(time.process_time() - before_s, 1e-9))
    return rates


def _timed(call: Callable[[], object]) -> list[float]:
    """Milliseconds of each of several calls, the first one left out."""
    call()
    found = []
    for _ in range(_READS):
        before_s = time.perf_counter()
        call()
        found.append((time.perf_counter() - before_s) * 1e3)
    return found


def _row(task: str, model: str, metric: str, figures: Iterable[float]) -> Row:
    found = np.array(list(figures))
    low, middle, high = np.quantile(found, [0.025, 0.5, 0.975])
    return Row(task, model, metric, float(middle), float(low), float(high), found.size)
