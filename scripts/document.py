#!/usr/bin/env python3
"""Write the tables of docs/settings.md and docs/cli.md from the code; `--check` only says whether they are up to date.

Run as `.venv/bin/python scripts/document.py`. The text around the tables is written by hand.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))


def settings_table() -> str:
    """Every setting with its default and meaning, as Markdown."""
    from api.settings import Settings

    rows = ["| setting | default | meaning |", "|---|---|---|"]
    rows += [f"| `{key}` | {default} | {meaning} |" for key, default, meaning in _settings(Settings, "")]
    return "\n".join(rows)


def _settings(model: type, prefix: str) -> Iterator[tuple[str, str, str]]:
    from pydantic import BaseModel

    for name, info in model.model_fields.items():
        inner = info.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from _settings(inner, f"{prefix}{name}.")
            continue
        yield f"{prefix}{name}", _shown_default(info), (info.description or "").replace("|", "\\|")
        for item in get_args(inner):
            if isinstance(item, type) and issubclass(item, BaseModel):
                yield from _settings(item, f"{prefix}{name}[].")
            for named in get_args(item):
                if isinstance(named, type) and issubclass(named, BaseModel):
                    yield from _settings(named, f"{prefix}{name}.NAME[].")


def _shown_default(info: object) -> str:
    from pydantic_core import to_jsonable_python

    if info.is_required():  # type: ignore[attr-defined]
        return "required"
    value = info.get_default(call_default_factory=True)  # type: ignore[attr-defined]
    if value is None:
        return "unset"
    if isinstance(value, Path):
        return f"`{str(value).replace(str(Path.home()), '~')}`"
    return f"`{_toml(to_jsonable_python(value))}`"


def _toml(value: object) -> str:
    if isinstance(value, dict):
        inside = ", ".join(f"{key} = {_toml(item)}" for key, item in value.items() if item not in ("", None))
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, list):
        return f"[{', '.join(_toml(item) for item in value)}]"
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


def commands_text() -> str:
    """Every command with its flags, as Markdown."""
    from api.cli import COMMANDS, build_parser

    subparsers = next(a for a in build_parser()._actions if isinstance(a, argparse._SubParsersAction))
    return "\n\n".join(_command(name, COMMANDS[name], parser) for name, parser in subparsers.choices.items())


def _command(name: str, line: str, parser: argparse.ArgumentParser) -> str:
    rows = [f"### gpucast {name}", f"{line[0].upper()}{line[1:]}.", ""]
    actions = [action for action in parser._actions if not isinstance(action, argparse._HelpAction)]
    if not actions:
        return "\n".join(rows).rstrip()
    rows += ["| argument | meaning |", "|---|---|"]
    for action in actions:
        flags = ", ".join(action.option_strings) or action.dest
        shown = " ".join(action.metavar) if isinstance(action.metavar, tuple) else action.metavar or action.dest.upper()
        value = "" if action.nargs == 0 or not action.option_strings else f" {shown}"
        meaning = (action.help or "") % {"default": action.default, "prog": parser.prog, "dest": action.dest}
        rows.append(f"| `{flags}{value}` | {meaning.replace('|', chr(92) + '|')} |")
    return "\n".join(rows)


TABLES = {"docs/settings.md": ("settings", settings_table), "docs/cli.md": ("commands", commands_text)}
"""File -> (name of the marker, what stands between its two lines)."""


def written(path: str) -> tuple[str, str]:
    """A documentation file as it is, and as it should be.

    Raises:
        ValueError: the file has no pair of markers.
    """
    marker, table = TABLES[path]
    text = (REPOSITORY / path).read_text(encoding="utf-8")
    begin, end = f"<!-- {marker}: written by scripts/document.py -->\n", f"\n<!-- /{marker} -->"
    if begin not in text or end not in text:
        raise ValueError(f"{path} lacks the lines {begin.strip()!r} and {end.strip()!r}")
    head, _, rest = text.partition(begin)
    return text, f"{head}{begin}{table()}{end}{rest.partition(end)[2]}"


def main() -> int:
    """Write, or with ``--check`` compare; 1 when a file was out of date."""
    os.environ.pop("XDG_STATE_HOME", None)
    stale = []
    for path in TABLES:
        is_now, should_be = written(path)
        if is_now != should_be:
            stale.append(path)
            if "--check" not in sys.argv[1:]:
                (REPOSITORY / path).write_text(should_be, encoding="utf-8")
    if stale and "--check" in sys.argv[1:]:
        print(f"out of date: {', '.join(stale)}; run .venv/bin/python scripts/document.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
