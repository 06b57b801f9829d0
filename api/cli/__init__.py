"""The command line. Building the parser imports nothing heavy; each command loads what it needs when it runs."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from telemetry.errors import BackendRefused, ConfigError, GpucastError

COMMANDS: dict[str, str] = {
    "serve": "run the service: collect, forecast, advise, and serve the API and the page",
    "demo": "simulate a cluster, forecast it, act on it and show what came of it",
    "replay": "serve recorded telemetry as a dcgm-exporter page",
    "forecast": "show the forecasts of a running service",
    "estimate": "what to expect of a training job before it runs: memory, traffic, step time, power, with reasons",
    "queue": "show the jobs that wait, what they ask for and why they wait",
    "findings": "show what is slow and sick: jobs, ranks, GPUs, links, with the evidence and what to do",
    "advise": "show the advice of a running service, approve or reject it",
    "bench": "run a benchmark",
    "nvml": "serve this host's GPUs as a page like dcgm-exporter's, where none runs",
    "inspect": "show what would be ingested from a page, an API answer or a file",
    "topology": "draw the topology that a running service uses, or that files and addresses tell together",
    "store": "look after a sample store that no service has open: stat, compact, export, verify, digest, backup, restore",
    "train": "learn from history and put a challenger into the model store",
    "backtest": "what the built-in models, the champion and every recipe would have said of the history",
    "models": "look after the model store: list, promote, rollback, diff",
    "doctor": "show what is collected, how fresh it is, and what is missing",
}
"""Command -> help line. Each lives in ``api.cli.<name>`` with ``add_arguments(parser)`` and ``run(args) -> int``."""

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_NOT_FOUND = 3
EXIT_DEGRADED = 4
EXIT_REFUSED = 5
EXIT_INTERRUPTED = 130


def build_parser() -> argparse.ArgumentParser:
    """The whole parser."""
    parser = argparse.ArgumentParser(
        prog="gpucast",
        description="Predictive telemetry and forecasting for GPU training clusters.",
        epilog="Exit codes: 0 fine, 1 failed, 2 wrong use, 3 not found, 4 degraded or no forecast, 5 refused, 130 interrupted.",
    )
    parser.add_argument("--version", action="version", version=f"gpucast {_version()}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, line in COMMANDS.items():
        command = commands.add_parser(name, help=line, description=line[0].upper() + line[1:] + ".")
        importlib.import_module(f"api.cli.{name}").add_arguments(command)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code; an expected error is one sentence on standard error."""
    try:
        return _run(argv)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader had enough; at its end the interpreter would flush what is left and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_OK
    except GpucastError as error:
        return _fail(str(error), _code_of(error))
    except OSError as error:
        return _fail(f"{error.filename or 'input or output'}: {error.strerror or error}", EXIT_FAILED)


def _run(argv: Sequence[str] | None) -> int:
    try:
        args = build_parser().parse_args(argv)
        return int(importlib.import_module(f"api.cli.{args.command}").run(args))
    finally:
        sys.stdout.flush()


def _code_of(error: GpucastError) -> int:
    from api.cli.client import NotFound

    codes = {BackendRefused: EXIT_REFUSED, ConfigError: EXIT_USAGE, NotFound: EXIT_NOT_FOUND}
    return next((code for kind, code in codes.items() if isinstance(error, kind)), EXIT_FAILED)


def _fail(sentence: str, code: int) -> int:
    sys.stderr.write(f"gpucast: {sentence}\n")
    return code


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("gpucast")
    except PackageNotFoundError:
        return "not installed"
