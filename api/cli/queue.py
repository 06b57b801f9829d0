"""``gpucast queue``."""

from __future__ import annotations

import argparse
import json
from typing import Any

from api.cli.client import add_url_argument, ask
from api.cli.tables import colour, seconds, table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of the command."""
    parser.add_argument("--limit", type=int, default=100, help="most jobs shown, 1 to 1000 (default 100)")
    add_url_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Show the jobs that wait. Exit code 4 when no scheduler is read."""
    answer = ask(args.url, f"/v1/queue?limit={args.limit}", needs=("items", "schedulers"))
    print(json.dumps(answer) if args.json else _text(answer))
    return 4 if answer["unread"] else 0


def _text(answer: dict[str, Any]) -> str:
    if answer["unread"]:
        return str(answer["unread"])
    lines = [_scheduler(one) for one in answer["schedulers"]]
    if not answer["items"]:
        return "\n".join([*lines, "", "no job waits"])
    head = [
        "job",
        "name",
        "user",
        "account",
        "queue",
        "priority",
        "GPUs",
        "nodes",
        "waits",
        "limit",
        "expected",
        "scheduler",
        "why",
    ]
    lines += ["", table(head, [_row(one) for one in answer["items"]])]
    if answer["total"] > len(answer["items"]):
        lines.append(f"... {answer['total'] - len(answer['items'])} more; --limit shows more")
    lines += ["", f"start of {answer['items'][0]['id']}: {answer['items'][0]['start_forecast']['reason']}"]
    return "\n".join(lines)


def _scheduler(one: dict[str, Any]) -> str:
    used = "unknown" if one["gpus_used"] is None else one["gpus_used"]
    free = "unknown" if one["gpus_free"] is None else one["gpus_free"]
    return (
        f"{colour(one['source'], 'bold')}: {one['gpus_total']} GPUs in service, {used} used, {free} free; "
        f"{one['running']} jobs run, {one['waiting']} wait for {one['gpus_waited_for']} GPUs; "
        f"listed {seconds(one['age_s'])} ago"
    )


def _row(one: dict[str, Any]) -> list[str]:
    gpus = "?" if one["gpus_asked"] is None else str(one["gpus_asked"])
    types = "+".join(kind for kind in one["gpu_types"] if kind)
    many = f"{one['task_count']} x " if one["task_count"] > 1 else ""
    now_s = None if None in (one["waited_s"], one["submit_s"]) else one["submit_s"] + one["waited_s"]
    expected_s, waited_s, submit_s = one["expected_start_s"], one["waited_s"], one["submit_s"]
    ahead_s = None if None in (expected_s, waited_s, submit_s) else expected_s - submit_s - waited_s
    return [
        one["id"],
        _short(one["name"]),
        one["user"] or "-",
        one["account"] or "-",
        one["partition"] or "-",
        "-" if one["priority"] is None else f"{one['priority']:g}",
        f"{many}{gpus}{f' {types}' if types else ''}{' shared' if one['shares_gpus'] else ''}",
        "-" if one["node_count"] is None else str(one["node_count"]),
        _long(waited_s),
        "none" if one["unlimited"] else _long(one["time_limit_s"]),
        _start(one, now_s),
        "-" if ahead_s is None else "due" if ahead_s <= 0 else f"in {_long(ahead_s)}",
        _short(one["reason"]) or "-",
    ]


def _start(one: dict[str, Any], now_s: float | None) -> str:
    """When gpucast expects a start, with the 80 % interval; ``-`` when that is not said."""
    said = one["start_forecast"]
    if said.get("absent") or now_s is None:
        return "-"
    low, middle, high = (
        "?" if said[part] is None else _long(max(0.0, said[part] - now_s)) for part in ("low_s", "start_s", "high_s")
    )
    return f"in {middle} ({low} .. {high})"


def _long(value_s: float | None) -> str:
    """A wait or a limit such as ``3.5 h``."""
    if value_s is None or value_s < 7200:
        return seconds(value_s)
    return f"{value_s / 3600:.1f} h" if value_s < 172_800 else f"{value_s / 86_400:.1f} d"


def _short(text: str) -> str:
    """One line that keeps the table narrow; a user's text may hold anything."""
    plain = "".join(letter if letter.isprintable() else " " for letter in text)
    return plain if len(plain) <= 48 else f"{plain[:45]}..."
