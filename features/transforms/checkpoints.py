"""A job's checkpoints from its own reports of their begin and end. Pure."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from features.frame import CheckpointStamps
from features.store.base import Reader
from telemetry.ids import JobId, SeriesKey

FloatArray = NDArray[np.float64]

CHECKPOINT_FLAG = "job_checkpoint_flag"
STEP_COUNTER = "job_step_total"
SPAN_S = 6 * 3600.0
"""How far back checkpoints are looked for, as far as the reader reaches: they are rare, and a few stamps cost nothing."""


def checkpoint_stamps(reader: Reader, job: JobId, as_of_s: float, span_s: float) -> CheckpointStamps | None:
    """Checkpoints that began in the last ``span_s``, at most ``SPAN_S``; None where the job reports none."""
    span_s = min(span_s, SPAN_S)
    flags = reader.read([SeriesKey(CHECKPOINT_FLAG, str(job))], as_of_s, span_s)[0]
    start_s, end_s = begins_and_ends(flags.at_s, flags.value)
    if not start_s.size:
        return None
    steps = reader.read([SeriesKey(STEP_COUNTER, str(job))], as_of_s, span_s)[0]
    return CheckpointStamps(start_s, end_s, step_before(start_s, steps.at_s, steps.value))


def begins_and_ends(at_s: FloatArray, flag: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Starts and ends of checkpoints, oldest first.

    Several ranks may report one checkpoint: it begins with the first begin and ends with the last end before the next
    begin. An end without a begin is left out; a begin without an end has the end NaN where it is the newest, else it
    was broken off and is left out.

    Args:
        at_s: (n,) Unix seconds, in any order.
        flag: (n,) 1 where a checkpoint begins, 0 where it ends; others are left out.
    """
    good = np.isfinite(at_s) & ((flag == 0) | (flag == 1))
    order = np.lexsort((flag[good], at_s[good]))
    at_s, begins = at_s[good][order], flag[good][order] == 1
    first = np.flatnonzero(begins & ~np.append(False, begins[:-1])[: begins.size])
    if not first.size:
        return np.empty(0), np.empty(0)
    # Everything up to the next first begin belongs to this checkpoint.
    last = np.append(first[1:], begins.size) - 1
    ended = ~begins[last]
    end_s = np.where(ended, at_s[last], np.nan)
    kept = ended | (np.arange(first.size) == first.size - 1)
    return at_s[first][kept], end_s[kept]


def step_before(start_s: FloatArray, at_s: FloatArray, step: FloatArray) -> FloatArray:
    """(n,) the newest step at each start; NaN where none was reported before it."""
    order = np.argsort(at_s, kind="stable")
    place = np.searchsorted(at_s[order], start_s, side="right") - 1
    known = place >= 0
    out = np.full(start_s.shape, np.nan)
    out[known] = step[order][place[known]]
    return out
