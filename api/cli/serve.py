"""``gpucast serve``."""

from __future__ import annotations

import argparse
import re
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of the command; every one overrides the settings file."""
    parser.add_argument("--config", type=Path, help="TOML settings file (docs/settings.md)")
    parser.add_argument("--host", help="address to listen on (default 127.0.0.1)")
    parser.add_argument("--port", type=int, help="port of the API and the page (default 8470; 0 takes a free one)")
    parser.add_argument(
        "--target",
        action="append",
        metavar="URL[=NODE]",
        help="exporter page to read, repeatable (default http://127.0.0.1:9400/metrics); =NODE names its host",
    )
    parser.add_argument("--targets-from", metavar="URL", help="Prometheus http_sd list of targets")
    parser.add_argument("--prometheus", metavar="URL", help="read this Prometheus server instead of exporters")
    parser.add_argument("--interval", type=float, metavar="S", help="fixed seconds between reads (default: learnt)")
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help="folder of the sample store")


def run(args: argparse.Namespace) -> int:
    """Run until interrupted."""
    from api.settings import load_settings
    from api.wiring import serve

    targets = None
    if args.target:
        targets = [_target(text) for text in args.target]
    settings = load_settings(
        args.config,
        host=args.host,
        port=args.port,
        scrape__targets=targets,
        scrape__targets_from=args.targets_from,
        scrape__interval_s=args.interval,
        prometheus__url=args.prometheus,
        store__folder=args.data_dir,
    )
    return serve(settings)


def _target(text: str) -> dict[str, str]:
    # The name of a host has no slash, no colon and no "&": what has is a query, which belongs to the address.
    url, equals, node = text.rpartition("=")
    if not equals or "?" in url or not re.fullmatch(r"[\w.-]+", node):
        return {"url": text, "node": ""}
    return {"url": url, "node": node}
