"""Recorded telemetry served again as live exporter pages.

Every line carries the millisecond timestamp of its recorded sample, moved to now. Recorded time runs ``speed``
times as fast as the wall clock, starts early enough never to run ahead of it, and meets it when the record ends:
a sample recorded ``r`` seconds after the start of a record of ``D`` seconds gets
``wall_start + min(0, D / speed - D) + r``. At speed 1 that is the wall clock itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import signal
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from aiohttp import web

from collectors.wall_clock import WallClock
from forecast.simulator.exposition import CONTENT_TYPE
from forecast.simulator.loopback import LOOPBACK, listen
from forecast.simulator.recording import NodeRecord, read_run
from forecast.simulator.replay_pages import ReplayPages
from telemetry.clock import Clock
from telemetry.errors import ConfigError

DEFAULT_PORT = 9400
"""dcgm-exporter's own port."""
_PROGRESS_S = 0.5

OnReady = Callable[[dict[str, Any]], None]
OnProgress = Callable[[dict[str, Any]], None]


@dataclass(frozen=True, slots=True)
class Anchor:
    """Where recorded time lies on the wall clock.

    Args:
        record_start_s: recorded Unix time that plays first.
        length_s: recorded seconds that are played.
        wall_start_s: wall time at which playing starts.
        speed: recorded seconds per wall second.
    """

    record_start_s: float
    length_s: float
    wall_start_s: float
    speed: float

    def recorded_s(self, wall_s: float) -> float:
        """Recorded Unix time that is playing, held at the end."""
        return self.record_start_s + min(self.speed * (wall_s - self.wall_start_s), self.length_s)

    def moved_s(self, recorded_s: float) -> float:
        """The timestamp that a recorded sample gets."""
        lead_s = min(0.0, self.length_s / self.speed - self.length_s)
        return self.wall_start_s + lead_s + (recorded_s - self.record_start_s)

    def ends_s(self) -> float:
        """Wall time at which the record ends."""
        return self.wall_start_s + self.length_s / self.speed


class Replay:
    """A run being played: pages per host, and where it is.

    Args:
        records: every host of the run.
        run: its name.
        speed: recorded seconds per wall second.
        clock: the wall clock.
        start: ``beginning``, the name of a recorded phase, or seconds from the beginning.
        loop: begin again at the end; only up to speed 1, where timestamps can go on rising.

    Raises:
        ConfigError: a speed or start that cannot be, or a loop faster than the clock.
    """

    def __init__(
        self,
        records: tuple[NodeRecord, ...],
        run: str,
        *,
        speed: float,
        clock: Clock,
        start: str | float = "beginning",
        loop: bool = False,
    ) -> None:
        if not math.isfinite(speed) or speed <= 0.0:
            raise ConfigError(f"speed {speed:g} is not above 0", mend="Give for example --speed 4")
        if loop and speed > 1.0:
            raise ConfigError(f"a loop at speed {speed:g} would run ahead of the clock", mend="Loop at speed 1 or less")
        self.run, self.loop, self.records, self._clock = run, loop, records, clock
        first_s = min(float(record.at_s[0]) for record in records)
        last_s = max(float(record.at_s[-1]) for record in records)
        begin_s = first_s + _start_offset(start, records, first_s, last_s)
        self._anchor = Anchor(begin_s, last_s - begin_s, clock.now(), speed)
        self.laps = 0
        self._pages = [ReplayPages(record, run) for record in records]

    def begin(self) -> None:
        """Start playing now, from where ``start`` said; until then the first sample is shown."""
        self._anchor = replace(self._anchor, wall_start_s=self._clock.now())

    @property
    def anchor(self) -> Anchor:
        """Where recorded time lies now."""
        return self._anchor

    def ended(self) -> bool:
        """True once the record is over; a loop begins its next lap instead."""
        now_s = self._clock.now()
        if now_s < self._anchor.ends_s():
            return False
        if not self.loop:
            return True
        old = self._anchor
        self.laps += 1
        self._anchor = Anchor(old.record_start_s, old.length_s, max(old.ends_s(), now_s), old.speed)
        return False

    def gpu_page(self, node: int) -> bytes:
        """The dcgm-exporter page of a host (position in ``records``) now."""
        return self._pages[node].gpu_page(self._anchor.recorded_s(self._clock.now()), self._anchor.moved_s)

    def port_page(self, node: int) -> bytes:
        """The node_exporter page of a host now; without port families where none were recorded."""
        return self._pages[node].port_page(self._anchor.recorded_s(self._clock.now()), self._anchor.moved_s)

    def progress(self) -> dict[str, Any]:
        """Where it is: seconds played and in all, the recorded phase, laps."""
        recorded_s = self._anchor.recorded_s(self._clock.now())
        return {
            "run": self.run,
            "played_s": recorded_s - self._anchor.record_start_s,
            "length_s": self._anchor.length_s,
            "phase": self._pages[0].phase_at(recorded_s),
            "laps": self.laps,
        }


