"""When a phase of a job comes next and how long it lasts: an explicit-duration model learnt on the job's own past.

Every rule (each N steps, so long after the last one, every so many seconds) is replayed over the past, each time from
what lay before only. The rule that erred least speaks; its own past errors, with pooled ones while there are few, are
the distribution around it. Whoever is not better than the last, the mean and the median interval
is not served: the best of these speaks then.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from models.phase_occurrences import Floats, Occurrences
from models.phase_replay import LEAST, SIMPLE, Replay, errors_of, quantiles, replay_of, span_of, weighted

MOST = 32
"""Older occurrences tell little of the next."""
OVERDUE_SHARE = 0.1
"""An occurrence is overdue once so little of its distribution lies ahead."""
LATE_RATIO = 0.4
"""Overdue by more than this share of the interval, it was left out rather than delayed."""
_EXPONENTIAL = -np.log1p(-(np.arange(20) + 0.5) / 20)
LATEST_TURNS = 3
"""An occurrence overdue by so many turns has ceased to come."""
LOOSEST_RATIO = 1.0
"""A start whose 80 % interval is wider than this share of the interval between occurrences says nothing."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Where the job's own steps stand.

    Args:
        at_s: time of the newest step.
        step: its number.
        step_s: seconds of a step now.
    """

    at_s: float
    step: float
    step_s: float


@dataclass(frozen=True, slots=True)
class Next:
    """The next occurrence.

    Args:
        start_s: median of its start, Unix seconds.
        start_low_s: 10 % quantile.
        start_high_s: 90 % quantile.
        length_s: median of its length.
        length_low_s: 10 % quantile.
        length_high_s: 90 % quantile.
        unit: what the rule counts: ``steps``, ``gap``, ``seconds``.
        count: how many of them lie between two occurrences.
        overdue: the moment at which it was expected has passed: it comes late or was left out.
        scored: past occurrences that were foreseen in the same way.
        right: share of them that began inside the 80 % interval; NaN when none was scored.
        skill: 1 - error / error of the best of last, mean and recent median interval, over those; 0 when one of these speaks.
    """

    start_s: float
    start_low_s: float
    start_high_s: float
    length_s: float
    length_low_s: float
    length_high_s: float
    unit: str
    count: float
    overdue: bool
    scored: int
    right: float
    skill: float


@dataclass(frozen=True, slots=True)
class Unforeseen:
    """Why nothing is foreseen: a word of ``few``, ``irregular`` and ``ceased``, and the numbers in a sentence."""

    why: str
    reason: str


def foresee(past: Occurrences, now_s: float, pace: Pace | None = None, resolution_s: float = 0.0) -> Next | Unforeseen:
    """The next occurrence after ``now_s``, or why none is foreseen.

    Args:
        past: what ended before ``now_s``.
        now_s: nothing before it is still to come.
        pace: where the job's steps stand, where it reports them.
        resolution_s: how exactly starts and ends are known: the spacing of the samples, 0 for stamps.
    """
    past = past.newest(MOST)
    if past.size < LEAST:
        return Unforeseen("few", f"{past.size} seen so far, and at least {LEAST} are needed to know an interval")
    played = replay_of(past, resolution_s)
    k = past.size - 1
    rule = int(played.rule[k])
    if rule < 0:
        return Unforeseen("few", "no interval between two of them is known")
    scored, right, skill = _standing(played)
    if skill <= 0.0:
        rule, skill = _better_simple(played), 0.0
    span_s = span_of(past, played.found, rule, k)
    share, weight = errors_of(past, played.found, played.actual_s, rule, k, resolution_s)
    expected_s = float(past.end_s[k] + played.found.wait_s[rule, k])
    middle = quantiles(share, weight)[1]
    share = middle + (share - middle) * played.stretch[k]
    unit, count = played.found.unit[rule], float(played.found.count[rule, k])
    if unit == "steps" and pace is not None and np.isfinite(past.step[k]):
        to_go = _steps_to_go(pace.step, float(past.step[k]), count)
        # Right after an occurrence the newest step lies before it; a step that takes long has not ended yet.
        from_s = max(pace.at_s, float(past.end_s[k]), now_s - pace.step_s)
        # The pace of whole intervals holds what comes between the steps, such as evaluations; a step's own does not.
        expected_s = from_s + to_go * float(played.found.wait_s[rule, k]) / count
        share = share * np.sqrt(min(1.0, to_go / count))
    starts_s = expected_s + span_s * share
    low_s, _, high_s = expected_s + span_s * quantiles(share, weight)
    if not high_s - low_s <= LOOSEST_RATIO * span_s:
        took = np.diff(past.start_s)
        return Unforeseen(
            "irregular",
            f"intervals between the last {past.size} run from {took.min():.3g} to {took.max():.3g} s, too uneven to tell the next",
        )
    left = _ahead(starts_s, weight, now_s, now_s - expected_s, span_s)
    if left is None:
        since_s = now_s - float(past.start_s[k])
        return Unforeseen(
            "ceased", f"the last began {since_s:.3g} s ago where one came every {span_s:.3g} s before, so it has ceased"
        )
    starts_s, weight, overdue = left
    start_low_s, start_s, start_high_s = weighted(starts_s, weight)
    length = np.maximum(played.length_s[k], 0.0)
    return Next(
        max(now_s, start_s),
        max(now_s, start_low_s),
        max(now_s, start_high_s),
        float(length[1]),
        float(length[0]),
        float(length[2]),
        unit,
        count,
        overdue,
        scored,
        right,
        skill,
    )


def _ahead(
    starts_s: Floats, weight: Floats, now_s: float, late_s: float, span_s: float
) -> tuple[Floats, Floats, bool] | None:
    """What of a distribution of starts lies ahead, its weights, and whether it is overdue; None where it has ceased."""
    ahead = starts_s > now_s
    # A little of the pooled tail always lies ahead: what counts is whether there is more.
    if weight[ahead].sum() > OVERDUE_SHARE * weight.sum():
        return starts_s[ahead], weight[ahead], False
    if late_s <= LATE_RATIO * span_s:
        # What is late for reasons unseen stays so for about as long again.
        return now_s + late_s * _EXPONENTIAL, np.ones(_EXPONENTIAL.size), True
    turns = np.ceil(late_s / span_s)
    # It was left out: the next turn is what the rhythm still tells.
    return None if turns > LATEST_TURNS else (np.maximum(starts_s + turns * span_s, now_s), weight, True)


def _steps_to_go(now: float, last: float, count: float) -> float:
    """Steps until the next occurrence; after a restart behind the last one, until the next multiple of the count."""
    due = last + count if now >= last else (np.floor(now / count) + 1) * count
    return max(0.0, float(due - now))


def _standing(played: Replay) -> tuple[int, float, float]:
    """How many past occurrences were foreseen, the share inside the 80 % interval, the skill."""
    good = np.isfinite(played.start_s).all(axis=1) & np.isfinite(played.actual_s)
    n = int(good.sum())
    if n == 0:
        return 0, float("nan"), 0.0
    actual_s, said = played.actual_s[good], played.start_s[good]
    inside = (actual_s >= said[:, 0]) & (actual_s <= said[:, 2])
    error_s = float(np.abs(actual_s - said[:, 1]).sum())
    rival_s = float(np.abs(actual_s - played.simple_s[:, good]).sum(axis=1).min())
    return n, float(inside.mean()), 1.0 - error_s / rival_s if rival_s > 0 else 0.0


def _better_simple(played: Replay) -> int:
    error_s = np.nansum(np.abs(played.actual_s - played.simple_s), axis=1)
    return SIMPLE[int(np.argmin(error_s))]
