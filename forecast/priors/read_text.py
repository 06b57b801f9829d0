"""Reads a description in plain words; says what it understood and what it could not read, and never fills in by itself."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from forecast.priors.phrases import FILLERS, PHRASES
from forecast.priors.shapes import PUBLISHED
from forecast.priors.types import Intent
from telemetry.errors import ConfigError

MAX_CHARACTERS = 2000
_NAMED = re.compile(
    "|".join(
        r"\b" + r"[\s._-]{0,3}".join(_part) + r"\b"
        for _part in sorted(
            (re.findall(r"[a-z]+|\d+x\d+b|\d+b|\d+", _name) for _name in PUBLISHED),
            key=lambda part: -len("".join(part)),
        )
    )
)
_RELEASE = re.compile(r"(?<=llama)([\s._-]{0,3}[23])\.\d\b")


@dataclass(frozen=True, slots=True)
class Understood:
    """A phrase and what it was taken for.

    Args:
        phrase: the user's words.
        meaning: fields of the intent with their values.
    """

    phrase: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Reading:
    """What came of a description.

    Args:
        intent: what was said.
        understood: phrase by phrase, in the order of the text.
        unread: words that changed nothing because nobody knows what they mean here.
    """

    intent: Intent
    understood: tuple[Understood, ...]
    unread: tuple[str, ...]


def read_text(text: str) -> Reading:
    """Read a description such as ``train a 10 B transformer with Adam on 64 H100, ZeRO-2, sequence 4096``.

    Raises:
        ConfigError: the text is empty, too long, contradicts itself, or nothing in it could be read.
    """
    if len(text) > MAX_CHARACTERS:
        raise ConfigError(
            f"the description has {len(text)} characters", mend=f"Say it in at most {MAX_CHARACTERS}, or give a file"
        )
    rest = " ".join(text.lower().replace("×", "x").split())
    if not rest:
        raise ConfigError("the description is empty", mend="Say such as 'a 10 B transformer on 64 H100'")
    negative = re.search(r"(?<![\w.])[-\u2212]\d[\d.,]*", rest)
    if negative is not None:
        raise ConfigError(f"{negative[0]!r} is negative", mend="Nothing in a description may be")
    values: dict[str, Any] = {}
    found: list[tuple[int, Understood]] = []
    rest = _read_model(rest, values, found)
    for phrase in PHRASES:
        for match in list(phrase.pattern.finditer(rest)):
            _take(phrase.read(match), match[0], values)
            meaning = ", ".join(f"{name} {_shown(value)}" for name, value in phrase.read(match).items())
            found.append((match.start(), Understood(match[0].strip(), meaning)))
            # Blanks of equal length keep the places of the other phrases.
            rest = rest[: match.start()] + " " * (match.end() - match.start()) + rest[match.end() :]
    if not found:
        raise ConfigError(
            "nothing in the description could be read",
            mend="Say such as 'a 10 B transformer with Adam on 64 H100, ZeRO-2'",
        )
    ordered = tuple(item for _, item in sorted(found, key=lambda pair: pair[0]))
    return Reading(Intent(**values), ordered, _unread(rest))


def _read_model(rest: str, values: dict[str, Any], found: list[tuple[int, Understood]]) -> str:
    # Llama 3.1 has the shapes of Llama 3.
    plain = _RELEASE.sub(lambda match: match[1] + "  ", rest)
    matches = list(_NAMED.finditer(plain))
    for match in matches[:2]:
        name = re.sub(r"[\s._-]+", "", match[0])
        _take({"model": next(known for known in PUBLISHED if known.replace(" ", "") == name)}, match[0], values)
        found.append((match.start(), Understood(rest[match.start() : match.end()], f"model {values['model']}")))
        rest = rest[: match.start()] + " " * (match.end() - match.start()) + rest[match.end() :]
    return rest


def _take(read: dict[str, Any], phrase: str, values: dict[str, Any]) -> None:
    for name, value in read.items():
        if name in values and values[name] != value:
            raise ConfigError(
                f"{phrase.strip()!r} says {name} is {_shown(value)}, but {_shown(values[name])} was said as well",
                mend="Say one of them",
            )
        values[name] = value


def _unread(rest: str) -> tuple[str, ...]:
    words = [word.strip(".,;:()[]{}!?\"'/") for word in rest.split()]
    return tuple(dict.fromkeys(word for word in words if word and word not in FILLERS))[:40]


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,.6g}" if isinstance(value, float) else str(value)
