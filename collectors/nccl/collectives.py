"""Records of many ranks put together to collectives: the slowest rank's time is the collective's.

A collective is done when every rank's record is there, or when no more have come for a while: often only some hosts'
files can be read.
"""

from __future__ import annotations

import statistics
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from collectors.nccl.bandwidth import bus_factor, total_bytes
from collectors.nccl.inspector import InspectorRecord
from collectors.nccl.sequences import SETTLE_S
from telemetry.ids import CollectiveId, CommunicatorId

_MOST_WAITING = 100_000
"""Records that wait for other ranks' records."""
_MOST_KINDS = 100_000


@dataclass(frozen=True, slots=True)
class Collective:
    """One operation over the ranks that were read.

    Args:
        id: communicator and operation, without a member.
        sequence: its number.
        n_ranks: of the communicator.
        ranks_read: with a record of it.
        total_bytes: of the whole operation.
        exec_time_s: of the slowest rank; None when no rank's time can be used.
        slowest_rank: None when no rank's time can be used.
        lag_s: how much longer the slowest took than the middle one of the others; None with fewer than two.
        at_s: newest time of its records, Unix seconds.
        why_missing: why there is no time; empty otherwise.
    """

    id: CollectiveId
    sequence: int
    n_ranks: int
    ranks_read: int
    total_bytes: int
    exec_time_s: float | None
    slowest_rank: int | None
    lag_s: float | None
    at_s: float
    why_missing: str = ""

    @property
    def algbw_bytes_per_s(self) -> float | None:
        """Algorithm bandwidth by the slowest rank; None when there is no time."""
        return self.total_bytes / self.exec_time_s if self.exec_time_s else None

    @property
    def busbw_bytes_per_s(self) -> float | None:
        """Bus bandwidth by the slowest rank; None when there is no time or no known factor."""
        factor, algbw = bus_factor(self.id.operation, self.n_ranks), self.algbw_bytes_per_s
        return None if factor is None or algbw is None else algbw * factor


Key = tuple[str, str, int, int]
"""Communicator hash, operation, epoch, sequence."""


@dataclass(slots=True)
class _Waiting:
    """A collective that is not complete."""

    n_ranks: int
    size_bytes: int
    at_s: float
    since_s: float
    times_us: dict[int, int]
    """Rank -> time, 0 where it cannot be used."""
    why: str = ""


class CollectiveLedger:
    """Puts records together.

    Args:
        settle_s: how long to wait for the other ranks' records, in seconds of this machine's clock.
    """

    def __init__(self, settle_s: float = SETTLE_S) -> None:
        self._settle_s = settle_s
        self._waiting: OrderedDict[Key, _Waiting] = OrderedDict()
        self._n_records = 0
        self._settled: OrderedDict[tuple[str, str, int], int] = OrderedDict()
        """(hash, operation, epoch) -> highest number given away before all of its ranks were there."""
        self.late = 0
        """Records of collectives that had been given away already."""

    def add(self, record: InspectorRecord, epoch: int, now_s: float) -> Collective | None:
        """Take in a collective's record; the collective when this was its last rank."""
        key = (record.communicator.hash, record.operation, epoch, record.sequence)
        waiting = self._waiting.get(key)
        if waiting is None:
            if record.sequence <= self._settled.get(key[:3], -1):
                self.late += 1
                return None
            waiting = self._waiting[key] = _Waiting(record.n_ranks, record.size_bytes, record.at_s, now_s, {})
        if record.rank in waiting.times_us:
            return None
        excluded = record.why_excluded
        waiting.times_us[record.rank] = 0 if excluded else record.exec_time_us
        waiting.why = waiting.why or excluded
        waiting.at_s = max(waiting.at_s, record.at_s)
        self._n_records += 1
        if len(waiting.times_us) >= waiting.n_ranks:
            return self._take(key, record.communicator.name)
        return None

    def settle(self, now_s: float, names: dict[str, str], *, everything: bool = False) -> list[Collective]:
        """Collectives that will not become more complete, oldest first.

        Args:
            now_s: this machine's clock, Unix seconds.
            names: communicator hash -> name.
            everything: also those that may still become more complete.
        """
        given: list[Collective] = []
        while self._waiting:
            key, waiting = next(iter(self._waiting.items()))
            full = self._n_records > _MOST_WAITING
            if not (everything or full or waiting.since_s + self._settle_s <= now_s):
                break
            kind = key[:3]
            self._settled[kind] = max(self._settled.get(kind, -1), key[3])
            self._settled.move_to_end(kind)
            if len(self._settled) > _MOST_KINDS:
                self._settled.popitem(last=False)
            given.append(self._take(key, names.get(key[0], "unknown")))
        return given

    def state(self) -> dict[str, Any]:
        """All there is to know, as JSON values."""
        waiting = [
            [*key, w.n_ranks, w.size_bytes, w.at_s, w.since_s, w.why, list(w.times_us.items())]
            for key, w in self._waiting.items()
        ]
        return {"waiting": waiting, "settled": [[*key, number] for key, number in self._settled.items()]}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what ``state`` gave. Raises ValueError, TypeError or KeyError on anything else."""
        waiting: OrderedDict[Key, _Waiting] = OrderedDict()
        for number, operation, epoch, sequence, n_ranks, size, at_s, since_s, why, times in state["waiting"]:
            waiting[str(number), str(operation), int(epoch), int(sequence)] = _Waiting(
                int(n_ranks),
                int(size),
                float(at_s),
                float(since_s),
                {int(rank): int(us) for rank, us in times},
                str(why),
            )
        settled = OrderedDict(
            ((str(number), str(operation), int(epoch)), int(high))
            for number, operation, epoch, high in state["settled"]
        )
        self._waiting, self._settled = waiting, settled
        self._n_records = sum(len(one.times_us) for one in waiting.values())

    def _take(self, key: Key, name: str) -> Collective:
        waiting = self._waiting.pop(key)
        self._n_records -= len(waiting.times_us)
        usable = {rank: us for rank, us in waiting.times_us.items() if us}
        slowest = max(usable, key=lambda rank: (usable[rank], -rank), default=None)
        others = [us for rank, us in usable.items() if rank != slowest]
        longest_us = usable[slowest] if slowest is not None else None
        return Collective(
            id=CollectiveId(CommunicatorId(name, key[0]), key[1]),
            sequence=key[3],
            n_ranks=waiting.n_ranks,
            ranks_read=len(waiting.times_us),
            total_bytes=total_bytes(key[1], waiting.size_bytes, waiting.n_ranks),
            exec_time_s=None if longest_us is None else longest_us / 1e6,
            slowest_rank=slowest,
            lag_s=(longest_us - statistics.median(others)) / 1e6 if others and longest_us is not None else None,
            at_s=waiting.at_s,
            why_missing="" if usable else waiting.why,
        )


def collectives_of(records: Iterable[InspectorRecord]) -> list[Collective]:
    """The collectives that these records belong to, for records that are all there is."""
    ledger = CollectiveLedger()
    names: dict[str, str] = {}
    done: list[Collective] = []
    for record in records:
        note_name(names, record.communicator)
        if record.peer is None and (one := ledger.add(record, 0, 0.0)) is not None:
            done.append(one)
    return done + ledger.settle(0.0, names, everything=True)


def note_name(names: dict[str, str], communicator: CommunicatorId) -> str:
    """The name that a communicator goes by: the first one told, older records tell none."""
    known = names.get(communicator.hash, "unknown")
    if known == "unknown":
        names[communicator.hash] = known = communicator.name
    return known
