"""``gpucast estimate``: what to expect of a training job before it runs. Asks no service."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from telemetry.errors import ConfigError

if TYPE_CHECKING:
    from api.http.schemas import EstimateOut, ExchangeOut, FigureOut

MAX_FILE_BYTES = 65_536
MAX_BRACKETS = 100
"""An intent is flat; the YAML reader takes quadratic time on what is deeply nested."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of the command."""
    parser.add_argument(
        "description",
        nargs="*",
        help="the job in plain words, such as 'a 10 B transformer with Adam on 64 H100, ZeRO-2'",
    )
    parser.add_argument(
        "--file", type=Path, help="a YAML or JSON file with the fields of an intent, instead or as well"
    )
    parser.add_argument(
        "--json", action="store_true", help="print the whole answer as JSON, as POST /v1/intents:estimate gives it"
    )


def run(args: argparse.Namespace) -> int:
    """Print the estimate. Exit code 4 when the job more likely than not runs out of memory."""
    from api.estimates import answer_intent, asked

    document = _file(args.file) if args.file is not None else {}
    text = " ".join(args.description).strip()
    if text and document.get("text"):
        raise ConfigError(f"{args.file} has text, and a description was given as well", mend="Give one of them")
    if text:
        document["text"] = text
    if not document:
        raise ConfigError("there is nothing to estimate", mend="Describe the job, or give --file")
    answer = answer_intent(asked(document))
    print(json.dumps(answer.model_dump(), indent=1) if args.json else _shown(answer))
    return 4 if answer.figures["out_of_memory"].middle > 0.5 else 0


def _file(path: Path) -> dict[str, Any]:
    import yaml

    if not path.is_file():
        raise ConfigError(f"--file {path} is not a file", mend="Give a YAML or JSON file")
    if path.stat().st_size > MAX_FILE_BYTES:
        raise ConfigError(f"--file {path} is larger than {MAX_FILE_BYTES} bytes", mend="An intent takes a few lines")
    try:
        # JSON is YAML; anchors could make a small file huge, so they are refused.
        text = path.read_text(encoding="utf-8")
        if text.count("[") + text.count("{") > MAX_BRACKETS:
            raise ConfigError(f"--file {path} is nested too deeply", mend="Write such as 'gpu_count: 64', a line each")
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text)):
            raise ConfigError(f"--file {path} uses YAML aliases", mend="Write the values out")
        document = yaml.safe_load(text)
    except (UnicodeDecodeError, yaml.YAMLError, RecursionError, ValueError) as bad:
        raise ConfigError(f"--file {path} is neither YAML nor JSON: {_first_line(bad)}") from bad
    if not isinstance(document, dict) or not all(isinstance(key, str) for key in document):
        raise ConfigError(f"--file {path} does not hold names with values", mend="Write such as 'gpu_count: 64'")
    return document


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _shown(answer: EstimateOut) -> str:
    from api.cli.tables import colour, table

    lines = [f"{item.phrase!r} -> {item.meaning}" for item in answer.understood]
    if lines:
        lines = [colour("understood", "bold"), *(f"  {line}" for line in lines)]
    if answer.unread:
        lines += [colour("not read, so of no effect", "yellow"), f"  {', '.join(answer.unread)}"]
    if answer.assumed:
        lines += [colour("assumed", "bold"), *(f"  {a.name}: {a.value} ({a.why})" for a in answer.assumed)]
    rows = [[name.replace("_", " "), *_cells(figure), figure.because] for name, figure in answer.figures.items()]
    lines += ["", table(["figure", "median", "80 % interval", "because"], rows)]
    if answer.exchanges:
        head = [
            "exchange in a step",
            "collective",
            "group",
            "calls",
            "bytes a call",
            "sent by a GPU",
            "over",
            "alone",
            "hidden",
        ]
        lines += ["", table(head, [_exchange(exchange) for exchange in answer.exchanges])]
    lines += [colour(f"warning: {warning}", "yellow") for warning in answer.warnings]
    return "\n".join([*lines, "", answer.basis])


def _cells(figure: FigureOut) -> list[str]:
    middle = _amount(figure.middle, figure.unit)
    if figure.low == figure.high:
        return [middle, ""]
    return [middle, f"{_amount(figure.low, figure.unit)} .. {_amount(figure.high, figure.unit)}"]


def _amount(value: float, unit: str) -> str:
    from api.cli.tables import quantity, seconds

    if unit == "seconds":
        return (
            seconds(value)
            if value < 7200
            else f"{value / 3600:.3g} h"
            if value < 172_800
            else f"{value / 86400:.3g} days"
        )
    if unit in ("ratio", "bytes"):
        return quantity(value, unit)
    if unit == "tokens_per_second":
        return f"{float(f'{value:.3g}'):,.0f} tokens/s"
    word = {"flops": "FLOP", "watts": "W", "joules": "J"}[unit]
    for size, prefix in ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g} {prefix}{word}"
    return f"{value:.3g} {word}"


def _exchange(exchange: ExchangeOut) -> list[str]:
    return [
        exchange.purpose,
        exchange.collective,
        f"{exchange.group} {exchange.group_size}",
        f"{exchange.count:,.0f}",
        _amount(exchange.bytes_per_call, "bytes"),
        _amount(exchange.wire_bytes, "bytes"),
        exchange.link.replace("_", "-"),
        _amount(exchange.seconds, "seconds"),
        exchange.hidden,
    ]
