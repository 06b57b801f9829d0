"""Slurm's GRES and TRES text: ``gpu:h100:8(S:0-1)``, ``cpu=64,gres/gpu=8,gres/gpu:h100=8``. Pure, bounded."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from telemetry.errors import SchemaError
from telemetry.roster import count_types

MAX_INDICES = 4096
"""Most numbers that a list may stand for."""
MAX_DEVICES = 256
"""Most devices one entry may list: far above any host, its slices counted."""
MAX_TEXT = 100_000
"""Longest text read, characters."""
SHARED_NAMES = frozenset({"shard", "mps"})
"""GRES that are shares of GPUs and no GPUs."""

_NONE = frozenset({"", "(null)", "n/a", "none", "null"})
_COUNT = re.compile(r"([0-9]{1,18})([kmgtp]?)", re.IGNORECASE)
_SUFFIX = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50}
_SLICE = re.compile(r"(?:^|[._-])[0-9]+g\.[0-9]+gb", re.IGNORECASE)
_SHARED = re.compile(r"(?:^|[/,:])(?:shard|mps)(?:[:=]|$)")
_SHARE = re.compile(r"([0-9]{1,9})/([0-9]{1,9})")


@dataclass(frozen=True, slots=True)
class Gres:
    """One entry of a GRES list.

    Args:
        name: ``gpu``, ``shard``, ``mps`` and others.
        type: such as ``h100`` or ``a100_3g.20gb``; empty when not told.
        count: how many.
        indices: device numbers; empty for ``IDX:N/A``; None when the text tells none.
    """

    name: str
    type: str
    count: int
    indices: tuple[int, ...] | None = None

    @property
    def sliced(self) -> bool:
        """Whether the type is that of a MIG instance (``1g.10gb``, ``a100_3g.20gb``)."""
        return bool(_SLICE.search(self.type))


@dataclass(frozen=True, slots=True)
class GpuTally:
    """GPUs counted.

    Args:
        total: how many, MIG instances one each; None when the text tells nothing about GPUs.
        types: type -> how many of ``total``; the empty type holds the rest when some types are told.
        contradicts: the typed parts are more than the untyped total, which cannot be; the larger number is kept.
    """

    total: int | None = None
    types: Mapping[str, int] = field(default_factory=dict)
    contradicts: bool = False


@lru_cache(maxsize=8192)
def parse_gres(text: str) -> tuple[Gres, ...]:
    """Every entry of a GRES list, in its order; none for ``(null)`` and ``N/A``.

    Raises:
        SchemaError: an entry is malformed, or the text is beyond the limits.
    """
    if text.strip().lower() in _NONE:
        return ()
    if len(text) > MAX_TEXT:
        raise SchemaError(f"a GRES text of {len(text)} characters is longer than {MAX_TEXT}")
    return tuple(_entry(part) for part in _parts(text) if part.strip())


def _parts(text: str) -> Iterable[str]:
    """The text cut at the commas outside of parentheses."""
    start, depth = 0, 0
    for place, letter in enumerate(text):
        if letter == "(":
            depth += 1
        elif letter == ")":
            depth -= 1
        elif letter == "," and depth == 0:
            yield text[start:place]
            start = place + 1
        if depth not in (0, 1):
            break
    if depth != 0:
        raise SchemaError(f"GRES {_short(text)} has a parenthesis without its partner", mend="Was the line cut?")
    yield text[start:]


def _entry(text: str) -> Gres:
    body, _, inside = text.strip().partition("(")
    words = [word for word in body.replace("gres/", "", 1).removeprefix("gres:").split(":") if word != "no_consume"]
    name, rest = words[0], words[1:]
    if not name or any(not word for word in rest) or len(rest) > 2:
        raise SchemaError(f"GRES {_short(text)} is not name, name:count or name:type:count")
    count = 1
    if rest and (match := _COUNT.fullmatch(rest[-1])):
        count = int(match[1]) * _SUFFIX[match[2].lower()]
        rest = rest[:-1]
    elif len(rest) == 2:
        raise SchemaError(f"GRES {_short(text)} has no number after its type")
    return Gres(name, rest[0] if rest else "", count, _indices(inside.removesuffix(")"), text))


def _indices(inside: str, text: str) -> tuple[int, ...] | None:
    """Device numbers of ``IDX:0,2-3``, and those with a share taken of ``0/4,2/4``; None for sockets and nothing."""
    shares = _SHARE.findall(inside)
    if shares and len(shares) == inside.count(",") + 1 and len(shares) <= MAX_DEVICES:
        return tuple(place for place, (taken, _) in enumerate(shares) if int(taken))
    kind, _, numbers = inside.partition(":")
    if kind.strip().upper() != "IDX":
        return None
    if numbers.strip().lower() in _NONE:
        return ()
    return parse_numbers(numbers, text, MAX_DEVICES)


def parse_numbers(numbers: str, text: str = "", most: int = MAX_INDICES) -> tuple[int, ...]:
    """``0,2-3`` as numbers.

    Raises:
        SchemaError: no such list, or more than ``most`` numbers.
    """
    found: list[int] = []
    for item in numbers.split(","):
        first, dash, last = item.strip().partition("-")
        if not first.isascii() or not first.isdigit() or len(first) > 9 or (dash and not _is_number(last)):
            raise SchemaError(f"GRES {_short(text or numbers)} has {_short(item)} for a device number")
        low, high = int(first), int(last) if dash else int(first)
        if high < low or high - low >= most - len(found):
            raise SchemaError(f"GRES {_short(text or numbers)} lists no proper range of devices in {_short(item)}")
        found.extend(range(low, high + 1))
    return tuple(found)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 9


def count_gpus(entries: Iterable[Gres]) -> GpuTally:
    """GPUs of a GRES list: entries named ``gpu`` add up; shards and MPS shares are not GPUs."""
    gpus = [(entry.type, entry.count) for entry in entries if entry.name == "gpu"]
    return GpuTally(sum(count for _, count in gpus), count_types(gpus))


def parse_tres(text: str) -> dict[str, str]:
    """``cpu=64,mem=900G`` as a dictionary; words without ``=`` are left out.

    Raises:
        SchemaError: the text is beyond the limits.
    """
    if not text or text.strip().lower() in _NONE:
        return {}
    if len(text) > MAX_TEXT:
        raise SchemaError(f"a TRES text of {len(text)} characters is longer than {MAX_TEXT}")
    pairs = (part.partition("=") for part in text.split(","))
    return {name.strip(): value.strip() for name, equals, value in pairs if equals}


def count_tres_gpus(tres: Mapping[str, str]) -> GpuTally:
    """GPUs of a TRES list. ``gres/gpu`` is the total and typed entries are parts of it; they never add to it."""
    total: int | None = None
    typed: list[tuple[str, int]] = []
    for name, value in tres.items():
        kind, _, gpu_type = name.removeprefix("gres/").partition(":")
        match = _COUNT.fullmatch(value)
        if not name.startswith("gres/") or kind != "gpu" or match is None:
            continue
        count = int(match[1]) * _SUFFIX[match[2].lower()]
        if gpu_type:
            typed.append((gpu_type, count))
        else:
            total = count
    parts = sum(count for _, count in typed)
    if total is None:
        return GpuTally(parts if typed else None, count_types(typed))
    rest = [("", total - parts)] if total > parts else []
    return GpuTally(max(total, parts), count_types([*typed, *rest]), contradicts=parts > total)


def asks_for_shares(text: str) -> bool:
    """Whether a GRES or TRES text names shares of GPUs (``shard``, ``mps``)."""
    return ("shard" in text or "mps" in text) and _SHARED.search(text) is not None


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:57]}...")
