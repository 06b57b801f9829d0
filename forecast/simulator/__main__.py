"""``python -m forecast.simulator``: the simulated cluster as a process of its own."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace

from collectors.wall_clock import WallClock
from forecast.simulator.faults import read_fault
from forecast.simulator.scenarios import demo_spec
from forecast.simulator.server import serve_cluster
from telemetry.errors import ConfigError

_PARENT_POLL_S = 0.5


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m forecast.simulator", description=__doc__)
    parser.add_argument("--seed", type=int, default=7, help="same seed, same cluster (default 7)")
    parser.add_argument("--port", type=int, default=0, help="loopback port, 0 for any free one (default 0)")
    parser.add_argument("--onset", choices=("standing", "drift"), default="standing", help="how the collision begins")
    parser.add_argument("--refresh-s", type=float, default=0.5, help="exporter refresh in seconds (default 0.5)")
    parser.add_argument(
        "--fault",
        action="append",
        default=[],
        metavar="KIND:NODE:GPU:FROM_S:RATIO",
        help="something that goes wrong, repeatable; kinds are slow_gpu, throttled_gpu and slow_link, RATIO is what is "
        "left of the speed",
    )
    parser.add_argument("--parent-pid", type=int, default=0, help="end when this process is gone")
    return parser.parse_args(argv)


async def _serve(options: argparse.Namespace) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    faults = tuple(read_fault(text) for text in options.fault)
    spec = replace(demo_spec(onset=options.onset, refresh_s=options.refresh_s), faults=faults)
    async with serve_cluster(spec, seed=options.seed, clock=WallClock(), port=options.port) as server:
        hello = {"base_url": server.base_url, "seed": options.seed, "pid": os.getpid(), "started_s": server.started_s}
        sys.stdout.write(json.dumps(hello) + "\n")
        sys.stdout.flush()
        while not stop.is_set() and _alive(options.parent_pid):
            try:
                await asyncio.wait_for(stop.wait(), _PARENT_POLL_S)
            except TimeoutError:
                continue


def _alive(pid: int) -> bool:
    """True while the process exists; 0 stands for one that never ends."""
    if pid <= 0:
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    # A parent that died but was not waited for is still there as a zombie; its children were handed on.
    return pid != os.getpid() and (os.getppid() == pid or not _is_zombie(pid))


def _is_zombie(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
            return stat.read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return False


def main(argv: Sequence[str] | None = None) -> int:
    """Run until SIGTERM, SIGINT or the parent's end; exit status 2 for a flag that cannot work."""
    try:
        asyncio.run(_serve(_arguments(argv)))
    except ConfigError as error:
        sys.stderr.write(f"forecast.simulator: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
