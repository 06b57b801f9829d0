"""The demonstration: a simulated cluster, scraped over real HTTP, forecast, acted on, and graded against the truth.

``run_demo`` watches a running service from the outside as a user would, and the simulator's truth only to score it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from api.demo_watch import DemoReport, Say, Watch
from api.settings import Settings, load_settings
from api.wiring import bind, build, running
from forecast.advisor.types import Mode
from telemetry.errors import SourceUnreachable

DEADLINE_S = {"standing": 86.0, "drift": 135.0}
"""Jobs that slide into each other need half a minute before they collide, and as long to settle on one pace."""


@contextlib.asynccontextmanager
async def simulator(seed: int, onset: str = "standing") -> AsyncIterator[str]:
    """The simulated cluster in a process of its own; gives its base address.

    Raises:
        SourceUnreachable: it did not start.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-P", "-m", "forecast.simulator", "--onset", onset, "--seed", str(seed), "--parent-pid", str(os.getpid())),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])},
    )
    assert process.stdout is not None
    try:
        try:
            line = await asyncio.wait_for(process.stdout.readline(), 30)
            base_url = str(json.loads(line)["base_url"])
        except (TimeoutError, ValueError, KeyError) as error:
            raise SourceUnreachable("simulator", "did not start within 30 s") from error
        yield base_url
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()


def demo_settings(base_url: str, folder: Path, port: int) -> Settings:
    """Settings of the service in the demonstration: a shift acts once it is approved, on the simulated cluster only."""
    return load_settings(
        environment={},
        port=port,
        scrape__targets_from=f"{base_url}/targets",
        store__folder=folder,
        forecast__every_s=1.0,
        forecast__window_s=120.0,
        forecast__horizon_s=30.0,
        forecast__link_horizon_s=20.0,
        advice__backend="simulator",
        advice__backend_url=base_url,
        advice__modes={"shift": Mode.APPROVE, "hold": Mode.RECOMMEND},
    )


async def run_demo(
    *,
    seed: int,
    port: int,
    onset: str,
    say: Say,
    afterwards: Callable[[DemoReport, str], Awaitable[None]] | None = None,
) -> DemoReport:
    """Run it.

    Args:
        seed: of the simulated cluster.
        port: of the page; 0 for a free one.
        onset: ``standing`` or ``drift``, how the collision begins.
        say: takes one line per event, as it happens.
        afterwards: awaited with the report and the page's address while everything still runs.
    """
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="gpucast-demo-") as folder:
        async with simulator(seed, onset) as base_url:
            settings = demo_settings(base_url, Path(folder), port)
            sock = bind(settings.host, settings.port)
            page = f"http://{settings.host}:{sock.getsockname()[1]}"
            built = build(settings)
            watch = Watch(built.service, base_url, began_s, began_s + DEADLINE_S[onset], say)
            say(f"simulated cluster at {base_url}; page at {page}")
            async with running(built, sock) as service:
                await watch.until_done(service)
                report = watch.close()
                if afterwards is not None and not service.done():
                    await afterwards(report, page)
    return report
