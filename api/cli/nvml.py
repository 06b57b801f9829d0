"""``gpucast nvml``."""

from __future__ import annotations

import argparse
import sys


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of the command."""
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1, this host only)")
    parser.add_argument("--port", type=int, default=9400, help="port of the page (default 9400, dcgm-exporter's)")
    parser.add_argument("--node", default="", help="this host's name in the labels (default what the system says)")
    parser.add_argument("--once", action="store_true", help="print the page once instead of serving it")


def run(args: argparse.Namespace) -> int:
    """Serve or print the page. Exit code 1 without a driver, 2 without the library."""
    from collectors.nvml import NvmlCollector, page_app

    collector = NvmlCollector(args.node)
    page = collector.render().decode()  # a host without GPUs is told at once, not at the first scrape
    if args.once:
        print(page, end="")
        return 0
    from aiohttp import web

    sys.stderr.write(f"serving this host's GPUs at http://{args.host}:{args.port}/metrics\n")
    sys.stderr.flush()
    web.run_app(page_app(collector), host=args.host, port=args.port, print=None)
    return 0
