"""The command line. Building the parser imports nothing heavy; each command loads what it needs when it runs."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

from telemetry.errors import BackendRefused, ConfigError, GpucastError, SourceUnreachable

COMMANDS: dict[str, str] = {
    "serve": "run the service: collect, forecast, advise, and serve the API and the page",
    "demo": "simulate a cluster, forecast it, act on it and show what came of it",
    "replay": "serve recorded telemetry as a dcgm-exporter page",
    "forecast": "show the forecasts of a running service",
    "advise": "show the advice of a running service, approve or reject it",
    "bench": "run a benchmark",
    "inspect": "show what would be ingested from a page, an API answer or a file",
    "doctor": "show what is collected, how fresh it is, and what is missing",
}
"""Command -> help line. Each lives in ``api.cli.<name>`` with ``add_arguments(parser)`` and ``run(args) -> int``."""

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_NOT_FOUND = 3
EXIT_DEGRADED = 4
EXIT_REFUSED = 5


def build_parser() -> argparse.ArgumentParser:
    """The whole parser."""
    parser = argparse.ArgumentParser(
        prog="gpucast",
        description="Predictive telemetry and forecasting for GPU training clusters.",
        epilog="Exit codes: 0 fine, 1 failed, 2 wrong use, 3 not found, 4 degraded or no forecast, 5 refused.",
    )
    parser.add_argument("--version", action="version", version=f"gpucast {_version()}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, line in COMMANDS.items():
        command = commands.add_parser(name, help=line, description=line[0].upper() + line[1:] + ".")
        importlib.import_module(f"api.cli.{name}").add_arguments(command)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code; an expected error is one sentence on standard error."""
    args = build_parser().parse_args(argv)
    try:
        return int(importlib.import_module(f"api.cli.{args.command}").run(args))
    except BackendRefused as error:
        return _fail(error, EXIT_REFUSED)
    except (ConfigError, SourceUnreachable) as error:
        return _fail(error, EXIT_USAGE if isinstance(error, ConfigError) else EXIT_FAILED)
    except GpucastError as error:
        return _fail(error, EXIT_FAILED)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return EXIT_OK


def _fail(error: GpucastError, code: int) -> int:
    sys.stderr.write(f"gpucast: {error}\n")
    return code


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("gpucast")
    except PackageNotFoundError:
        return "not installed"
