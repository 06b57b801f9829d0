"""Text for people: small aligned tables, numbers with units. Colour only on a terminal, and never with NO_COLOR."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

_COLOURS = {"red": "31", "green": "32", "yellow": "33", "blue": "34", "bold": "1", "dim": "2"}


def colour(text: str, name: str) -> str:
    """The text in a colour where standard output is a terminal that wants it."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return text
    return f"\x1b[{_COLOURS[name]}m{text}\x1b[0m"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell, two spaces apart."""
    widths = [max(len(head[i]), *(len(row[i]) for row in rows)) if rows else len(head[i]) for i in range(len(head))]
    lines = [colour("  ".join(cell.ljust(width) for cell, width in zip(head, widths, strict=True)).rstrip(), "bold")]
    lines += ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(lines)


def seconds(value: float | None, *, sign: bool = False) -> str:
    """A duration such as ``3.46 s`` or ``2.1 min``; ``-`` when there is none."""
    if value is None:
        return "-"
    plus = "+" if sign and value >= 0 else ""
    if abs(value) < 120:
        return f"{plus}{value:.3g} s" if abs(value) < 100 else f"{plus}{value:.0f} s"
    return f"{plus}{value / 60:.1f} min"


def percent(value: float | None) -> str:
    """A ratio as per cent; ``-`` when there is none."""
    return "-" if value is None else f"{value:.0%}"


def quantity(value: float | None, unit: str) -> str:
    """A value with its unit, scaled for reading."""
    if value is None:
        return "-"
    if unit == "ratio":
        return f"{value:.0%}"
    if unit.startswith("bytes"):
        tail = "/s" if "second" in unit else ""
        for size, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
            if abs(value) >= size:
                return f"{value / size:.3g} {prefix}B{tail}"
        return f"{value:.3g} B{tail}"
    return f"{value:.4g} {'W' if unit == 'watts' else unit}"


def absent(part: Any) -> bool:
    """Whether a part of an answer is a reasoned absence."""
    return isinstance(part, dict) and part.get("absent") is True
