"""What is learnt from: stretches of jobs on a regular grid, from a sample store or from a folder of recordings."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from features.frame import Context
from features.store.base import Reader
from features.transforms.jobs import job_frame, job_views
from models.store_recipes import StepClass, class_of
from telemetry.errors import ConfigError
from telemetry.jobs import JobView

Floats = NDArray[np.float64]
Say = Callable[[str], None]
STRETCH_POINTS = 4096
"""Longest stretch read at once, in points."""
PROBE_S = 900.0
"""A job's sampling step is told from so much of it."""
MOST_JOBS = 400
"""Of the newest jobs only."""
MOST_CELLS = 40_000_000
"""Values kept in memory (320 MB); the newest stretches come first."""
LEAST_POINTS = 48
"""A shorter stretch is left out."""


@dataclass(frozen=True, slots=True, eq=False)
class Stretch:
    """One job's totals on a grid.

    Args:
        job: whose; windows of one job are drawn together in the bootstrap.
        start_s: time of the first column, Unix seconds; 0 where a recording does not tell.
        context: rows are metrics.
    """

    job: str
    start_s: float
    context: Context

    def at_s(self, column: int) -> float:
        """Time of a column."""
        return self.start_s + column * self.context.step_s


def from_store(reader: Reader, until_s: float, span_s: float, wanted: Sequence[StepClass], say: Say) -> list[Stretch]:
    """Stretches of every job of the span, newest first.

    Args:
        reader: store, as it was known at ``until_s``.
        until_s: nothing later is read.
        span_s: how far back.
        wanted: classes of sampling steps.
        say: told what is left out.
    """
    views = job_views(reader.allocations(until_s, span_s), until_s)
    views = sorted(views, key=lambda view: (-view.last_seen_s, str(view.job)))
    if len(views) > MOST_JOBS:
        say(f"{len(views) - MOST_JOBS} older jobs are left out")
    found: list[Stretch] = []
    cells = 0
    for view in views[:MOST_JOBS]:
        for stretch in _stretches(reader, view, until_s, until_s - span_s, wanted):
            cells += stretch.context.values.size
            if cells > MOST_CELLS:
                say(f"older history than {len(found)} stretches is left out")
                return found
            found.append(stretch)
    return found


def _stretches(
    reader: Reader, view: JobView, until_s: float, from_s: float, wanted: Sequence[StepClass]
) -> Iterator[Stretch]:
    end_s = min(until_s, view.last_seen_s)
    first_s = max(from_s, view.first_seen_s)
    probe = job_frame(reader, view, now_s=end_s, window_s=PROBE_S).totals
    kind = class_of(probe.step_s)
    if kind not in wanted or not probe.n_series:
        return
    # As many values at once as a job of 64 devices has.
    points = max(LEAST_POINTS, int(STRETCH_POINTS * min(1.0, 64 / max(1, len(view.gpus)))))
    while end_s - first_s > LEAST_POINTS * probe.step_s:
        window_s = min(points * probe.step_s, end_s - first_s)
        frame = job_frame(
            reader, view, now_s=end_s, window_s=window_s, step_s=probe.step_s, max_points=STRETCH_POINTS + 1
        )
        totals = frame.totals
        if totals.n_series and totals.n_points >= LEAST_POINTS:
            yield Stretch(str(view.job), frame.data_at_s - (totals.n_points - 1) * totals.step_s, totals)
        end_s -= window_s


def from_folder(folder: Path, wanted: Sequence[StepClass], say: Say) -> list[Stretch]:
    """Stretches from recordings laid out as those of ``gpucast bench forecast``; rows of ports are left out.

    Raises:
        ConfigError: no such folder.
    """
    from api.bench.datasets import LOADERS

    if not folder.is_dir():
        raise ConfigError(f"--data {folder} is not a folder", mend="Give the folder that holds the data sets")
    found: list[Stretch] = []
    for name, (load, files) in LOADERS.items():
        if not any((folder / file).is_file() for file in files):
            continue
        dataset = load(folder, False)
        for recording in dataset.recordings:
            if class_of(recording.step_s) not in wanted:
                continue
            rows = np.array([i for i, m in enumerate(recording.metric) if not m.startswith("port_")], np.intp)
            if not rows.size:
                continue
            say(f"{name}: {recording.name}")
            whole = recording.between(0, recording.values.shape[1]).rows(rows)
            found += _by_owner(f"{name} {recording.name}", whole)
    return found


MOST_ROWS = 64
"""Rows of one recording that are asked at once."""


def _by_owner(name: str, whole: Context) -> Iterator[Stretch]:
    """A stretch per part of the owners, so that a fleet in one recording counts as many."""
    owners = np.unique(whole.group)
    parts = np.array_split(owners, max(1, min(owners.size, -(-whole.n_series // MOST_ROWS))))
    for number, part in enumerate(parts):
        rows = np.flatnonzero(np.isin(whole.group, part))
        yield Stretch(f"{name} {number}" if len(parts) > 1 else name, 0.0, whole.rows(rows))


def digest_of(stretches: Sequence[Stretch]) -> str:
    """SHA-256 of everything that is learnt from."""
    total = hashlib.sha256()
    for stretch in stretches:
        context = stretch.context
        head = f"{stretch.job}|{stretch.start_s!r}|{context.step_s!r}|{context.metric}|{context.group.tolist()}"
        total.update(head.encode())
        for part in (context.values, context.low, context.high):
            total.update(np.ascontiguousarray(part).tobytes())
    return total.hexdigest()
