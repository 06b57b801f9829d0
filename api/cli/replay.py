"""``gpucast replay``."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of the command."""
    parser.add_argument("folder", type=Path, help="folder with telemetry.parquet, such as h100_dcgm_10hz")
    parser.add_argument("--run", required=True, help="which recorded run, such as t6")
    parser.add_argument("--speed", type=float, default=1.0, help="how many times faster than recorded (default 1)")
    parser.add_argument("--port", type=int, default=9400, help="port of the first host's page (default 9400)")
    parser.add_argument(
        "--start",
        default="beginning",
        help="where to begin: beginning, seconds, or a recorded phase such as steady (default beginning)",
    )
    parser.add_argument("--loop", action="store_true", help="start over at the end instead of ending")
    parser.add_argument("--json", action="store_true", help="print the closing summary as JSON")


def run(args: argparse.Namespace) -> int:
    """Serve until the record ends, then print what was served."""
    from forecast.simulator.replay import run_replay

    def ready(summary: dict[str, Any]) -> None:
        pages = ", ".join(summary["urls"] + summary["port_urls"])
        sys.stderr.write(
            f"serving {args.run} ({summary['gpus']} GPUs, {summary['length_s'] / args.speed:.0f} s) at {pages}; "
            "beside it run: gpucast serve\n"
        )
        sys.stderr.flush()

    summary = run_replay(
        args.folder,
        args.run,
        speed=args.speed,
        port=args.port,
        start=args.start,
        loop=args.loop,
        on_ready=ready,
        on_progress=_progress if sys.stderr.isatty() else None,
    )
    if sys.stderr.isatty():
        sys.stderr.write("\n")
    print(json.dumps(summary) if args.json else _text(summary))
    return 0


def _progress(state: dict[str, Any]) -> None:
    done = min(max(state["played_s"] / state["length_s"], 0.0), 1.0)
    bar = "=" * round(30 * done)
    sys.stderr.write(
        f"\r{state['run']} [{bar:<30}] {state['played_s']:5.0f} of {state['length_s']:.0f} s {state['phase']:<12}"
    )
    sys.stderr.flush()


def _text(summary: dict[str, Any]) -> str:
    return f"played {summary['run']}: {summary['length_s']:.0f} s recorded, {summary['gpus']} GPUs on {summary['nodes']} hosts"
