"""``gpucast replay``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of the command."""
    parser.add_argument("folder", type=Path, help="folder with telemetry.parquet, such as h100_dcgm_10hz")
    parser.add_argument("--run", required=True, help="which recorded run, such as t6")
    parser.add_argument("--speed", type=float, default=1.0, help="how many times faster than recorded (default 1)")
    parser.add_argument("--port", type=int, default=9400, help="port of the first host's page (default 9400)")
    parser.add_argument("--loop", action="store_true", help="start over at the end instead of ending")
    parser.add_argument("--json", action="store_true", help="print the closing summary as JSON")


def run(args: argparse.Namespace) -> int:
    """Serve until the record ends, then print what was served."""
    from forecast.simulator.replay import run_replay

    def ready(urls: list[str]) -> None:
        sys.stderr.write(f"serving {args.run} at {', '.join(urls)}; beside it run: gpucast serve\n")
        sys.stderr.flush()

    with _Progress(f"replay {args.run}") as progress:
        summary: dict[str, Any] = run_replay(
            args.folder,
            args.run,
            speed=args.speed,
            port=args.port,
            loop=args.loop,
            on_ready=ready,
            on_progress=progress,
        )
    if args.json:
        import json

        print(json.dumps(summary))
    else:
        print("  ".join(f"{name} {value}" for name, value in summary.items()))
    return 0


class _Progress:
    """A one-line bar on a terminal, nothing elsewhere."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._tty = sys.stderr.isatty()

    def __enter__(self) -> _Progress:
        return self

    def __call__(self, done_ratio: float, note: str = "") -> None:
        if self._tty:
            full = round(30 * min(max(done_ratio, 0.0), 1.0))
            sys.stderr.write(f"\r{self._title} [{'=' * full}{' ' * (30 - full)}] {done_ratio:4.0%} {note:<40.40}")
            sys.stderr.flush()

    def __exit__(self, *_: object) -> None:
        if self._tty:
            sys.stderr.write("\n")
