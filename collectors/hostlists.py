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
    names: list[str] = []
    for part in _parts(text):
        names.extend(_expand(part, limit - len(names)))
    return tuple(names)


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


def _expand(part: str, limit: int) -> Iterator[str]:
    pieces = re.split(r"[\[\]]", part)
    choices = [[piece] if place % 2 == 0 else _numbers(piece, part, limit) for place, piece in enumerate(pieces)]
    count = 1
    for choice in choices:
        count *= len(choice)
        if count > limit:
            raise SchemaError(f"host list {_short(part)} stands for more than {MAX_HOSTS} names")
    return ("".join(combination) for combination in product(*choices)) if part else iter(())


def _numbers(inside: str, part: str, limit: int) -> list[str]:
    found: list[str] = []
    for item in inside.split(","):
        match = _RANGE.fullmatch(item.strip())
        if match is None:
            raise SchemaError(
                f"host list {_short(part)} has {_short(item)} in brackets", mend="Write numbers or ranges"
            )
        first, last = match[1], match[2] or match[1]
        if int(last) < int(first):
            raise SchemaError(f"host list {_short(part)} has the range {_short(item)}, which runs backwards")
        if int(last) - int(first) >= limit - len(found):
            raise SchemaError(f"host list {_short(part)} stands for more than {MAX_HOSTS} names")
        found.extend(str(number).zfill(len(first)) for number in range(int(first), int(last) + 1))
    return found


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
