"""One line of the Prometheus text format.

Grammar: Prometheus documentation, "Exposition formats", text format 0.0.4, with the quoted UTF-8 names of version
1.0.0 and OpenMetrics' exemplars, which are read over.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from telemetry.samples import Problem

_NAME = re.compile(rb"[ \t]*([a-zA-Z_:][a-zA-Z0-9_:]*)?[ \t]*")
_QUOTED = rb'"((?:[^"\\]|\\.)*)"'
_LABEL = re.compile(rb"[ \t]*(?:([a-zA-Z_][a-zA-Z0-9_]*)|" + _QUOTED + rb")[ \t]*=[ \t]*" + _QUOTED + rb"[ \t]*(,?)")
_QUOTED_NAME = re.compile(rb"[ \t]*" + _QUOTED + rb"[ \t]*(,|(?=}))")
_CLOSE = re.compile(rb"[ \t]*}[ \t]*")
_ESCAPE = re.compile(r"\\([\\n\"])")


class BadLine(ValueError):
    """A line that cannot be read.

    Args:
        problem: which counter it belongs to.
        message: a sentence for the reader.
    """

    def __init__(self, problem: Problem, message: str) -> None:
        super().__init__(message)
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Head:
    """The part of a line before the value.

    Args:
        prefix: its bytes, with the white space before the value.
        name: family name.
        labels: with escapes resolved.
    """

    prefix: bytes
    name: str
    labels: dict[str, str]


def read_head(line: bytes) -> Head:
    """Name and labels of a sample line.

    Raises:
        BadLine: not UTF-8, or against the grammar.
    """
    try:
        line.decode()
    except UnicodeDecodeError as bad:
        raise BadLine(Problem.NOT_TEXT, "bytes that are not UTF-8") from bad
    start = _NAME.match(line)
    assert start is not None, "every part of the pattern is optional"
    name, position = start[1], start.end()
    labels: dict[str, str] = {}
    if line[position : position + 1] == b"{":
        name, position = _read_labels(line, name, position + 1, labels)
    elif name is not None and position == start.end(1):
        raise BadLine(Problem.MALFORMED_LINE, f"{_show(line)} has no value")
    if not name:
        raise BadLine(Problem.MALFORMED_LINE, f"{_show(line)} has no metric name")
    return Head(line[:position], _unescape(name), labels)


def _read_labels(line: bytes, name: bytes | None, position: int, labels: dict[str, str]) -> tuple[bytes | None, int]:
    """Fill ``labels``; gives the metric's name, which may stand inside the braces, and where the value starts."""
    if not name and (quoted := _QUOTED_NAME.match(line, position)):
        name, position = quoted[1], quoted.end()
    more = True
    while not (close := _CLOSE.match(line, position)):
        label = _LABEL.match(line, position)
        if label is None or not more:
            raise BadLine(Problem.MALFORMED_LINE, f"{_show(line)} breaks off inside its labels")
        key = _unescape(label[1] or label[2] or b"")
        if key in labels:
            raise BadLine(Problem.MALFORMED_LINE, f"{_show(line)} has the label {key} twice")
        labels[key] = _unescape(label[3])
        position, more = label.end(), bool(label[4])
    return name, close.end()


def read_tail(tail: bytes) -> tuple[float, float] | None:
    """Value and raw timestamp (NaN when there is none) from what follows the labels; None when unreadable."""
    words = tail.split()
    if b"#" in words:  # an exemplar
        words = words[: words.index(b"#")]
    if not 1 <= len(words) <= 2:
        return None
    value = read_number(words[0])
    stamp = math.nan if len(words) == 1 else read_number(words[1])
    if value is None or stamp is None or (len(words) == 2 and not math.isfinite(stamp)):
        return None
    return value, stamp


def read_number(word: bytes) -> float | None:
    """A number as Prometheus writes it, None when it is none."""
    if b"_" in word:
        return None
    try:
        return float(word)
    except ValueError:
        return None


def _unescape(text: bytes) -> str:
    plain = text.decode()
    if "\\" not in plain:
        return plain
    return _ESCAPE.sub(lambda found: "\n" if found[1] == "n" else found[1], plain)


def _show(line: bytes) -> str:
    return repr(line[:80].decode("utf-8", "replace"))
