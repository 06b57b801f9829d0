"""Sudden and lasting changes of a job's step time: the first sign that something has become slow.

Two one-sided CUSUM charts run on the logarithm of the step time (Page, Biometrika 41, 1954), scaled by the median and
the median absolute deviation of the steps before. Each step's push is clipped, so that one long step (a checkpoint,
an evaluation) cannot raise an alarm however long it is, while ten steps that are a tenth slower do. Noise that
lingers from step to step raises the bar by its long-run variance (Priestley, Spectral Analysis, 1981, section 5.3.2).

Pure and vectorised over jobs: a matrix of step times in, the changes found out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LEARN = 24
"""Steps that are needed before a change can be called."""
SKIP = 4
"""Steps after a start or a change that are not learnt from: caches are cold and clocks still rise."""
REFERENCE = 96
"""Steps that say what is usual."""
REFRESH = 4
"""The usual is measured anew after so many steps."""
GUARD = 16
"""The newest steps are kept out of the usual while they are being judged."""


@dataclass(frozen=True, slots=True)
class JumpRule:
    """How a change is told from noise.

    Args:
        least_ratio: the smallest change worth an alarm, after over before less one.
        target_ratio: the change that should be found soonest; the charts' allowance is half of it.
        patience: logarithm of the mean number of noise steps between false alarms, roughly (Siegmund, Sequential
            Analysis, 1985, chapter 2): the bar is half of it over the allowance.
        least_bar: lowest bar, in standard deviations: more long steps in a row than a checkpoint makes.
        clip: most that one step may push, in standard deviations.
        floor_ratio: the least noise assumed, so that a series without any is not all alarms.
    """

    least_ratio: float = 0.06
    target_ratio: float = 0.10
    patience: float = 16.0
    least_bar: float = 6.0
    clip: float = 3.5
    floor_ratio: float = 0.004


@dataclass(frozen=True, slots=True)
class Jump:
    """One lasting change.

    Args:
        series: row of the matrix.
        at: column of the first step that was different, as far as the chart can tell.
        called_at: column of the step at which the alarm was raised.
        before_s: usual step time before, seconds.
        after_s: median step time since, seconds.
    """

    series: int
    at: int
    called_at: int
    before_s: float
    after_s: float

    @property
    def ratio(self) -> float:
        """After over before: 1.15 means 15 % slower."""
        return self.after_s / self.before_s


def find_jumps(step_s: Floats, rule: JumpRule | None = None) -> list[Jump]:
    """Every lasting change in each row, in the order in which they were called.

    Args:
        step_s: (n_jobs, n_steps) seconds, oldest first; NaN, zero and below are passed over.
    """
    rule = rule or JumpRule()
    chart = _Charts(step_s.shape[0], rule)
    found: list[Jump] = []
    with np.errstate(invalid="ignore", divide="ignore"):
        logs = np.where(step_s > 0, np.log(step_s), np.nan)
    for at in range(step_s.shape[1]):
        found += chart.observe(logs[:, at], at)
    return found


class _Charts:
    """The two charts of every row and the steps they compare with."""

    def __init__(self, n: int, rule: JumpRule) -> None:
        self.rule = rule
        self.recent = np.full((n, REFERENCE + GUARD), np.nan)
        """Newest last; the charts' own window (GUARD) lies at the end."""
        self.column = np.full((n, REFERENCE + GUARD), -1, dtype=np.int64)
        self.seen = np.zeros(n, dtype=np.int64)
        self.middle = np.full(n, np.nan)
        self.noise = np.full(n, np.nan)
        self.allowance = np.full(n, np.nan)
        self.bar = np.full(n, np.inf)
        self.height = np.zeros((2, n))
        self.since = np.zeros((2, n), dtype=np.int64)
        """Steps since each chart last stood at zero."""

    def observe(self, log_step: Floats, at: int) -> list[Jump]:
        """Judge one step of every row, then remember it."""
        here = np.isfinite(log_step)
        self._remember(log_step, at, here)
        due = here & (self.seen >= LEARN) & ((self.seen % REFRESH == 0) | ~np.isfinite(self.middle))
        if due.any():
            self._measure(np.flatnonzero(due))
        rows = np.flatnonzero(here & np.isfinite(self.middle))
        if not rows.size:
            return []
        push = (log_step[rows] - self.middle[rows]) / self.noise[rows]
        np.clip(push, -self.rule.clip, self.rule.clip, out=push)
        for side, sign in enumerate((1.0, -1.0)):
            risen = np.maximum(self.height[side, rows] + sign * push - self.allowance[rows], 0.0)
            self.height[side, rows] = risen
            self.since[side, rows] = np.where(risen > 0, self.since[side, rows] + 1, 0)
        high = rows[(self.height[:, rows] > self.bar[rows]).any(axis=0)]
        return [jump for row in high if (jump := self._call(int(row), at)) is not None]

    def _remember(self, log_step: Floats, at: int, here: NDArray[np.bool_]) -> None:
        if here.all():
            self.recent[:, :-1] = self.recent[:, 1:]
            self.recent[:, -1] = log_step
            self.column[:, :-1] = self.column[:, 1:]
            self.column[:, -1] = at
        else:
            rows = np.flatnonzero(here)
            self.recent[rows, :-1] = self.recent[rows, 1:]
            self.recent[rows, -1] = log_step[rows]
            self.column[rows, :-1] = self.column[rows, 1:]
            self.column[rows, -1] = at
        self.seen += here

    def _measure(self, rows: NDArray[np.intp]) -> None:
        """The usual, its noise and how long noise lingers; a young row learns from its newest steps too."""
        usual = self.recent[rows, :-GUARD].copy()
        young = np.isfinite(usual).sum(axis=1) < LEARN
        # A rising chart keeps its own steps out; a young one that stands at zero may learn from all it has.
        flat = (self.height[:, rows] == 0).all(axis=0)
        if young.any():
            usual[young] = np.where(
                (flat[young] | ~np.isfinite(self.middle[rows[young]]))[:, None],
                self.recent[rows[young], GUARD:],
                usual[young],
            )
        enough = np.isfinite(usual).sum(axis=1) >= LEARN - SKIP
        rows, usual = rows[enough], usual[enough]
        if not rows.size:
            return
        middle = np.nanmedian(usual, axis=1)
        off = usual - middle[:, None]
        noise = np.maximum(1.4826 * np.nanmedian(np.abs(off), axis=1), self.rule.floor_ratio)
        self.middle[rows], self.noise[rows] = middle, noise
        allowance = np.clip(0.5 * np.log1p(self.rule.target_ratio) / noise, 0.5, 1.5)
        bar = np.maximum(0.5 * self.rule.patience / allowance, self.rule.least_bar)
        self.allowance[rows] = allowance
        self.bar[rows] = bar * _lingering(off / noise[:, None], self.rule.clip)

    def _call(self, row: int, at: int) -> Jump | None:
        """An alarm, when the steps since are really that much slower or faster; the row then learns anew."""
        side = 0 if self.height[0, row] > self.height[1, row] else 1
        length = int(min(self.since[side, row], GUARD))
        after = float(np.median(self.recent[row, -length:]))
        if abs(after - self.middle[row]) < np.log1p(self.rule.least_ratio):
            return None
        first = int(self.column[row, -length])
        jump = Jump(row, first, at, float(np.exp(self.middle[row])), float(np.exp(after)))
        self.recent[row, :-length] = np.nan
        self.seen[row] = length
        self.middle[row] = np.nan
        self.height[:, row] = 0.0
        self.since[:, row] = 0
        return jump


def _lingering(z: Floats, clip: float) -> Floats:
    """Long-run over white standard deviation of clipped noise, 1 to 3, from the first three autocorrelations."""
    z = np.clip(np.nan_to_num(z), -clip, clip)
    power = np.maximum((z * z).sum(axis=1), 1e-12)
    total = np.ones(z.shape[0])
    for lag, weight in ((1, 0.75), (2, 0.5), (3, 0.25)):
        total += 2.0 * weight * (z[:, lag:] * z[:, :-lag]).sum(axis=1) / power
    return np.sqrt(np.clip(total, 1.0, 9.0))
