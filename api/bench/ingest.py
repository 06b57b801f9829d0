"""How many samples per CPU second the way from a page to the store takes, beside prometheus_client on the same pages.

The pages are those of one target with 8 GPUs, 20 families and about 10 labels a line. Every page has other values, so
lines change their length from page to page; the labels stay, as they do in life.
"""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from prometheus_client.parser import text_string_to_metric_families

from api.bench import prometheus_backfill, remote_write
from api.bench.ingest_http import AT_ONCE_S, measure, rows_of
from api.bench.result import BenchResult, Row
from collectors.exposition import PageParser
from collectors.fields import FieldMapper
from features.store.duck import DuckStore
from telemetry.catalogue import METRICS, Blank, Level, Metric
from telemetry.ids import SeriesKey
from telemetry.samples import SampleBatch

Progress = Callable[[str], None]

_N_GPUS = 8
_N_FAMILIES = 20
_N_PAGES = 600
_N_PAGES_REFERENCE = 40
"""prometheus_client is two orders slower; fewer pages give as steady a figure."""
_PAGES_PER_APPEND = 60
"""The service appends what a second or so of scraping brought; 60 pages are 60 targets at 1 Hz."""
_N_PARTS = 8
_N_VARIANTS = 3
"""Of a node's page over HTTP: each scrape sees other values than the one before."""
_HTTP_NODES = 1250
"""10,000 GPUs."""
_PEAK_NODES = 125
_FIRST_AT_S = 1_767_225_600.0
_SEED = 20260101
_VERSION = "1"


