"""What the model store writes beside its models: which version is champion, what was done, and all of it together."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field
from typing import Any

from models.store_manifest import Manifest, unix_s
from telemetry.errors import IncompatibleModel

POINTER_FORMAT = 1
VERSION = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True, slots=True)
class Pointer:
    """Which version is champion.

    Args:
        version: of the champion; empty when the built-in models serve again.
        manifest_sha256: of its manifest, so that a forged one is noticed.
        since_s: Unix seconds.
        why: a sentence with figures.
        before: former champions, the newest last; empty text stands for the built-in models.
    """

    version: str
    manifest_sha256: str
    since_s: float
    why: str
    before: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {"format": POINTER_FORMAT, **asdict(self)}

    @classmethod
    def from_dict(cls, told: dict[str, Any], where: str) -> Pointer:
        """Read back what ``as_dict`` gave.

        Raises:
            IncompatibleModel: another format, something is missing, or it points at no version of ours.
        """
        if told.get("format") != POINTER_FORMAT:
            raise IncompatibleModel(f"{where} is of format {told.get('format')!r}, this gpucast reads {POINTER_FORMAT}")
        try:
            version, before = str(told["version"]), tuple(str(v) for v in told["before"])
            pointer = cls(version, str(told["manifest_sha256"]), unix_s(told["since_s"]), str(told["why"]), before)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise IncompatibleModel(f"{where} is no pointer to a champion ({error})") from error
        if any(v and not VERSION.fullmatch(v) for v in (version, *before)):
            raise IncompatibleModel(f"{where} points at no version of ours")
        return pointer


@dataclass(frozen=True, slots=True)
class Event:
    """Something that was done to a model.

    Args:
        at_s: Unix seconds.
        kind: ``trained``, ``promoted``, ``refused``, ``rolled_back`` or ``quarantined``.
        version: of the model it was done to.
        reason: a sentence with figures.
        by: ``person`` or ``service``.
    """

    at_s: float
    kind: str
    version: str
    reason: str
    by: str = "person"

    def line(self) -> bytes:
        """As the events hold it."""
        return json.dumps(asdict(self), sort_keys=True).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> Event | None:
        """Read back what ``line`` gave; None from a line that is no event."""
        try:
            told = {"by": "person", **json.loads(line)}
            words = (str(told[key]) for key in ("kind", "version", "reason", "by"))
            return cls(unix_s(told["at_s"]), *words)
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            return None


@dataclass(frozen=True, slots=True)
class Shelf:
    """Everything under one name.

    Args:
        name: of the model.
        champion: pointer; None before the first promotion.
        versions: readable manifests, the newest first.
        unreadable: version -> why its manifest cannot be used.
        quarantined: version -> why it may not serve.
        events: oldest first.
    """

    name: str
    champion: Pointer | None
    versions: tuple[Manifest, ...]
    unreadable: dict[str, str] = field(default_factory=dict)
    quarantined: dict[str, str] = field(default_factory=dict)
    events: tuple[Event, ...] = ()
