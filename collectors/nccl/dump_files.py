"""Which files of a dump folder hold records, and what a file is known by."""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from collectors.nccl.inspector import is_complete
from telemetry.samples import Problem

HEAD_BYTES = 4096
_TAIL_BYTES = 256
_NAME = re.compile(r"\.(?:log|jsonl|json)(?:[.-]\d{1,10})?$")
"""What the plug-in calls its files, and what a rotation makes of that."""


def tail_of(file: int, offset: int) -> str:
    """A digest of the last bytes before a place in an open file; empty at its beginning."""
    size = min(_TAIL_BYTES, offset)
    return hashlib.sha256(os.pread(file, size, offset - size)).hexdigest()[:16] if size else ""


def head_of(head: bytes) -> str:
    """What a file is known by; empty while its first line is not whole."""
    end = head.find(b"\n")
    if end < 0 and len(head) < HEAD_BYTES and not is_complete(head):
        return ""
    first = head[:end] if end >= 0 else head
    return hashlib.sha256(first.rstrip()).hexdigest()[:32]


def files_below(folder: Path, depth: int, notes: Counter[tuple[Problem, str]]) -> Iterator[tuple[str, os.stat_result]]:
    """Regular files of a folder that may hold records, each with what stat says."""
    deeper: list[Path] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                try:
                    if entry.is_dir(follow_symlinks=False):
                        deeper.append(Path(entry.path))
                    elif _NAME.search(entry.name) and entry.is_file():
                        yield entry.path, entry.stat()
                except OSError:
                    continue
    except OSError as error:
        notes[Problem.UNREACHABLE, f"{folder} cannot be read: {error.strerror or error}"] += 1
    if depth > 0:
        for below in sorted(deeper):
            yield from files_below(below, depth - 1, notes)
