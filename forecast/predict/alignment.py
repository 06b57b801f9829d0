"""Where each past iteration of a row lies against its newest one, and when the next ones will therefore begin.

Iterations are found by sliding the newest one over the past, one after the other from the newest back; a straight
line through the newest few says how long an iteration takes now and how sure that is. Nothing is counted from an old
origin, so a job whose pace changes is followed within a few iterations and its phase is always the newest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

MAX_ITERATIONS = 8
"""Past iterations that are looked for; older ones say little of the pace now."""
FADE = 0.85
"""Weight of an iteration against the next newer one."""
SEARCH_RATIO = 0.15
"""An iteration is looked for within this share of the period around where it should be."""
FINENESS = 4
"""Lags tried per sample: edges that fall between samples still tell the phase."""
MAX_LAGS_PER_PERIOD = 96
"""A long iteration needs no finer lags than this."""
MISMATCH = 0.35
"""An iteration further off than this share of what chance would give is another thing: a pause, a start."""
USUAL_ERROR_STEPS = 0.15
"""What one match is off by, in samples, before the matches themselves have shown it."""
USUAL_ERROR_COUNT = 2.0
"""That many matches' worth of belief in ``USUAL_ERROR_STEPS``."""
PACE_ERRORS = 4.0
"""Lengths further apart than this many usual errors are another pace."""
USUAL_CHANGES = 4.0
"""Unless they change by a quarter of it from one to the next anyway."""
UNMATCHED_RATIO = 0.03
"""Uncertainty of a period that no match confirms, as a share of it."""


@dataclass(frozen=True, slots=True, eq=False)
class Alignment:
    """Iterations of some rows against the newest one, all in steps.

    Args:
        lag: (n_rows, MAX_ITERATIONS + 1) how far back each iteration lies, newest first, 0 for the newest itself.
        count: (n_rows,) how many of those hold, the newest included.
        period: (n_rows,) length of an iteration now; NaN where the row has none.
        phase_sd: (n_rows,) how far one iteration strays from the steady pace.
        period_sd: (n_rows,) standard error of ``period``.
    """

    lag: FloatArray
    count: NDArray[np.intp]
    period: FloatArray
    phase_sd: FloatArray
    period_sd: FloatArray


def align(values: FloatArray, period_steps: FloatArray) -> Alignment:
    """Find the iterations of every row.

    Args:
        values: (n_rows, n_points) without missing points.
        period_steps: (n_rows,) about how long an iteration is, fractional; NaN where a row has none.
    """
    n_rows, n_points = values.shape
    lag = np.zeros((n_rows, MAX_ITERATIONS + 1))
    count = np.ones(n_rows, np.intp)
    line = np.full((3, n_rows), np.nan)
    for row in range(n_rows):
        guess = float(period_steps[row])
        if not np.isfinite(guess) or guess < 1.0 or 2.0 * guess > n_points:
            continue
        found = _lags(values[row], guess)
        count[row] = 1 + found.size
        lag[row, 1 : 1 + found.size] = found
        line[:, row] = _line(found, guess)
    return Alignment(lag, count, line[0], line[1], line[2])


def _lags(row: FloatArray, guess: float) -> FloatArray:
    """Lags of the past iterations of one row against its newest one, newest first; empty where none matches."""
    n_points = row.shape[0]
    width = max(4, round(guess))
    per_step = min(FINENESS, max(1, int(MAX_LAGS_PER_PERIOD / guess)))
    reach = min(n_points - width, int(np.ceil((MAX_ITERATIONS + 1) * guess)))
    if reach < 1:
        return np.zeros(0)
    off = _mismatch(row, width, reach, per_step)
    lags: list[float] = []
    last, pace = 0.0, guess
    while len(lags) < MAX_ITERATIONS:
        slack = SEARCH_RATIO * guess if lags else 1.5 * SEARCH_RATIO * guess
        low = int(np.ceil((last + pace - slack) * per_step))
        high = int(np.floor((last + pace + slack) * per_step))
        if low < 1 or high >= off.size - 1 or high < low:
            break
        best = low + int(off[low : high + 1].argmin())
        if off[best] > MISMATCH:
            break
        here = (best + _dip(off[best - 1 : best + 2])) / per_step
        lags.append(here)
        pace, last = here / len(lags), here
    return np.array(lags)


def _mismatch(row: FloatArray, width: int, reach: int, per_step: int) -> FloatArray:
    """Mean square difference of the newest ``width`` points to those a lag earlier, over the lags 0, 1 / per_step, ...,
    ``reach``; 1 is what unrelated stretches would differ by.
    """
    recent = row[-(width + reach) :]
    fine = np.interp(np.arange((recent.size - 1) * per_step + 1) / per_step, np.arange(recent.size), recent)
    newest = fine[-1 - (width - 1) * per_step :: per_step]
    windows = np.lib.stride_tricks.sliding_window_view(fine, (width - 1) * per_step + 1)[::-1, ::per_step]
    spread = 2.0 * float(newest.var())
    return np.asarray(((windows - newest) ** 2).mean(axis=1) / max(spread, 1e-12 * float((newest**2).mean()) + 1e-30))


def _dip(around: FloatArray) -> float:
    """Where between its neighbours the lowest of three points really lies, -0.5..0.5."""
    bend = around[0] - 2.0 * around[1] + around[2]
    return float(np.clip(0.5 * (around[0] - around[2]) / bend, -0.5, 0.5)) if bend > 0.0 else 0.0


def _line(lags: FloatArray, guess: float) -> tuple[float, float, float]:
    """Period, and the standard errors of one match and of the period.

    Weighted least squares of lag on the number of the iteration, the newest itself (lag 0) being one of the points;
    only iterations since the pace last changed take part.
    """
    usual = USUAL_ERROR_STEPS
    if lags.size == 0:
        return guess, usual, UNMATCHED_RATIO * guess
    y = np.concatenate([[0.0], lags])[: 2 + _same_pace(np.diff(lags, prepend=0.0))]
    x = np.arange(y.size, dtype=np.float64)
    weight = FADE**x
    middle = float((weight * x).sum() / weight.sum())
    spread = float((weight * (x - middle) ** 2).sum())
    mean = float((weight * y).sum() / weight.sum())
    period = float((weight * (x - middle) * y).sum() / spread)
    residual = y - mean - period * (x - middle)
    freedom = max(0, y.size - 2)
    variance = ((residual**2).sum() + USUAL_ERROR_COUNT * usual**2) / (freedom + USUAL_ERROR_COUNT)
    # The standard error of weighted least squares with equal errors and weights that express trust in the present.
    period_sd = float(np.sqrt(variance * (weight**2 * (x - middle) ** 2).sum()) / spread)
    return period, float(np.sqrt(variance)), period_sd


def _same_pace(lengths: FloatArray) -> int:
    """How many iterations, after the newest, last as long as the newer ones do; ``lengths`` newest first.

    A change is more than what iterations usually differ by from one to the next, and more than two matches' errors.
    """
    change = np.abs(np.diff(lengths))
    if change.size == 0:
        return 0
    allowed = max(PACE_ERRORS * USUAL_ERROR_STEPS, USUAL_CHANGES * float(np.median(change)))
    for older in range(1, lengths.size):
        if abs(lengths[older] - lengths[:older].mean()) > allowed:
            return older - 1
    return lengths.size - 1
