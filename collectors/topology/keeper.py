"""The last good content of each source: a source that fails is read as it was, and its age is shown. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import orjson

from collectors.topology.merge import merge
from collectors.topology.read import SourceText, finished, labels_of, read_source
from collectors.topology.reading import Reading
from telemetry.errors import BadReply, SourceError
from telemetry.samples import Finding
from telemetry.topology import Topology

_VERSION = 1


@dataclass(frozen=True, slots=True)
class Kept:
    """A source's content when it was last good.

    Args:
        text: the content.
        at_s: when it was read, Unix seconds.
    """

    text: SourceText
    at_s: float


@dataclass(frozen=True, slots=True)
class SourceState:
    """What came of one source.

    Args:
        source: path or URL.
        host: whose inside it shows; empty when not told.
        format: what it was taken for; empty when nothing of it is used.
        age_s: age of the content that is used, 0 for what was read now; None when nothing is used.
        error: why the newest content cannot be used; empty when it can.
        findings: what is wrong with the content that is used.
    """

    source: str
    host: str
    format: str
    age_s: float | None
    error: str = ""
    findings: tuple[Finding, ...] = ()


Fresh = SourceText | tuple[SourceText, SourceError]
"""Newest content of a source, or the source with why it gave none."""


def with_last_good(
    fresh: Sequence[Fresh], kept: Mapping[str, Kept], now_s: float
) -> tuple[Topology, tuple[SourceState, ...], dict[str, Kept]]:
    """One topology, the state of each source, and what to keep for the next time; as ``last_good``, whole."""
    topology, states, keep = last_good(fresh, kept, now_s)
    return finished(topology), states, keep


def last_good(
    fresh: Sequence[Fresh], kept: Mapping[str, Kept], now_s: float
) -> tuple[Topology, tuple[SourceState, ...], dict[str, Kept]]:
    """One topology that others may still be merged with, the state of each source, and what to keep for the next time.

    Args:
        fresh: newest content of each source in the order of trust, or the source with why it gave none.
        kept: what was kept the last time.
        now_s: Unix seconds.
    """
    levels = labels_of([item for item in fresh if isinstance(item, SourceText)] + [old.text for old in kept.values()])
    readings: list[Reading] = []
    states: list[SourceState] = []
    keep = dict(kept)
    for item in fresh:
        text, error = (item, None) if isinstance(item, SourceText) else item
        if error is None:
            try:
                readings.append(read_source(text, levels))
                states.append(SourceState(text.source, text.host, readings[-1].format, 0.0, "", readings[-1].findings))
                keep[_key(text)] = Kept(text, now_s)
                continue
            except BadReply as bad:
                error = bad
        old = kept.get(_key(text))
        reading = _read_again(old, levels)
        if old is None or reading is None:
            states.append(SourceState(text.source, text.host, "", None, str(error)))
            continue
        readings.append(reading)
        age_s = max(0.0, now_s - old.at_s)
        states.append(SourceState(text.source, text.host, reading.format, age_s, str(error), reading.findings))
    return merge([reading.topology for reading in readings]), tuple(states), keep


def _read_again(old: Kept | None, levels: Sequence[str]) -> Reading | None:
    try:
        return None if old is None else read_source(old.text, levels)
    except BadReply:
        return None


def _key(text: SourceText) -> str:
    return f"{text.source}={text.host}"


def packed(kept: Mapping[str, Kept]) -> bytes:
    """What is kept, as JSON for a file."""
    rows = [
        {"source": k.text.source, "host": k.text.host, "at_s": k.at_s, "text": k.text.data.decode("utf-8", "replace")}
        for k in kept.values()
    ]
    return orjson.dumps({"gpucast-topology": _VERSION, "sources": rows})


def unpacked(data: bytes, source: str) -> dict[str, Kept]:
    """What ``packed`` wrote.

    Raises:
        BadReply: it is something else.
    """
    try:
        document = orjson.loads(data)
        if document["gpucast-topology"] != _VERSION:
            raise ValueError("another version")
        found = [
            Kept(SourceText(str(row["text"]).encode(), str(row["source"]), str(row["host"])), float(row["at_s"]))
            for row in document["sources"]
        ]
    except (ValueError, TypeError, KeyError) as odd:
        raise BadReply(source, "holds no topology that gpucast kept", mend="Name another file, or remove it") from odd
    return {_key(kept.text): kept for kept in found}
