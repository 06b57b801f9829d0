"""Recorded H100 telemetry played four times too fast beside the running service."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from api.service import Service
from api.settings import load_settings
from api.wiring import build
from forecast.predict.types import Absence, Period, QuantilePath, Why
from forecast.simulator.replay import replay

SPEED = 4.0
STEADY_S = 62.0
"""Recorded seconds of the steady part that must be in before the periods are judged."""
TRUE_T6_S = 3.455
"""Autocorrelation over the whole steady part of the run."""
START = {"t6": 200.0, "b1": "steady", "t2": "steady"}
"""t6 takes 3.5 to 3.6 s an iteration in its first hundred steady seconds; from here on it keeps the pace of the whole."""


async def _play(folder: Path, run: str, data_dir: Path) -> tuple[Service, set[str]]:
    """The service after a minute of steady data, and what it ever said about the period."""
    urls: list[str] = []
    stop = asyncio.Event()

    def ready(summary: dict[str, Any]) -> None:
        urls.extend(summary["urls"])

    player = asyncio.create_task(
        replay(folder, run, speed=SPEED, port=0, start=START[run], on_ready=ready, stop=stop), name=f"replay {run}"
    )
    while not urls:
        await asyncio.sleep(0.05)
        if player.done():
            player.result()
    targets = [{"url": url} for url in urls]
    settings = load_settings(environment={}, store__folder=data_dir, scrape__targets=targets, forecast__every_s=1.5)
    service = build(settings).service
    running = asyncio.create_task(service.run())
    said: set[str] = set()
    try:
        async with asyncio.timeout(60):
            while _span_s(service) < STEADY_S:
                await asyncio.sleep(0.5)
                said |= {"found" if isinstance(job.period, Period) else str(job.period.why) for job in service.jobs()}
    finally:
        stop.set()
        running.cancel()
        await asyncio.gather(running, player, return_exceptions=True)
    return service, said


def _span_s(service: Service) -> float:
    """Recorded seconds that the newest forecast of the run has behind it."""
    for job in service.jobs():
        history = service.job_history(job.job, "gpu_power_watts", 1e6)
        if history is not None and len(history.at_s):
            return float(history.at_s[-1] - history.at_s[0])
    return 0.0


@pytest.mark.shared
@pytest.mark.slow
def test_rhythm_is_found_where_it_is_and_nowhere_else(shared_dir: Path, tmp_path: Path) -> None:
    """t6 repeats every 3.455 s; b1 is idle; the 38 ms steps of t2 cannot be seen at 10 Hz and are not invented."""
    folder = shared_dir / "data" / "h100_dcgm_10hz"

    async def main() -> dict[str, tuple[Service, set[str]]]:
        names = ("t6", "b1", "t2")
        played = await asyncio.gather(*(_play(folder, run, tmp_path / run) for run in names))
        return dict(zip(names, played, strict=True))

    played = asyncio.run(main())
    (t6,) = played["t6"][0].jobs()
    assert isinstance(t6.period, Period)
    assert t6.period.period_s == pytest.approx(TRUE_T6_S, rel=0.02)
    assert t6.gpu_count == 8
    served = [path for path in t6.metrics.values() if isinstance(path, QuantilePath)]
    assert max(path.skill.skill for path in served) > 0.2
    (b1,) = played["b1"][0].jobs()
    assert isinstance(b1.period, Absence)
    assert b1.period.why is Why.IDLE
    assert "%" in b1.period.reason
    assert "found" not in played["b1"][1]
    (t2,) = played["t2"][0].jobs()
    assert isinstance(t2.period, Absence)
    assert "found" not in played["t2"][1]
