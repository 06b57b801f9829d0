"""``gpucast findings``."""

from __future__ import annotations

import argparse
import json
from typing import Any
from urllib.parse import urlencode

from api.cli.client import add_url_argument, ask
from api.cli.tables import colour, seconds, table

_WORDS = {"gpu": "GPU"}
_COLOURS = {"critical": "red", "warning": "yellow", "info": "dim"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of the command."""
    parser.add_argument(
        "entity", nargs="?", help="only this GPU, node, job, rank, link or communicator, and what is on it"
    )
    parser.add_argument("--kind", help="only this kind, such as straggler or xid")
    parser.add_argument(
        "--severity",
        choices=("info", "warning", "critical"),
        default="info",
        help="only what matters so much (default info)",
    )
    parser.add_argument("--limit", type=int, default=100, help="most findings shown, 1 to 1000 (default 100)")
    add_url_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Show what is slow and sick. Exit code 4 when there is a warning or worse."""
    query = {"severity": args.severity, "limit": args.limit, "kind": args.kind, "entity": args.entity}
    told = {name: value for name, value in query.items() if value is not None}
    answer = ask(args.url, f"/v1/findings?{urlencode(told)}", needs=("items", "scores", "unknown"))
    print(json.dumps(answer) if args.json else _text(answer))
    return 4 if any(one["severity"] != "info" for one in answer["items"]) else 0


def _text(answer: dict[str, Any]) -> str:
    if answer["looked_at_s"] is None:
        return "nothing was looked at yet: the first look comes with the first round of forecasts"
    seen = ", ".join(
        f"{count} {_WORDS.get(thing, thing)}{'' if count == 1 else 's'}" for thing, count in answer["seen"].items()
    )
    lines = [f"looked at {seen}; newest sample {answer['looked_at']}", ""]
    if not answer["items"]:
        lines.append("nothing slow or sick was found")
    for one in answer["items"]:
        lines += _finding(one, answer["looked_at_s"])
    if answer["total"] > len(answer["items"]):
        lines.append(f"... {answer['total'] - len(answer['items'])} more; --limit shows more")
    if answer["scores"]:
        rows = [[one["thing"], one["entity"], f"{one['score']:.2f}"] for one in answer["scores"][:20]]
        lines += ["", table(["thing", "id", "score"], rows)]
    if answer["unknown"]:
        lines += ["", "unknown, for want of metrics:"]
        lines += _unknown(answer["unknown"])
    return "\n".join(lines)


def _unknown(unjudged: list[dict[str, Any]]) -> list[str]:
    """One line a sign: of a fleet each job lacks the same."""
    by_sign: dict[str, list[dict[str, Any]]] = {}
    for one in unjudged:
        by_sign.setdefault(one["sign"], []).append(one)
    return [
        f"  {those[0]['reason']}" + (f" (and of {len(those) - 1} more jobs)" if len(those) > 1 else "")
        for those in by_sign.values()
    ]


def _finding(one: dict[str, Any], now_s: float) -> list[str]:
    detail = f" {one['detail']}" if one["detail"] else ""
    head = f"{one['severity']} {one['score']:.2f}  {one['kind']}{detail}  {one['thing']} {one['entity']}"
    jobs = f"  suffers: {', '.join(one['jobs'])}" if one["jobs"] else ""
    return [
        colour(head, _COLOURS[one["severity"]]),
        f"  {one['evidence']}; since {seconds(max(0.0, now_s - one['since_s']))} before{jobs}",
        f"  {one['to_do']}",
    ]
