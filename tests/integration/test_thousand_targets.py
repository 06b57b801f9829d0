"""Dead and slow targets take nothing from the healthy ones."""

from __future__ import annotations

import asyncio
import socket
import time
from collections import Counter

import pytest

from collectors.cadence import Cadence, CadenceLimits
from collectors.pool import ScrapePool
from collectors.scrape import ExporterCollector, open_session
from collectors.wall_clock import WallClock
from telemetry.samples import SampleBatch

N_TARGETS = 1000
INTERVAL_S = 3.0
SLOW_S = 5.0
INTERVALS = 4
UUID = "GPU-b0000000-0000-4000-8000-{:012x}"


class _Pages(asyncio.Protocol):
    """A page whose number rises; those of slow nodes come late."""

    turn = 0

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        node = int(data.split(b" ", 2)[1].rsplit(b"/", 1)[1])
        _Pages.turn += 1
        label = f'gpu="0",UUID="{UUID.format(node)}",hostname="n{node}"'
        page = f"DCGM_FI_DEV_GPU_UTIL{{{label}}} {_Pages.turn % 100}\n".encode()
        reply = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(page), page)
        if node % 10 == 1:
            asyncio.get_running_loop().call_later(SLOW_S, self.transport.write, reply)
        else:
            self.transport.write(reply)


def _closed_port() -> socket.socket:
    """A bound port that nobody listens on: connections are refused while the socket lives."""
    held = socket.socket()
    held.bind(("127.0.0.1", 0))
    return held


@pytest.mark.slow
@pytest.mark.asyncio
async def test_every_healthy_target_is_read_every_interval_beside_dead_and_slow_ones():
    """1,000 targets, a tenth dead and a tenth slower than the interval: the other 800 miss none."""
    taken: Counter[str] = Counter()

    async def take(batch: SampleBatch) -> None:
        taken[batch.source] += bool(len(batch))

    limits = CadenceLimits(fixed_s=INTERVAL_S)
    pool = ScrapePool(take, WallClock(), limits)
    server = await asyncio.get_running_loop().create_server(_Pages, "127.0.0.1", 0, backlog=4096)
    port = server.sockets[0].getsockname()[1]
    healthy: list[str] = []
    with _closed_port() as held:
        dead_port = held.getsockname()[1]
        async with open_session() as session:
            try:
                for node in range(N_TARGETS):
                    url = f"http://127.0.0.1:{dead_port if node % 10 == 0 else port}/{node}"
                    pool.add(ExporterCollector(url, session, timeout_s=30.0, cadence=Cadence(limits)))
                    if node % 10 > 1:
                        healthy.append(url)
                while not all(taken[url] for url in healthy):  # the first interval spreads the targets
                    await asyncio.sleep(0.1)
                before, started_s = Counter(taken), time.monotonic()
                await asyncio.sleep(INTERVALS * INTERVAL_S)
                passed_s = time.monotonic() - started_s
                reads = [taken[url] - before[url] for url in healthy]
                down = sum(not status.up for status in pool.statuses())
            finally:
                await pool.stop()
                server.close()
    # The ends of the run and the jitter of 2 % may each cut one interval off.
    due = int(passed_s / (INTERVAL_S * 1.02)) - 1
    assert len(healthy) == 800
    assert min(reads) >= due >= INTERVALS - 2
    assert down >= N_TARGETS // 10
