"""What the real way from exporters' pages over HTTP to the store costs: pool, collectors, ring, intake and DuckDB."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from api.bench.node_pages import addresses, serving
from api.bench.result import Row
from api.intake import Intake
from api.interpreter import tuned_for_pages
from collectors.cadence import Cadence, CadenceLimits
from collectors.pool import ScrapePool
from collectors.scrape import ExporterCollector, open_session
from collectors.wall_clock import WallClock
from features.ring import Ring
from features.store.duck import DuckStore
from telemetry.samples import SampleBatch

_INTERVAL_S = 1.0
_RING_WINDOW_S = 900.0
_FLUSH_S = 1.0
_WARM_UP_S = 5.0
_MEASURED_S = 15.0
AT_ONCE_S = 1e-6
"""Interval of the peak run: each target is read again as soon as it was read."""


@dataclass(frozen=True, slots=True)
class HttpRun:
    """What one run gave, measured after the first pages were learned.

    Args:
        samples: stored by the way through the intake.
        wall_s: length of the measured part.
        cpu_s: of the collecting process, all threads, while it lasted.
        reads: pages read.
        missed: intervals in which a target was not read.
        rss_bytes: resident memory of the collecting process at the end.
        series: distinct series in the ring.
    """

    samples: int
    wall_s: float
    cpu_s: float
    reads: int
    missed: int
    rss_bytes: int
    series: int

    @property
    def rate(self) -> float:
        """Samples per second of wall time."""
        return self.samples / self.wall_s

    @property
    def cores(self) -> float:
        """CPU seconds per second of wall time."""
        return self.cpu_s / self.wall_s


def measure(
    pages: Sequence[bytes],
    n_nodes: int,
    *,
    interval_s: float = _INTERVAL_S,
    measured_s: float = _MEASURED_S,
    warm_up_s: float = _WARM_UP_S,
) -> HttpRun:
    """Scrape ``n_nodes`` nodes of one's own making through the service's own parts for a bounded time."""
    with (
        tempfile.TemporaryDirectory(prefix="gpucast-bench-") as folder,
        serving(pages, n_nodes) as port,
        tuned_for_pages(),
    ):
        return asyncio.run(_scrape(addresses(n_nodes, port), Path(folder), interval_s, measured_s, warm_up_s))


def rows_of(run: HttpRun, task: str, *, paced: bool = True) -> list[Row]:
    """The figures of a run as rows; one run is one figure, so there is no interval.

    Args:
        run: what was measured.
        task: name of the rows.
        paced: False when there were no intervals to miss; memory then is that of the paced run before, and left out.
    """
    figures = {
        "samples_per_s": run.rate,
        "cores": run.cores,
        "samples_per_cpu_s": run.samples / max(run.cpu_s, 1e-9),
    }
    if paced:
        figures |= {"missed_intervals": float(run.missed), "rss_bytes": float(run.rss_bytes)}
    nan = float("nan")
    return [Row(task, "gpucast", metric, value, nan, nan, 1) for metric, value in figures.items()]


class _Counting:
    """Stands between pool and intake and counts what passes, by source."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self.reads: dict[str, int] = {}
        self.samples = 0

    async def take(self, batch: SampleBatch) -> None:
        self.reads[batch.source] = self.reads.get(batch.source, 0) + 1
        self.samples += len(batch)
        await self._intake.take(batch)


async def _scrape(urls: Sequence[str], folder: Path, interval_s: float, measured_s: float, warm_up_s: float) -> HttpRun:
    clock = WallClock()
    ring = Ring(_RING_WINDOW_S)
    intake = Intake(ring, DuckStore(folder / "bench.duckdb"), flush_s=_FLUSH_S, now=clock.now)
    counting = _Counting(intake)
    limits = CadenceLimits(fixed_s=interval_s)
    pool = ScrapePool(counting.take, clock, limits)
    flushing = asyncio.create_task(intake.run())
    async with open_session() as session:
        try:
            for url in urls:
                pool.add(ExporterCollector(url, session, cadence=Cadence(limits)))
            await _until_all_are_read(counting, len(urls))
            await asyncio.sleep(warm_up_s)  # the rush of the start is over then
            counting.reads.clear()
            samples, cpu_s, wall_s = counting.samples, time.process_time(), time.monotonic()
            await asyncio.sleep(measured_s)
            cpu_s, wall_s = time.process_time() - cpu_s, time.monotonic() - wall_s
            samples = counting.samples - samples
            return HttpRun(
                samples,
                wall_s,
                cpu_s,
                sum(counting.reads.values()),
                _missed(counting, urls, wall_s, interval_s),
                _rss_bytes(),
                len(ring.keys()),
            )
        finally:
            await pool.stop()
            flushing.cancel()
            with suppress(asyncio.CancelledError):
                await flushing
            await intake.close()


async def _until_all_are_read(counting: _Counting, n_targets: int) -> None:
    """Until every page's layout is learned."""
    deadline_s = time.monotonic() + 60.0
    while len(counting.reads) < n_targets and time.monotonic() < deadline_s:
        await asyncio.sleep(0.2)


def _missed(counting: _Counting, urls: Sequence[str], wall_s: float, interval_s: float) -> int:
    """Whole intervals without a reading; one is allowed for where the measured part begins and ends."""
    due = int(wall_s / interval_s) - 1
    return sum(max(due - counting.reads.get(url, 0), 0) for url in urls)


def _rss_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
