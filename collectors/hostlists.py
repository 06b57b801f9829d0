"""Slurm host list expressions: ``gpu-[001-003,010]`` and back. Pure, bounded."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import product

from telemetry.errors import SchemaError

MAX_HOSTS = 200_000
"""Most names one expression may stand for: above the largest cluster, below what hurts."""

_NONE = frozenset({"", "(null)", "none", "none assigned", "n/a"})
_RANGE = re.compile(r"([0-9]{1,12})(?:-([0-9]{1,12}))?")
_NUMBERED = re.compile(r"(.*?)([0-9]+)")


def expand_hosts(text: str, *, limit: int = MAX_HOSTS) -> tuple[str, ...]:
    """Every name that an expression stands for, in its order, repeats included; none for ``(null)`` and the like.

    Several brackets multiply; a range is padded to the width of its first number.

    Raises:
        SchemaError: a bracket is open, empty, nested or holds no numbers, or there are more than ``limit`` names.
    """
    if text.strip().lower() in _NONE:
        return ()
    parts = [_pieces(part) for part in _parts(text) if part]
    if sum(_count(pieces, limit) for pieces in parts) > limit:
        raise SchemaError(f"host list {_short(text)} stands for more than {limit} names")
    return tuple(name for pieces in parts for name in _names(pieces))


def _parts(text: str) -> Iterator[str]:
    """The expression cut at the commas outside of brackets."""
    start, inside = 0, False
    for place, letter in enumerate(text):
        if letter == "[":
            if inside:
                raise SchemaError(f"host list {_short(text)} has a bracket inside a bracket")
            inside = True
        elif letter == "]":
            if not inside:
                raise SchemaError(f"host list {_short(text)} closes a bracket that was never opened")
            inside = False
        elif letter == "," and not inside:
            yield text[start:place].strip()
            start = place + 1
    if inside:
        raise SchemaError(f"host list {_short(text)} has an open bracket", mend="Was the line cut?")
    yield text[start:].strip()


_Range = tuple[int, int, int]
"""First and last number, and the width to pad to."""


def _pieces(part: str) -> list[str | list[_Range]]:
    """Plain texts and brackets in turn, nothing of it made yet."""
    words = re.split(r"[\[\]]", part)
    return [word if place % 2 == 0 else _ranges(word, part) for place, word in enumerate(words)]


def _ranges(inside: str, part: str) -> list[_Range]:
    found: list[_Range] = []
    for item in inside.split(","):
        match = _RANGE.fullmatch(item.strip())
        if match is None:
            raise SchemaError(
                f"host list {_short(part)} has {_short(item)} in brackets", mend="Write numbers or ranges"
            )
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise SchemaError(f"host list {_short(part)} has the range {_short(item)}, which runs backwards")
        found.append((first, last, len(match[1])))
    return found


def _count(pieces: list[str | list[_Range]], limit: int) -> int:
    """How many names they stand for; beyond the limit no more than that it is beyond."""
    count = 1
    for piece in pieces:
        if not isinstance(piece, str):
            count = min(count * sum(last - first + 1 for first, last, _ in piece), limit + 1)
    return count


def _names(pieces: list[str | list[_Range]]) -> Iterator[str]:
    choices = [
        [piece]
        if isinstance(piece, str)
        else [str(number).zfill(width) for first, last, width in piece for number in range(first, last + 1)]
        for piece in pieces
    ]
    return map("".join, product(*choices))


def fold_hosts(names: Iterable[str]) -> str:
    """The shortest expression over the last number of each name; ``expand_hosts`` gives the names back, sorted."""
    groups: dict[tuple[str, int, str], list[int]] = {}
    plain: list[str] = []
    for name in sorted(set(names)):
        match = _NUMBERED.match(name[::-1])
        tail, digits, head = (
            (match[1][::-1], match[2][::-1], name[::-1][match.end() :][::-1]) if match else ("", "", "")
        )
        if digits and len(digits) <= 12:
            groups.setdefault((head, len(digits) if digits[0] == "0" else 0, tail), []).append(int(digits))
        else:
            plain.append(name)
    return ",".join(plain + [_folded(key, sorted(numbers)) for key, numbers in _joined(groups).items()])


def _joined(groups: dict[tuple[str, int, str], list[int]]) -> dict[tuple[str, int, str], list[int]]:
    """``gpu098`` and ``gpu101`` are one padded group where the widths agree."""
    for (head, width, tail), numbers in list(groups.items()):
        bare = groups.get((head, 0, tail), [])
        if not width:
            continue
        fitting = [number for number in bare if len(str(number)) == width]
        numbers.extend(fitting)
        left = [number for number in bare if len(str(number)) != width]
        if bare and left:
            groups[(head, 0, tail)] = left
        elif bare:
            del groups[(head, 0, tail)]
    return groups


def _folded(key: tuple[str, int, str], numbers: list[int]) -> str:
    head, width, tail = key
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    texts = [str(a).zfill(width) if a == b else f"{str(a).zfill(width)}-{str(b).zfill(width)}" for a, b in runs]
    if len(numbers) == 1:
        return f"{head}{texts[0]}{tail}"
    return f"{head}[{','.join(texts)}]{tail}"


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:57]}...")