def run(data: Path | None, progress: Progress, *, quick: bool = False) -> BenchResult:
    """Tasks ``parse`` and ``page-to-store``, models ``gpucast`` and ``prometheus_client``; Prometheus back-fill beside
    ``prometheus_api_client``; remote write; the way over HTTP.

    Args:
        data: not used; the pages are made here, seeded, so that the figure is about the code and not the recording.
        progress: told what is going on, a line at a time.
        quick: a quarter of the pages and a tenth of the nodes, for a first look.

    The figure is the median over equal parts of the run, the interval its 2.5 and 97.5 percentiles; CPU time is that
    of this process, all threads. ``http-to-store`` and ``http-peak`` are one run each, with the pages served by another
    process on the same machine whose CPU time is not counted.
    """
    del data
    n_pages = _N_PAGES // 4 if quick else _N_PAGES
    progress(f"making {n_pages} pages of {_N_GPUS} GPUs x {_N_FAMILIES} families")
    pages = make_pages(n_pages, _SEED)
    few = pages[:_N_PAGES_REFERENCE]
    rows: list[Row] = []
    progress("parsing with gpucast")
    rows.append(_row("parse", "gpucast", _parse_gpucast(pages)))
    progress("parsing with prometheus_client")
    rows.append(_row("parse", "prometheus_client", _parse_reference(few)))
    progress("page to store with gpucast")
    rows.append(_row("page-to-store", "gpucast", _store_gpucast(pages)))
    progress("page to store with prometheus_client")
    rows.append(_row("page-to-store", "prometheus_client", _store_reference(few)))
    backfill = prometheus_backfill.rows(_SEED, progress, n_nodes=1 if quick else prometheus_backfill.N_NODES)
    rows += backfill
    rows += _by_remote_write(progress, quick=quick)
    rows += _over_http(pages[:_N_VARIANTS], progress, _HTTP_NODES // 10 if quick else _HTTP_NODES)
    digest = hashlib.sha256(f"ingest {_VERSION} {_SEED}".encode() + b"".join(pages)).hexdigest()
    ratio = rows[0].value / rows[1].value
    notes = (
        f"parsing is {ratio:.0f} times as fast as prometheus_client; every page has other values, labels stay",
        f"a Prometheus range answer comes into columns {backfill[0].value / backfill[1].value:.1f} times as fast as into "
        "prometheus_api_client's data frame",
        f"{_N_GPUS * _N_FAMILIES} samples a page, {len(pages[0]) / 1024:.0f} KiB; {_PAGES_PER_APPEND} pages an append",
    )
    return BenchResult("ingest", digest, tuple(rows), notes)


def _by_remote_write(progress: Progress, *, quick: bool) -> list[Row]:
    """Bodies that a Prometheus sends, to the store."""
    return remote_write.rows(_SEED, progress, n_nodes=remote_write.N_NODES // 5 if quick else remote_write.N_NODES)


def _over_http(pages: Sequence[bytes], progress: Progress, n_nodes: int) -> list[Row]:
    """The real way over loopback HTTP: at one page a second from each node, and as fast as it goes."""
    progress(f"{n_nodes} nodes ({n_nodes * _N_GPUS} GPUs) over HTTP to the store, once a second")
    rows = rows_of(measure(pages, n_nodes), "http-to-store")
    progress(f"{_PEAK_NODES} nodes over HTTP to the store, as fast as it goes")
    return rows + rows_of(measure(pages, _PEAK_NODES, interval_s=AT_ONCE_S), "http-peak", paced=False)


def make_pages(n_pages: int, seed: int) -> list[bytes]:
    """Pages of one target as dcgm-exporter prints them; integers for integer fields, six decimals for others."""
    labels = [_labels(gpu) for gpu in range(_N_GPUS)]
    metrics = [m for m in METRICS if m.level in (Level.GPU, Level.DEVICE) and _is_read(m)][:_N_FAMILIES]
    rng = np.random.default_rng(seed)
    pages: list[bytes] = []
    for _ in range(n_pages):
        parts: list[str] = []
        for metric in metrics:
            field = metric.sources[0].field
            parts.append(f"# HELP {field} {metric.meaning}\n# TYPE {field} gauge\n")
            parts += [f"{field}{{{label}}} {_number(metric, rng)}\n" for label in labels]
        pages.append("".join(parts).encode())
    return pages


def _is_read(metric: Metric) -> bool:
    """Whether the metric's first field is read from a page of this kind of exporter; some belong to others."""
    return bool(metric.sources) and not metric.sources[0].only


def _labels(gpu: int) -> str:
    return (
        f'gpu="{gpu}",UUID="GPU-b0000000-0000-4000-8000-{gpu:012x}",pci_bus_id="00000000:{0x1A + gpu:02X}:00.0",'
        f'device="nvidia{gpu}",modelName="NVIDIA H100 80GB HBM3",hostname="bench-01",'
        'DCGM_FI_DRIVER_VERSION="580.95.05",container="main",namespace="team-a",pod="train-0"'
    )


def _number(metric: Metric, rng: np.random.Generator) -> str:
    """A legal number of varying length, in the source's own unit."""
    top = min(metric.high / metric.sources[0].scale, 10.0 ** rng.integers(3, 12))
    value = float(rng.uniform(0.0, top))
    return f"{value:.6f}" if metric.blank is Blank.FLOAT else f"{value:.0f}"


def _parse_gpucast(pages: Sequence[bytes]) -> list[float]:
    parser = PageParser()
    parser.parse(pages[-1])

    def work(part: Sequence[bytes]) -> int:
        return sum(len(parser.parse(page).value) for page in part)

    return _rates(pages, work)


def _parse_reference(pages: Sequence[bytes]) -> list[float]:
    def work(part: Sequence[bytes]) -> int:
        return sum(len(family.samples) for page in part for family in text_string_to_metric_families(page.decode()))

    return _rates(pages, work)


def _store_gpucast(pages: Sequence[bytes]) -> list[float]:
    parser, mapper = PageParser(), FieldMapper("bench")
    at_s = iter(np.arange(len(pages) + 1) + _FIRST_AT_S)

    def batches(part: Sequence[bytes]) -> list[SampleBatch]:
        return [mapper.batch(parser.parse(page), float(next(at_s))) for page in part]

    return _store(pages, batches)


def _store_reference(pages: Sequence[bytes]) -> list[float]:
    """prometheus_client's samples brought to the same store in the plainest way."""
    at_s = iter(np.arange(len(pages) + 1) + _FIRST_AT_S)

    def batches(part: Sequence[bytes]) -> list[SampleBatch]:
        found: list[SampleBatch] = []
        for page in part:
            now_s = float(next(at_s))
            samples = [s for family in text_string_to_metric_families(page.decode()) for s in family.samples]
            rows = [(SeriesKey(s.name, f"{s.labels['hostname']}:{s.labels['UUID']}"), now_s, s.value) for s in samples]
            found.append(SampleBatch.of(rows))
        return found

    return _store(pages, batches)


def _store(pages: Sequence[bytes], batches: Callable[[Sequence[bytes]], list[SampleBatch]]) -> list[float]:
    with tempfile.TemporaryDirectory(prefix="gpucast-bench-") as folder:
        store = DuckStore(Path(folder) / "bench.duckdb")

        def work(part: Sequence[bytes]) -> int:
            n_samples = 0
            for start in range(0, len(part), _PAGES_PER_APPEND):
                found = batches(part[start : start + _PAGES_PER_APPEND])
                store.append(found)
                n_samples += sum(len(batch) for batch in found)
            return n_samples

        try:
            return _rates(pages, work)
        finally:
            store.close()


def _rates(pages: Sequence[bytes], work: Callable[[Sequence[bytes]], int]) -> list[float]:
    """Samples per CPU second of each part of the run."""
    size = max(len(pages) // _N_PARTS, 1)
    rates: list[float] = []
    for start in range(0, size * _N_PARTS, size):
        before_s = time.process_time()
        n_samples = work(pages[start : start + size])
        rates.append(n_samples / max(time.process_time() - before_s, 1e-9))
    return rates


def _row(task: str, model: str, rates: Sequence[float]) -> Row:
    low, middle, high = np.quantile(rates, [0.025, 0.5, 0.975])
    return Row(task, model, "samples_per_cpu_s", float(middle), float(low), float(high), len(rates))
