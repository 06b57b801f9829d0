"""Who takes part in which communicator, and which job that is: what a per-job view joins on."""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePath

from collectors.nccl.inspector import InspectorRecord
from telemetry.ids import CommunicatorId, JobId

_JOB_FOLDER = re.compile(r"nccl-inspector-(\d{1,18})$")
"""The plug-in's own name for its folder, after SLURM_JOBID."""
_MOST = 20_000
_MOST_MEMBERS = 200_000


@dataclass(frozen=True, slots=True)
class Member:
    """One rank: the process behind it, to be joined with a scheduler's or a node's own view."""

    rank: int
    host: str
    pid: int


@dataclass(frozen=True, slots=True)
class CommunicatorView:
    """A communicator as its records show it.

    Args:
        id: name and hash.
        n_ranks: of the whole communicator.
        n_nodes: 0 when not told.
        job: from the folder's name; None when that tells none.
        members: ranks with a record, by rank.
        last_s: newest record's time of writing, Unix seconds.
    """

    id: CommunicatorId
    n_ranks: int
    n_nodes: int
    job: JobId | None
    members: tuple[Member, ...]
    last_s: float


@dataclass(slots=True)
class _Known:
    name: str
    n_ranks: int
    n_nodes: int
    job: JobId | None
    members: dict[int, Member]
    last_s: float


class Roll:
    """Keeps the communicators seen lately; the one that was silent longest is forgotten first."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._n_members = 0

    def note(self, record: InspectorRecord, path: str) -> str:
        """Take in who wrote a record; gives the communicator's name, the first one told."""
        number = record.communicator.hash
        known = self._known.get(number)
        if known is None:
            known = self._known[number] = _Known(
                record.communicator.name, record.n_ranks, record.n_nodes, job_of(path), {}, record.written_s
            )
        self._known.move_to_end(number)
        if known.name == "unknown":
            known.name = record.communicator.name
        known.job = known.job or job_of(path)
        known.last_s = max(known.last_s, record.written_s)
        before = known.members.get(record.rank)
        if before is None or (before.host, before.pid) != (record.host, record.pid):
            self._n_members += before is None
            known.members[record.rank] = Member(record.rank, record.host, record.pid)
        while len(self._known) > 1 and (len(self._known) > _MOST or self._n_members > _MOST_MEMBERS):
            self._n_members -= len(self._known.popitem(last=False)[1].members)
        return known.name

    def names(self) -> dict[str, str]:
        """Communicator hash -> name."""
        return {number: known.name for number, known in self._known.items()}

    def remember(self, names: dict[str, str]) -> None:
        """Take over names from before a restart; who takes part is told again by new records."""
        for number, name in names.items():
            self._known.setdefault(number, _Known(name, 0, 0, None, {}, 0.0))

    def views(self) -> tuple[CommunicatorView, ...]:
        """Every communicator with a record, sorted by id."""
        found = [
            CommunicatorView(
                CommunicatorId(known.name, number),
                max(known.n_ranks, len(known.members)),
                known.n_nodes,
                known.job,
                tuple(known.members[rank] for rank in sorted(known.members)),
                known.last_s,
            )
            for number, known in self._known.items()
            if known.members
        ]
        return tuple(sorted(found, key=lambda view: view.id))


@lru_cache(maxsize=4096)
def job_of(path: str) -> JobId | None:
    """The Slurm job that a dump folder's name tells."""
    for part in reversed(PurePath(path).parts):
        found = _JOB_FOLDER.match(part)
        if found:
            return JobId("slurm", found.group(1))
    return None
