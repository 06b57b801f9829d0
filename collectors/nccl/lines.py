"""Whole lines of many growing files, each given once: files rotate, shrink, are replaced, torn, late or gone.

A file is known by its beginning, not by its name or inode: the plug-in writes rank, process and a time in microseconds
into the first line, so a renamed or copied file goes on where the other one stood. How far each beginning was read is
all there is to keep over a restart.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from collectors.nccl.dump_files import HEAD_BYTES, files_below, head_of, tail_of
from collectors.nccl.inspector import is_complete
from telemetry.samples import Problem

KIB, MIB = 1024, 1024**2
_LEAST_READ = 64 * KIB
_DEPTH = 2


@dataclass(frozen=True, slots=True)
class FileLines:
    """What one file gave.

    Args:
        path: where it stands now.
        stream: names its contents; another one after the file began anew.
        lines: whole lines.
    """

    path: str
    stream: str
    lines: list[bytes]


@dataclass(slots=True)
class _Place:
    """How far a file was read."""

    offset: int = 0
    skipping: bool = False
    """Inside a line that is too long."""
    epoch: int = 0
    tail: str = ""
    """Of the bytes before ``offset``."""
    seen: int = 0
    """Number of the poll that last saw it."""


@dataclass(slots=True)
class _Sight:
    """A path as it was last seen."""

    inode: tuple[int, int]
    size: int
    mtime_ns: int
    drained: bool = False
    head: str = ""
    rest_bytes: int = 0
    """After the last whole line."""
    told: bool = False
    served: int = 0


@dataclass(slots=True)
class _Round:
    """One poll under way."""

    budget: int
    given: list[FileLines] = field(default_factory=list)
    notes: Counter[tuple[Problem, str]] = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)
    """Files with an incomplete record that stood at a path where something else is now."""


class LineTail:
    """Reads files to their ends again and again.

    Args:
        roots: files, or folders that are searched two levels deep.
        max_bytes_per_poll: read at most this much at once; the rest comes with the next poll.
        max_line_bytes: a longer line is left out and counted.
        max_files: more are left out and counted.
    """

    def __init__(
        self,
        roots: Sequence[Path],
        *,
        max_bytes_per_poll: int = 16 * MIB,
        max_line_bytes: int = MIB,
        max_files: int = 10_000,
    ) -> None:
        self._roots = tuple(roots)
        self._max_bytes, self._max_line, self._max_files = max_bytes_per_poll, max_line_bytes, max_files
        self._places: dict[str, _Place] = {}
        self._sights: dict[str, _Sight] = {}
        self._poll = 0

    @property
    def n_files(self) -> int:
        """Files seen by the last poll."""
        return len(self._sights)

    def poll(self) -> tuple[list[FileLines], list[tuple[Problem, str, int]]]:
        """New whole lines, and what was wrong: problem, sentence, count. Blocks on the disk."""
        self._poll += 1
        round_ = _Round(self._max_bytes)
        found = self._find(round_)
        for path in [path for path in self._sights if path not in found]:
            self._lost_rest(self._sights.pop(path), round_)
        order = sorted(found, key=lambda path: (self._served(path), found[path].st_mtime_ns, path))
        for path in order:
            if round_.budget <= 0:
                break
            self._visit(path, found[path], round_)
        self._tell_lost(round_)
        self._forget_old()
        return round_.given, [(problem, text, count) for (problem, text), count in round_.notes.items()]

    def state(self) -> dict[str, Any]:
        """How far every file was read, as JSON values."""
        return {
            "places": {head: [p.offset, p.skipping, p.epoch, p.tail] for head, p in self._places.items()},
            "sights": {path: [*s.inode, s.size] for path, s in self._sights.items()},
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what ``state`` gave. Raises ValueError, TypeError or KeyError on anything else."""
        places = {str(h): _Place(int(o), bool(s), int(e), str(t)) for h, (o, s, e, t) in state["places"].items()}
        sights = {str(p): _Sight((int(d), int(i)), int(n), 0) for p, (d, i, n) in state["sights"].items()}
        if any(place.offset < 0 for place in places.values()):
            raise ValueError("a place before the beginning of a file")
        self._places, self._sights = places, sights

    def _served(self, path: str) -> int:
        sight = self._sights.get(path)
        return sight.served if sight else 0

    def _find(self, round_: _Round) -> dict[str, os.stat_result]:
        found: dict[str, os.stat_result] = {}
        for root in self._roots:
            try:
                about = root.stat()
            except (OSError, ValueError) as error:
                text = f"{root} cannot be read: {getattr(error, 'strerror', None) or error}"
                round_.notes[Problem.UNREACHABLE, text] += 1
                continue
            if stat.S_ISREG(about.st_mode):
                found[str(root)] = about
                continue
            for path, inside in files_below(root, _DEPTH, round_.notes):
                if len(found) >= self._max_files:
                    round_.notes[Problem.TOO_LARGE, f"more than {self._max_files} files; the others are left out"] += 1
                    return found
                found[path] = inside
        return found

    def _visit(self, path: str, about: os.stat_result, round_: _Round) -> None:
        inode = (about.st_dev, about.st_ino)
        sight = self._sights.get(path)
        replaced = sight is not None and (sight.inode != inode or about.st_size < sight.size)
        if sight is not None and replaced:
            self._lost_rest(sight, round_)
        elif sight is not None and sight.drained and (sight.size, sight.mtime_ns) == (about.st_size, about.st_mtime_ns):
            self._still_the_same(sight, round_)
            return
        sight = _Sight(inode, about.st_size, about.st_mtime_ns, served=self._poll)
        self._sights[path] = sight
        try:
            # Without O_NONBLOCK a pipe put in a file's place between stat and open would hold us up for good.
            with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb", buffering=0) as file:
                self._read(file.fileno(), path, sight, replaced, round_)
        except OSError as error:
            round_.notes[Problem.UNREACHABLE, f"{path} cannot be read: {error.strerror or error}"] += 1

    def _read(self, file: int, path: str, sight: _Sight, replaced: bool, round_: _Round) -> None:
        about = os.fstat(file)
        if not stat.S_ISREG(about.st_mode):
            return
        size = sight.size = about.st_size
        sight.inode, sight.head = (about.st_dev, about.st_ino), head_of(os.pread(file, HEAD_BYTES, 0))
        if not sight.head:
            sight.rest_bytes, sight.drained = size, True
            return
        place = self._places.setdefault(sight.head, _Place())
        place.seen = self._poll
        if size < place.offset and not replaced:  # a copy under way, of a file that we read further
            sight.drained = True
            return
        if size < place.offset or tail_of(file, place.offset) != place.tail:
            place.offset, place.skipping, place.epoch = 0, False, place.epoch + 1
        least = self._max_line + 1
        share = max(_LEAST_READ, least, round_.budget // max(len(self._sights), 1))
        data = os.pread(file, min(share, max(round_.budget, least)), place.offset)
        round_.budget -= len(data)
        lines, rest = self._take(place, data, round_)
        place.tail = tail_of(file, place.offset)
        sight.rest_bytes = max(size - place.offset, 0)
        sight.drained = not data or place.offset + len(rest) >= size
        if lines:
            round_.given.append(FileLines(path, f"{sight.head}#{place.epoch}", lines))

    def _take(self, place: _Place, data: bytes, round_: _Round) -> tuple[list[bytes], bytes]:
        """Whole lines of what was read at a place, which moves on behind them; and what is left over."""
        end = data.rfind(b"\n") + 1
        lines, rest = data[:end].split(b"\n")[:-1] if end else [], data[end:]
        if place.skipping and lines:
            lines, place.skipping = lines[1:], False
        if rest and not place.skipping and is_complete(rest):  # the last newline was never written
            lines, rest = [*lines, rest], b""
        if len(rest) > self._max_line or (place.skipping and rest):
            if not place.skipping:
                text = f"a line of more than {self._max_line // KIB} KiB is left out"
                round_.notes[Problem.TOO_LARGE, text] += 1
            place.skipping, rest = True, b""
        place.offset += len(data) - len(rest)
        return [line for line in lines if line], rest

    def _still_the_same(self, sight: _Sight, round_: _Round) -> None:
        """A rest that did not grow since the last poll is told of once; it is read when it grows after all."""
        sight.served = self._poll
        if sight.head in self._places:
            self._places[sight.head].seen = self._poll
        if sight.rest_bytes and not sight.told:
            sight.told = True
            round_.notes[Problem.TORN, "an incomplete record at the end of a file"] += 1

    def _lost_rest(self, sight: _Sight, round_: _Round) -> None:
        if sight.rest_bytes and sight.drained and not sight.told:
            round_.lost.append(sight.head)

    def _tell_lost(self, round_: _Round) -> None:
        """Rests whose file was not found at another path."""
        gone = [head for head in round_.lost if head not in self._places or self._places[head].seen != self._poll]
        if gone:
            text = "an incomplete record at the end of a file that is gone or was replaced"
            round_.notes[Problem.TORN, text] += len(gone)

    def _forget_old(self) -> None:
        most = 4 * self._max_files
        if len(self._places) > most:
            for head in sorted(self._places, key=lambda head: self._places[head].seen)[: len(self._places) - most]:
                del self._places[head]
