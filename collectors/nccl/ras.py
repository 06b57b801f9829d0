"""What NCCL RAS answers, as JSON (2.28.7 and later): communicators, ranks that are missing or failed, launch counts.

An answer names no job; ranks are joined with a scheduler's view by host and process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import orjson

from collectors.nccl.inspector import communicator_hash
from telemetry.errors import BadReply
from telemetry.ids import CommunicatorId

ASYNC_ERRORS = {
    1: "unhandled CUDA error",
    2: "system error",
    3: "internal error",
    4: "invalid argument",
    5: "invalid usage",
    6: "remote error",
    8: "timeout",
}
"""ncclResult_t in words; 0 is success and 7 says that a call is still in progress."""
LAG_FROM = 2
"""Ranks are asked one after the other while they run, so that counts one step apart are no fault."""
_IN_PROGRESS = 7
_MOST_TEXT = 128
_MOST_NAMED = 8


class TroubleKind(StrEnum):
    """What can be wrong with a rank or a communicator."""

    UNRESPONSIVE = "unresponsive"
    DEAD = "dead"
    MISSING = "missing"
    """Not in the answer, and nothing says why."""
    ASYNC_ERROR = "async_error"
    ABORTED = "aborted"
    LAGGING = "lagging"


@dataclass(frozen=True, slots=True)
class RasRank:
    """One rank as RAS sees it.

    Args:
        rank: number in its communicator.
        host: address or name.
        pid: process.
        cuda_device: index in the process; None when not told.
        async_error: ncclResult_t; None when not told.
        aborted: an abort was asked for.
        launched: operation -> how many were launched; None where the answer has no number.
    """

    rank: int
    host: str
    pid: int
    cuda_device: int | None = None
    async_error: int | None = None
    aborted: bool = False
    launched: dict[str, int | None] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        """Whether NCCL reports an error or an abort; a call in progress is none."""
        return self.aborted or self.async_error not in (None, 0, _IN_PROGRESS)


@dataclass(frozen=True, slots=True)
class RasMissing:
    """A rank without data of its own."""

    rank: int
    host: str
    pid: int
    unresponsive: bool
    dead: bool


@dataclass(frozen=True, slots=True)
class RasCommunicator:
    """One communicator.

    Args:
        id: RAS knows no names.
        size: ranks it should have.
        n_missing: ranks without data.
        ranks: with data.
        missing: those without data that the answer names.
    """

    id: CommunicatorId
    size: int
    n_missing: int
    ranks: tuple[RasRank, ...]
    missing: tuple[RasMissing, ...]

    def launches(self) -> dict[str, tuple[int, int, tuple[RasRank, ...]]]:
        """Operation -> most launched, fewest launched, and the ranks with the fewest when they differ."""
        found: dict[str, tuple[int, int, tuple[RasRank, ...]]] = {}
        for operation in sorted({name for rank in self.ranks for name in rank.launched}):
            counts = [(rank.launched.get(operation), rank) for rank in self.ranks]
            known = [(count, rank) for count, rank in counts if count is not None]
            if not known:
                continue
            most, fewest = max(count for count, _ in known), min(count for count, _ in known)
            last = tuple(rank for count, rank in known if count == fewest) if fewest < most else ()
            found[operation] = (most, fewest, last)
        return found


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something wrong that RAS tells of.

    Args:
        kind: what.
        communicator: where.
        sentence: for a reader.
        ranks: whom it touches, at most a few named.
        host: of the first of them; empty when not told.
        pid: of the first of them; 0 when not told.
        count: how many ranks it touches.
        by: for ``LAGGING``: operations behind the furthest rank.
        operation: for ``LAGGING``.
    """

    kind: TroubleKind
    communicator: CommunicatorId
    sentence: str
    ranks: tuple[int, ...] = ()
    host: str = ""
    pid: int = 0
    count: int = 1
    by: int = 0
    operation: str = ""


@dataclass(frozen=True, slots=True)
class RasGroup:
    """Communicators of one size that fare alike: a line of the text answer's table.

    Args:
        number: of the group.
        communicators: how many.
        ranks: of them all together.
        state: ``RUNNING``, ``INIT`` and so on.
        problem: ``OK``, ``MISMATCH``, ``INCOMPLETE``, ``ERROR``.
    """

    number: int
    communicators: int
    ranks: int
    state: str
    problem: str


@dataclass(frozen=True, slots=True)
class RasReport:
    """One answer.

    Args:
        nccl_version: ``2.28.7``; empty when not told.
        asked_at: the server's own clock, without a zone: for a reader only.
        communicators: one each, a repeated one is left out and counted; a text answer lists none.
        troubles: what is wrong.
        repeated: communicators that were listed twice.
        malformed: sentence -> count of parts that could not be used.
        timeouts: of the collection inside RAS.
        groups: of a text answer.
    """

    nccl_version: str
    asked_at: str
    communicators: tuple[RasCommunicator, ...]
    troubles: tuple[Trouble, ...]
    repeated: int = 0
    malformed: dict[str, int] = field(default_factory=dict)
    timeouts: int = 0
    groups: tuple[RasGroup, ...] = ()


def parse_ras(data: bytes, source: str) -> RasReport:
    """A JSON answer.

    Raises:
        BadReply: no JSON, or not RAS's.
    """
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise BadReply(source, f"its answer is no whole JSON document ({error})") from error
    if not is_ras(document):
        raise BadReply(source, "its answer has no list of communicators; is this NCCL RAS?")
    malformed: dict[str, int] = {}
    found: dict[str, RasCommunicator] = {}
    repeated = 0
    for part in document["communicators"]:
        one = _communicator(part, malformed)
        if one is None:
            continue
        # Communicators split from one another may share the first hash; the second (of rank 0's process) tells them
        # apart, and stands in the name's place.
        repeated += str(one.id) in found
        found.setdefault(str(one.id), one)
    inside = document.get("ras")
    communicators = tuple(found.values())
    return RasReport(
        nccl_version=_text(document.get("nccl_version")),
        asked_at=_text(document.get("timestamp")),
        communicators=communicators,
        troubles=tuple(troubles_of(communicators)),
        repeated=repeated,
        malformed=malformed,
        timeouts=(_whole(inside.get("timeouts_count")) or 0) if isinstance(inside, dict) else 0,
    )


