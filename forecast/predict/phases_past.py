"""What is remembered of a job's phases beyond its window: rare ones come less often than a window is long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from features.frame import JobFrame
from forecast.predict.types import PhaseName
from models.phase_occurrences import Occurrences
from models.phase_sequence import MOST

Timeline = Sequence[tuple[float, float, PhaseName]]
PhasePast = Mapping[PhaseName, Occurrences]
"""Ended occurrences of each phase that was read off telemetry."""
NONE = Occurrences(np.empty(0), np.empty(0), np.empty(0))
RARE = (PhaseName.CHECKPOINT, PhaseName.EVALUATE)
"""What comes now and then; the others are parts of every iteration, told by its period and the next lull."""
SETTLED_SLOTS = 2
"""A run is taken once so many slots lie behind it: the newest ones are still being judged."""
LEAST_SLOTS = 1.5
"""What lasts one slot cannot be told from a wrong sign in it, and one of these splits an interval in two."""
NEAR_SLOTS = 1.5
"""A gap up to so many slots inside one phase is a missed sign, not an end."""


def grown(past: PhasePast, timeline: Timeline, step_s: float) -> dict[PhaseName, Occurrences]:
    """What is remembered, with the runs of a newer timeline that have ended since.

    The first run of a timeline is cut by the window and the last one is not over: neither is taken. A run that is known
    already stays as it was first seen.
    """
    out = dict(past)
    if not timeline:
        return out
    settled_s = timeline[-1][1] - SETTLED_SLOTS * step_s
    first_s = timeline[0][1]
    for phase in RARE:
        runs = _saves(timeline, step_s) if phase is PhaseName.CHECKPOINT else _evaluations(timeline)
        known = out.get(phase)
        after_s = float(known.end_s[-1]) if known is not None and known.size else -np.inf
        # A run whose edge moved by a slot or two since it was first seen is still the same.
        runs = [(a, b) for a, b in runs if b - a >= LEAST_SLOTS * step_s]
        fresh = [(a, b) for a, b in runs if a >= max(first_s, after_s + SETTLED_SLOTS * step_s) and b <= settled_s]
        if not fresh:
            continue
        start_s, end_s = np.array(fresh).T
        if known is not None:
            start_s, end_s = np.append(known.start_s, start_s), np.append(known.end_s, end_s)
        out[phase] = Occurrences(start_s, end_s, np.full(start_s.shape, np.nan)).newest(MOST)
    return out


def _saves(timeline: Timeline, step_s: float) -> list[tuple[float, float]]:
    """Checkpoints, each with the stillness right before it: it was one before the lull was long enough to tell."""
    runs = []
    for (early_s, late_s, before), (start_s, end_s, name) in pairwise([(0.0, 0.0, PhaseName.INIT), *timeline]):
        if name is PhaseName.CHECKPOINT:
            runs.append((early_s if before is PhaseName.IDLE and late_s == start_s else start_s, end_s))
    return _joined(runs, step_s)


def _evaluations(timeline: Timeline) -> list[tuple[float, float]]:
    """Evaluations: work without network for longer than an iteration has, less what an iteration has.

    The silence begins when the network falls silent and ends when it speaks again; the first part of the next iteration
    lies inside it.
    """
    silent: list[tuple[float, float, bool]] = []
    for start_s, end_s, name in timeline:
        if name not in (PhaseName.COMPUTE, PhaseName.EVALUATE, PhaseName.LOAD):
            silent.append((end_s, end_s, False))
            continue
        since_s, _, tells = silent.pop() if silent else (start_s, start_s, False)
        silent.append((since_s, end_s, tells or name is PhaseName.EVALUATE))
    usual = [end_s - start_s for start_s, end_s, tells in silent if not tells and end_s > start_s]
    usual_s = float(np.median(usual)) if usual else 0.0
    return [(start_s, end_s - usual_s) for start_s, end_s, tells in silent if tells and end_s - start_s > usual_s]


def _joined(runs: Sequence[tuple[float, float]], step_s: float) -> list[tuple[float, float]]:
    """Runs of one phase with the short gaps between them closed."""
    out: list[tuple[float, float]] = []
    for start_s, end_s in runs:
        if out and start_s - out[-1][1] <= NEAR_SLOTS * step_s:
            out[-1] = (out[-1][0], end_s)
        else:
            out.append((start_s, end_s))
    return out


def under_way(past: Occurrences, since_s: float, now_s: float, step: float = float("nan")) -> Occurrences:
    """The same with the one that runs now, which ends when the others of its kind did, or now where it takes longer."""
    if past.size and since_s <= past.end_s[-1]:
        return past
    usual_s = float(np.median(past.end_s - past.start_s)) if past.size else 0.0
    end_s = max(now_s, since_s + usual_s)
    return Occurrences(np.append(past.start_s, since_s), np.append(past.end_s, end_s), np.append(past.step, step))


def reported(frame: JobFrame, now_s: float) -> Occurrences | None:
    """Checkpoints by the job's own reports, with one that is being written; None where it reports none."""
    stamps = frame.checkpoints
    if stamps is None:
        return None
    over = np.isfinite(stamps.end_s)
    ended = Occurrences(stamps.start_s[over], stamps.end_s[over], stamps.step[over])
    if not over.all():
        ended = under_way(ended, float(stamps.start_s[-1]), now_s, float(stamps.step[-1]))
    return ended.newest(MOST)


def with_steps(past: Occurrences, frame: JobFrame) -> Occurrences:
    """Occurrences read off telemetry, with the numbers of the job's steps where its stamps reach so far."""
    stamps = frame.steps
    if stamps is None:
        return past
    place = np.searchsorted(stamps.at_s, past.start_s, side="right") - 1
    known = (place >= 0) & ~np.isfinite(past.step)
    step = past.step.copy()
    step[known] = stamps.step[place[known]]
    return Occurrences(past.start_s, past.end_s, step)
