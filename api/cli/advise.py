"""``gpucast advise``."""

from __future__ import annotations

import argparse
import json
from typing import Any

from api.cli.client import add_url_argument, ask, quote
from api.cli.tables import colour, seconds


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of the command."""
    parser.add_argument("id", nargs="?", help="one advice; without it, all of them")
    add_url_argument(parser)
    verbs = parser.add_mutually_exclusive_group()
    for verb, what in (("approve", "let it act"), ("reject", "never do it"), ("rollback", "undo it")):
        verbs.add_argument(f"--{verb}", dest="verb", action="store_const", const=verb, help=f"{what} (needs an id)")


def run(args: argparse.Namespace) -> int:
    """Show advice, or decide one."""
    if args.verb and not args.id:
        from telemetry.errors import ConfigError

        raise ConfigError(f"--{args.verb} needs the id of one advice", mend="'gpucast advise' lists the ids")
    if args.id is None:
        answer = ask(args.url, "/v1/advice?limit=100", needs=("items",))
        items = answer["items"]
    elif args.verb:
        answer = ask(args.url, f"/v1/advice/{quote(args.id)}:{args.verb}", method="POST", needs=("kind",))
        items = [answer]
    else:
        answer = ask(args.url, f"/v1/advice/{quote(args.id)}", needs=("kind",))
        items = [answer]
    if args.json:
        print(json.dumps(answer))
    else:
        print("\n\n".join(_text(item) for item in items) if items else "no advice yet")
    return 0


def _text(item: dict[str, Any]) -> str:
    subject = " ".join(part for part in (item["job"], f"at {item['link']}" if item["link"] else "") if part)
    lines = [
        f"{colour(item['kind'], 'bold')} {subject}  [{item['status']}, {item['mode']}]  id {item['id']}",
        f"  {item['reason']}",
    ]
    effect = item["predicted"]
    if effect:
        lines.append(
            f"  predicted  {effect['metric']} {effect['baseline']:.3g} -> {effect['median']:.3g}"
            f" ({effect['low']:.3g} .. {effect['high']:.3g}) over {seconds(effect['window_s'])}"
        )
    if item["plan"]:
        lines += [f"  plan       {step}" for step in item["plan"]["steps"]]
    if item["receipt"]:
        lines.append(f"  done       {item['receipt']['detail']}")
    if item["grade"]:
        lines.append(f"  grade      {item['grade']['verdict']}: {item['grade']['reason']}")
    if item["verbs"]:
        lines.append(f"  you may    {', '.join(item['verbs'])}")
    return "\n".join(lines)
