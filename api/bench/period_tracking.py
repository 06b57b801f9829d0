"""How fast the served period follows a job whose pace changes, and whether it stays: a window slid over the change."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from api.bench.period_jobs import KIND, Line, Sampling, line_of, seen
from api.bench.period_rivals import Estimator
from api.bench.random_jobs import random_spec
from features.frame import Context

NEAR_RATIO = 0.02
POINTS = 512
MOST_TURNS = 24
"""Turns after the change for which the period is watched."""


@dataclass(frozen=True, slots=True)
class Followed:
    """One job's change.

    Args:
        turns: turns of the new pace until the answer was within 2 % of it; NaN where it never was.
        flaps: later answers that left it again, as a share.
        wrong: answers that were near neither pace, as a share of all.
    """

    turns: float
    flaps: float
    wrong: float


def follow(estimator: Estimator, seed: int, number: int) -> Followed:
    """A job that is started again at another pace after a pause, looked at once a turn."""
    random = np.random.default_rng([seed, 5, number])
    step_s = float(random.choice([0.1, 0.5, 1.0, 5.0]))
    old_s = step_s * random.uniform(8.0, 24.0)
    factor = float(random.choice([random.uniform(0.55, 0.9), random.uniform(1.12, 1.9)]))
    spec = replace(random_spec(random, old_s, KIND, pauses=False), jitter_ratio=0.01)
    new = replace(spec, load_s=spec.load_s * factor, compute_s=spec.compute_s * factor)
    new = replace(new, communicate_s=spec.communicate_s * factor)
    window_s = POINTS * step_s
    before = line_of(spec, random, window_s + 4 * old_s)
    after = line_of(new, random, (MOST_TURNS + 4) * new.period_s)
    change_s = float(before.edge_s[-1])
    line = _joined(before, after, random.uniform(0.0, 4.0) * old_s)
    begun_s = float(line.edge_s[-1] - after.edge_s[-1])
    how = Sampling(step_s, 0, step_s, 0.02, 0.005, random.uniform(0.01, 0.05), 4, True)
    points = int((begun_s + MOST_TURNS * new.period_s - 2 * step_s) / step_s)
    whole = seen(line, replace(how, points=points), 0.0, random)
    true_s = after.period_s(0.0, np.inf)
    answers = []
    for turn in range(1, MOST_TURNS):
        stop = int((begun_s + turn * true_s) / step_s)
        answers.append(estimator(_cut(whole, max(0, stop - POINTS), stop)))
    found = np.array(answers)
    near = np.abs(found / true_s - 1.0) <= NEAR_RATIO
    old = np.abs(found / before.period_s(0.0, change_s) - 1.0) <= NEAR_RATIO
    wrong = float((np.isfinite(found) & ~near & ~old).mean())
    if not near.any():
        return Followed(float("nan"), 0.0, wrong)
    first = int(near.argmax())
    return Followed(first + 1.0, float((~near[first:]).mean()), wrong)


def _cut(whole: Context, start: int, stop: int) -> Context:
    return Context(whole.values[:, start:stop], whole.step_s, whole.metric, whole.group, whole.low, whole.high)


def _joined(before: Line, after: Line, pause_s: float) -> Line:
    """One time line after the other, with nothing done between."""
    nothing = np.zeros((1, before.level.shape[1]))
    level = np.concatenate([before.level, nothing, after.level])
    took_s = np.concatenate([np.diff(before.edge_s), [max(pause_s, 1e-3)], np.diff(after.edge_s)])
    edge_s = np.concatenate([[0.0], np.cumsum(took_s)])
    total = np.concatenate([nothing, np.cumsum(level * took_s[:, None], axis=0)])
    return Line(edge_s, level, total, before.plain_s, before.length_s)
