"""``gpucast bench``."""

from __future__ import annotations

import argparse
import importlib
import math
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from api.bench.result import Row

BENCHMARKS: dict[str, str] = {
    "congestion": "hot samples, lulls and overload of switch ports before they come, beside everything simpler",
    "prior": "throughput a GPU of published training runs, foreseen from their description: unseen systems and workloads",
    "demand": "GPUs and nodes in use ten minutes to a day ahead, beside persistence",
    "duration": "how long recorded jobs last, forecast at their start and while they run, without leaks",
    "failslow": "how soon a job that becomes a tenth slower is called, and how often nothing was",
    "forecast": "accuracy of every model on recorded telemetry (or, without --data, on seeded simulated jobs)",
    "ingest": "samples per CPU second from page to store, beside prometheus_client, and 10,000 GPUs read over HTTP",
    "period": "the iteration period of simulated and recorded jobs, and false ones where none can be told",
    "phase": "which phase a job is in, and when its next checkpoint or evaluation comes, beside plain intervals",
    "speed": "CPU time to look through 200,000 series for periods",
    "store": "samples appended per CPU second, read times, bytes a sample in cold files; what kills and full disks cost",
}
"""Benchmark -> what it measures. Each lives in ``api.bench.<name>`` with ``run(data, *, progress, quick)``."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of the command."""
    parser.add_argument("name", choices=sorted(BENCHMARKS), help="; ".join(f"{k}: {v}" for k, v in BENCHMARKS.items()))
    parser.add_argument("--data", type=Path, help="folder with recorded telemetry; without it seeded simulated data")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write the rows to FILE as JSON (- for standard output)"
    )
    parser.add_argument(
        "--task",
        metavar="NAME",
        help="store: cost (when absent), kill, replay or full; congestion: onset, peak, lull, superposed or mean-use",
    )
    parser.add_argument("--quick", action="store_true", help="a small part of the data, for a first look")


def run(args: argparse.Namespace) -> int:
    """Run one benchmark, print its table, and write the JSON where asked."""
    from telemetry.errors import ConfigError

    if args.data is not None and not args.data.is_dir():
        raise ConfigError(f"--data {args.data} is not a folder", mend="Give the folder that holds the data sets")
    if args.json is not None and str(args.json) != "-" and not args.json.parent.is_dir():
        raise ConfigError(f"--json {args.json}: there is no folder {args.json.parent}", mend="Make it first")
    benchmark = importlib.import_module(f"api.bench.{args.name}")
    chosen = {"task": _task(benchmark, args)} if args.task is not None else {}
    result = benchmark.run(args.data, progress=_progress, quick=args.quick, **chosen)
    text = result.to_json()
    if args.json is not None and str(args.json) == "-":
        print(text)
        return 0
    print(_table(result.rows))
    for note in result.notes:
        print(note)
    if args.json is not None:
        args.json.write_text(text, encoding="utf-8")
        print(f"wrote {args.json}")
    return 0 if result.rows else 1


def _task(benchmark: ModuleType, args: argparse.Namespace) -> str:
    from telemetry.errors import ConfigError

    known = getattr(benchmark, "TASKS", {})
    if args.task not in known:
        mend = f"Known are {', '.join(known)}" if known else "Leave --task out"
        raise ConfigError(f"--task {args.task!r} is no part of the benchmark {args.name}", mend=mend)
    return str(args.task)


def _progress(note: str) -> None:
    sys.stderr.write(f"{note}\n")
    sys.stderr.flush()


def _table(rows: Iterable[Row]) -> str:
    lines = [f"{'task':<22} {'model':<22} {'metric':<18} {'value':>12} {'95 % interval':>25} {'n':>8}"]
    for row in rows:
        low, high = row.ci_low, row.ci_high
        interval = f"{low:.4g} .. {high:.4g}" if math.isfinite(low) and math.isfinite(high) else ""
        shown = f"{row.value:.4g}" if math.isfinite(row.value) else "-"
        lines.append(f"{row.task:<22} {row.model:<22} {row.metric:<18} {shown:>12} {interval:>25} {row.n:>8}")
    return "\n".join(lines)
