"""``gpucast inspect``."""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of the command."""
    parser.add_argument("source", help="address or file of an exporter page or a Prometheus API answer; - for standard input")
    parser.add_argument("--json", action="store_true", help="print as JSON")
    parser.add_argument("--limit", type=int, default=60, help="most rows shown as text (default 60; 0 shows all)")


def run(args: argparse.Namespace) -> int:
    """Show what would be ingested."""
    raise NotImplementedError