async def replay(
    folder: Path,
    run: str,
    *,
    speed: float = 1.0,
    port: int = DEFAULT_PORT,
    start: str | float = "beginning",
    loop: bool = False,
    clock: Clock | None = None,
    on_ready: OnReady | None = None,
    on_progress: OnProgress | None = None,
    stop: asyncio.Event | None = None,
) -> dict[str, Any]:
    """Serve a run until it ends, and say what was served.

    Args:
        folder: holds ``telemetry.parquet``.
        run: which run.
        speed: recorded seconds per wall second.
        port: of the first host's ``/metrics``; further hosts follow on the next ports (any free ones for 0).
        start: ``beginning``, a recorded phase such as ``steady``, or seconds from the beginning.
        loop: begin again at the end.
        clock: the wall clock by default.
        on_ready: called once with ``urls``, ``port_urls``, ``length_s``, ``nodes`` and ``gpus``.
        on_progress: called twice a second with ``Replay.progress``.
        stop: ends it early.

    Raises:
        ConfigError: folder, file, run, speed, start or port that cannot be used.
    """
    clock = clock or WallClock()
    records = read_run(folder, run)
    stop = stop or asyncio.Event()
    player = Replay(records, run, speed=speed, clock=clock, start=start, loop=loop)
    async with AsyncExitStack() as stack:
        ports = [
            await stack.enter_async_context(
                listen(_app(player, index), port=port and port + index, what=f"replayed host {record.node}")
            )
            for index, record in enumerate(records)
        ]
        # Playing starts when everybody can listen.
        player.begin()
        summary = _summary(player, ports)
        if on_ready is not None:
            on_ready(summary)
        while not stop.is_set() and not player.ended():
            if on_progress is not None:
                on_progress(player.progress())
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), _PROGRESS_S)
        return summary | player.progress() | {"stopped": stop.is_set()}


def run_replay(
    folder: Path,
    run: str,
    *,
    speed: float = 1.0,
    port: int = DEFAULT_PORT,
    start: str | float = "beginning",
    loop: bool = False,
    on_ready: OnReady | None = None,
    on_progress: OnProgress | None = None,
) -> dict[str, Any]:
    """``replay`` for callers without an event loop: blocks, and ends early on SIGINT or SIGTERM.

    Raises:
        ConfigError: as ``replay``.
    """

    async def play() -> dict[str, Any]:
        stop = asyncio.Event()
        loop_ = asyncio.get_running_loop()
        # Outside the main thread no signals arrive, and none can be asked for.
        with contextlib.suppress(ValueError, RuntimeError, NotImplementedError):
            for number in (signal.SIGINT, signal.SIGTERM):
                loop_.add_signal_handler(number, stop.set)
        return await replay(
            folder,
            run,
            speed=speed,
            port=port,
            start=start,
            loop=loop,
            on_ready=on_ready,
            on_progress=on_progress,
            stop=stop,
        )

    return asyncio.run(play())


def _app(player: Replay, node: int) -> web.Application:
    async def get_gpus(_: web.Request) -> web.Response:
        return web.Response(body=player.gpu_page(node), headers={"Content-Type": CONTENT_TYPE})

    async def get_ports(_: web.Request) -> web.Response:
        return web.Response(body=player.port_page(node), headers={"Content-Type": CONTENT_TYPE})

    app = web.Application()
    app.add_routes([web.get("/metrics", get_gpus), web.get("/node/metrics", get_ports)])
    return app


def _summary(player: Replay, ports: list[int]) -> dict[str, Any]:
    urls = [f"http://{LOOPBACK}:{port}/metrics" for port in ports]
    with_ports = [
        f"http://{LOOPBACK}:{port}/node/metrics"
        for port, record in zip(ports, player.records, strict=True)
        if record.port_at_s.size
    ]
    return {
        "run": player.run,
        "urls": urls,
        "port_urls": with_ports,
        "speed": player.anchor.speed,
        "length_s": player.anchor.length_s,
        "nodes": len(player.records),
        "gpus": sum(record.gpus.size for record in player.records),
        "samples": sum(int(record.at_s.size) for record in player.records),
    }


def _start_offset(start: str | float, records: tuple[NodeRecord, ...], first_s: float, last_s: float) -> float:
    """Seconds from the record's beginning at which playing starts."""
    if isinstance(start, str) and start != "beginning":
        phases = sorted({str(phase) for record in records for phase in record.phase if phase})
        if start in phases:
            return min(float(r.at_s[r.phase == start][0]) for r in records if (r.phase == start).any()) - first_s
        try:
            start = float(start)
        except ValueError:
            known = ", ".join(phases)
            raise ConfigError(
                f"unknown start {start!r}", mend=f"Use beginning, seconds, or a recorded phase: {known}"
            ) from None
    offset_s = 0.0 if isinstance(start, str) else float(start)
    if not 0.0 <= offset_s < last_s - first_s:
        raise ConfigError(f"start {offset_s:g} s is outside the record of {last_s - first_s:.1f} s")
    return offset_s