def is_ras(document: object) -> bool:
    """Whether a JSON document is an answer of RAS."""
    return (
        isinstance(document, dict)
        and isinstance(document.get("communicators"), list)
        and ("nccl_version" in document or "communicators_count" in document)
    )


def troubles_of(communicators: Sequence[RasCommunicator]) -> Iterator[Trouble]:
    """What is wrong with these communicators."""
    for one in communicators:
        yield from _missing_troubles(one)
        for rank in one.ranks:
            if rank.failed:
                yield _failed(one.id, rank)
        for operation, (most, fewest, last) in one.launches().items():
            if most - fewest >= LAG_FROM:
                who = f"{len(last)} of {len(one.ranks)} ranks" if len(last) > 1 else f"rank {last[0].rank}"
                text = f"{operation}: {who} launched {fewest}, the furthest {most}"
                named = tuple(rank.rank for rank in last[:_MOST_NAMED])
                first = last[0]
                yield Trouble(
                    TroubleKind.LAGGING, one.id, text, named, first.host, first.pid, len(last), most - fewest, operation
                )


def _missing_troubles(one: RasCommunicator) -> Iterator[Trouble]:
    for gone in one.missing:
        kind = TroubleKind.DEAD if gone.dead else TroubleKind.UNRESPONSIVE if gone.unresponsive else TroubleKind.MISSING
        words = {
            TroubleKind.DEAD: "is considered dead",
            TroubleKind.UNRESPONSIVE: "does not respond",
            TroubleKind.MISSING: "is missing",
        }
        text = f"rank {gone.rank} (process {gone.pid} on {gone.host or 'an unknown host'}) {words[kind]}"
        yield Trouble(kind, one.id, text, (gone.rank,), gone.host, gone.pid)
    unnamed = one.n_missing - len(one.missing)
    if unnamed > 0:
        yield Trouble(TroubleKind.MISSING, one.id, f"{unnamed} ranks of {one.size} are missing", count=unnamed)


def _failed(communicator: CommunicatorId, rank: RasRank) -> Trouble:
    where = f"rank {rank.rank} (process {rank.pid} on {rank.host or 'an unknown host'})"
    code = rank.async_error
    if code in (None, 0, _IN_PROGRESS):
        return Trouble(
            TroubleKind.ABORTED, communicator, f"{where} was told to abort", (rank.rank,), rank.host, rank.pid
        )
    word = ASYNC_ERRORS.get(code or 0, f"error {code}")
    return Trouble(TroubleKind.ASYNC_ERROR, communicator, f"{where} reports: {word}", (rank.rank,), rank.host, rank.pid)


def _communicator(part: object, malformed: dict[str, int]) -> RasCommunicator | None:
    number = communicator_hash(part.get("hash")) if isinstance(part, dict) else ""
    if not isinstance(part, dict) or not number:
        _count(malformed, "a communicator without a hash")
        return None
    second = _text(part.get("secondary_hash")).replace(":", ".")
    ranks = tuple(rank for entry in _list(part, "ranks") if (rank := _rank(entry, malformed)) is not None)
    missing = tuple(gone for entry in _list(part, "missing_ranks") if (gone := _missing(entry, malformed)) is not None)
    told = _whole(part.get("missing_ranks_count"))
    size = _whole(part.get("size"))
    return RasCommunicator(
        CommunicatorId(second, number),
        len(ranks) + len(missing) if size is None else size,
        max(told or 0, len(missing)),
        ranks,
        missing,
    )


def _rank(entry: object, malformed: dict[str, int]) -> RasRank | None:
    number = _whole(entry.get("rank")) if isinstance(entry, dict) else None
    if not isinstance(entry, dict) or number is None:
        _count(malformed, "a rank without a number")
        return None
    status, counts = entry.get("status"), entry.get("collective_counts")
    status = status if isinstance(status, dict) else {}
    launched = {str(k)[:_MOST_TEXT]: _whole(v) for k, v in counts.items()} if isinstance(counts, dict) else {}
    return RasRank(
        rank=number,
        host=_text(entry.get("host")),
        pid=_whole(entry.get("pid")) or 0,
        cuda_device=_whole(entry.get("cuda_dev")),
        async_error=_whole(status.get("async_error")),
        aborted=status.get("abort_flag") is True,
        launched=launched,
    )


def _missing(entry: object, malformed: dict[str, int]) -> RasMissing | None:
    number = _whole(entry.get("rank")) if isinstance(entry, dict) else None
    if not isinstance(entry, dict) or number is None:
        _count(malformed, "a missing rank without a number")
        return None
    status = entry.get("status")
    status = status if isinstance(status, dict) else {}
    return RasMissing(
        rank=number,
        host=_text(entry.get("host")),
        pid=_whole(entry.get("pid")) or 0,
        unresponsive=status.get("unresponsive") is True,
        dead=status.get("considered_dead") is True,
    )


def _list(part: dict[str, Any], name: str) -> list[Any]:
    value = part.get(name)
    return value if isinstance(value, list) else []


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63 else None


def _text(value: object) -> str:
    return value.strip()[:_MOST_TEXT] if isinstance(value, str) else ""


def _count(counts: dict[str, int], text: str) -> None:
    counts[text] = counts.get(text, 0) + 1
