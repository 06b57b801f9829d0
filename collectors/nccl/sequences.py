"""Which operations the sequence numbers tell of that no record describes.

NCCL counts operations per communicator, rank and kind. Small messages, a ring that was overwritten and a file that was
cut leave holes; a record that comes late, from an older file, fills its hole again.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from collectors.nccl.inspector import InspectorRecord

SETTLE_S = 30.0
"""How long a hole may be filled by a record that comes late, in seconds of this machine's clock."""
_MOST_GAPS = 64
_MOST_TRACKS = 200_000


class Arrival(Enum):
    """What a record is to the ones before it."""

    FRESH = "fresh"
    REPEATED = "repeated"
    """The same record once more."""
    RESTARTED = "restarted"
    """The numbers began anew: another process, or a file written from its start."""


@dataclass(slots=True)
class _Track:
    """One rank's numbers of one kind of operation."""

    first: int
    last: int
    first_s: float
    last_s: float
    stream: str
    pid: int
    epoch: int = 0
    gaps: list[tuple[int, int, float]] = field(default_factory=list)
    """First and last missing number, and when the hole was seen."""
    missed: int = 0
    """Of holes that are closed."""

    def fill(self, number: int) -> bool:
        """Take a number out of the holes; False when it lies in none."""
        for place, (low, high, seen_s) in enumerate(self.gaps):
            if low <= number <= high:
                parts = [(low, number - 1, seen_s), (number + 1, high, seen_s)]
                self.gaps[place : place + 1] = [part for part in parts if part[0] <= part[1]]
                return True
        return False

    def open(self, low: int, high: int, now_s: float) -> None:
        """Note a hole; the oldest is closed when there are too many."""
        if low <= high:
            self.gaps.append((low, high, now_s))
            if len(self.gaps) > _MOST_GAPS:
                old = self.gaps.pop(0)
                self.missed += old[1] - old[0] + 1

    def close(self, before_s: float) -> None:
        """Count the holes that were seen before a moment: nobody will fill them."""
        closed = [gap for gap in self.gaps if gap[2] <= before_s]
        if closed:
            self.missed += sum(high - low + 1 for low, high, _ in closed)
            self.gaps = [gap for gap in self.gaps if gap[2] > before_s]


Key = tuple[str, int, str]
"""Communicator hash, rank, operation."""


class SequenceLedger:
    """Counts missed operations over any number of files."""

    def __init__(self) -> None:
        self._tracks: OrderedDict[Key, _Track] = OrderedDict()
        self._dropped: dict[tuple[str, str], int] = {}

    def add(self, record: InspectorRecord, stream: str, now_s: float) -> tuple[Arrival, int]:
        """Take in a collective's record.

        Args:
            record: to count.
            stream: names the text it came from; another one after a file was truncated.
            now_s: this machine's clock, Unix seconds.

        Returns:
            What it is, and how often its rank's numbers had begun anew before.
        """
        key = (record.communicator.hash, record.rank, record.operation)
        track = self._tracks.get(key)
        if track is None:
            self._tracks[key] = _track(record, stream)
            self._forget_old()
            return Arrival.FRESH, 0
        self._tracks.move_to_end(key)
        arrival = _place(track, record, stream, now_s)
        if arrival is Arrival.RESTARTED:
            track.close(float("inf"))
            self._tracks[key] = fresh = _track(record, stream)
            fresh.epoch, fresh.missed = track.epoch + 1, track.missed
            return arrival, fresh.epoch
        if arrival is Arrival.FRESH:
            track.stream, track.pid = stream, record.pid
        return arrival, track.epoch

    def missed(self, now_s: float, settle_s: float = SETTLE_S) -> dict[tuple[str, str], int]:
        """(communicator hash, operation) -> operations missed so far, over all ranks read; never falls."""
        totals = dict(self._dropped)
        for (number, _, operation), track in self._tracks.items():
            track.close(now_s - settle_s)
            totals[number, operation] = totals.get((number, operation), 0) + track.missed
        return totals

    def state(self) -> dict[str, Any]:
        """All there is to know, as JSON values."""
        tracks = [
            [*key, t.first, t.last, t.first_s, t.last_s, t.stream, t.pid, t.epoch, t.gaps, t.missed]
            for key, t in self._tracks.items()
        ]
        return {"tracks": tracks, "dropped": [[*key, count] for key, count in self._dropped.items()]}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what ``state`` gave. Raises ValueError, TypeError or KeyError on anything else."""
        tracks: OrderedDict[Key, _Track] = OrderedDict()
        for number, rank, operation, first, last, first_s, last_s, stream, pid, epoch, gaps, missed in state["tracks"]:
            holes = [(int(low), int(high), float(seen_s)) for low, high, seen_s in gaps]
            tracks[str(number), int(rank), str(operation)] = _Track(
                int(first),
                int(last),
                float(first_s),
                float(last_s),
                str(stream),
                int(pid),
                int(epoch),
                holes,
                int(missed),
            )
        self._dropped = {(str(number), str(op)): int(count) for number, op, count in state["dropped"]}
        self._tracks = tracks

    def _forget_old(self) -> None:
        while len(self._tracks) > _MOST_TRACKS:
            (number, _, operation), track = self._tracks.popitem(last=False)
            track.close(float("inf"))
            self._dropped[number, operation] = self._dropped.get((number, operation), 0) + track.missed


def _track(record: InspectorRecord, stream: str) -> _Track:
    number, at_s = record.sequence, record.written_s
    return _Track(number, number, at_s, at_s, stream, record.pid)


def _place(track: _Track, record: InspectorRecord, stream: str, now_s: float) -> Arrival:
    """Where a record's number belongs among those that its rank had."""
    number, at_s = record.sequence, record.written_s
    if record.pid != track.pid and at_s >= track.last_s:
        return Arrival.RESTARTED
    if number > track.last:
        track.open(track.last + 1, number - 1, now_s)
        track.last, track.last_s = number, max(at_s, track.last_s)
        return Arrival.FRESH
    if track.fill(number):
        return Arrival.FRESH
    newer = at_s >= track.last_s if stream != track.stream else at_s > track.last_s
    if newer and number < track.last:
        return Arrival.RESTARTED
    if number < track.first and at_s <= track.first_s:
        track.open(number + 1, track.first - 1, now_s)
        track.first, track.first_s = number, at_s
        return Arrival.FRESH
    return Arrival.RESTARTED if newer and stream != track.stream else Arrival.REPEATED
