"""What NCCL RAS answers as text (2.24 and later, and RCCL's): a table of groups, then what is wrong with whom.

The text names only communicators in trouble; how the others fare stands in the table alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from collectors.nccl.inspector import communicator_hash
from collectors.nccl.ras import LAG_FROM, RasGroup, RasReport, Trouble, TroubleKind
from telemetry.errors import BadReply
from telemetry.ids import CommunicatorId

_VERSION = re.compile(r"^(?:NCCL|RCCL) version (\S{1,60})")
_GROUP = re.compile(
    r"^\s{0,20}(\d{1,9})\s+(\d{1,9})\s+\S{1,20}\s+\S{1,20}\s+\S{1,20}\s+(\d{1,9})\s+([A-Z]\S{0,30})\s+(\S{1,30})"
)
_BLOCK = re.compile(r"^#\d{1,9}-\d{1,9} \(([0-9a-fA-Fx]{1,34})\)\s*([A-Z]{0,30})")
_COUNTS = re.compile(r"different (\S{1,60}) operation counts")
_LAUNCHED = re.compile(
    r"(?:(\d{1,9}) ranks? have|Rank (\d{1,9}) has) (?:launched up to operation (\d{1,19})|not launched)"
)
_RANK = re.compile(r"^\s*Rank (\d{1,9})\b.*?(?:process (\d{1,18}) on node (\S{1,120}))?\s*$")
_MISSING = re.compile(r"Missing communicator data from (\d{1,9}) ranks?")
_DEAD = re.compile(r"^\s*Process (\d{1,18}) on node (\S{1,120})")
_MOST_LINES = 1_000_000
_MOST_LINE = 400
_MOST_NAMED = 8
NOWHERE = CommunicatorId("", "0x0")
"""A dead process may belong to any communicator."""


@dataclass(slots=True)
class _Block:
    """The lines about one communicator."""

    number: str
    word: str
    lines: list[str] = field(default_factory=list)


def is_ras_text(data: bytes) -> bool:
    """Whether this is a text answer of RAS."""
    head = data[:65_536]
    return b"Job summary" in head and b"Communicators" in head


def parse_ras_text(data: bytes, source: str) -> RasReport:
    """A text answer.

    Raises:
        BadReply: not RAS's.
    """
    if not is_ras_text(data):
        raise BadReply(source, "its answer has neither a job summary nor communicators; is this NCCL RAS?")
    version, groups = "", []
    blocks: list[_Block] = []
    in_table = False
    for raw in data.decode("utf-8", "replace").splitlines()[:_MOST_LINES]:
        line = raw[:_MOST_LINE]
        if not version and (found := _VERSION.match(line)):
            version = found.group(1)
        in_table = line.startswith("Communicators") or (in_table and not line.startswith(("Errors", "Warnings")))
        if in_table and (row := _GROUP.match(line)):
            groups.append(RasGroup(int(row[1]), int(row[2]), int(row[3]), row[4], row[5]))
        elif head := _BLOCK.match(line):
            blocks.append(_Block(communicator_hash(head.group(1)), head.group(2)))
        elif line.startswith("DEAD"):
            blocks.append(_Block("", "DEAD"))
        elif line[:1].isspace() and line.strip() and blocks:
            blocks[-1].lines.append(line)
    troubles = tuple(trouble for block in blocks for trouble in _troubles(block))
    return RasReport(version, "", (), troubles, groups=tuple(groups))


def _troubles(block: _Block) -> Iterator[Trouble]:
    if block.word == "DEAD":
        for line in block.lines:
            if found := _DEAD.match(line):
                text = f"process {found[1]} on {found[2]} is considered dead"
                yield Trouble(TroubleKind.DEAD, NOWHERE, text, (), found[2], int(found[1]))
        return
    communicator = CommunicatorId("", block.number or "0x0")
    joined = "\n".join(block.lines)
    ranks = [found for line in block.lines if (found := _RANK.match(line))]
    named = tuple(int(found[1]) for found in ranks[:_MOST_NAMED])
    host, pid = (ranks[0][3] or "", int(ranks[0][2] or 0)) if ranks else ("", 0)
    if missing := _MISSING.search(joined):
        count = int(missing[1])
        text = f"{count} ranks are missing" if count != 1 else "1 rank is missing"
        yield Trouble(TroubleKind.MISSING, communicator, text, named, host, pid, count)
    elif counts := _COUNTS.search(joined):
        yield from _lag(communicator, counts[1], block.lines, named, host, pid)
    elif block.word:
        text = f"{block.word}: {' '.join(joined.split())[:300]}"
        yield Trouble(TroubleKind.ASYNC_ERROR, communicator, text, named, host, pid, max(len(ranks), 1))


def _lag(
    communicator: CommunicatorId, operation: str, lines: list[str], named: tuple[int, ...], host: str, pid: int
) -> Iterator[Trouble]:
    """The ranks behind the furthest; none while they are one step apart."""
    counts: dict[int, int] = {}
    for line in lines:
        if found := _LAUNCHED.search(line):
            launched = int(found[3] or 0)
            counts[launched] = counts.get(launched, 0) + (int(found[1]) if found[1] else 1)
    if not counts or max(counts) - min(counts) < LAG_FROM:
        return
    fewest, most = min(counts), max(counts)
    behind = counts[fewest]
    who = f"{behind} of {sum(counts.values())} ranks"
    text = f"{operation}: {who} launched {fewest}, the furthest {most}"
    yield Trouble(TroubleKind.LAGGING, communicator, text, named, host, pid, behind, most - fewest, operation)
