"""When a phase of a job comes next and how long it lasts: an explicit-duration model learnt on the job's own past.

Every rule (each N steps, so long after the last one, every so many seconds) is replayed over the past, each time from
what lay before only. The rule that erred least speaks; its own past errors, with pooled ones while there are few, are
the distribution around it. Whoever is not better than the last, the mean and the median interval
is not served: the best of these speaks then.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.phase_occurrences import STATISTICS, UNITS, Floats, Occurrences, Rules, rules

SIMPLE = [UNITS.index("seconds") * len(STATISTICS) + place for place in range(len(STATISTICS))]
"""Rules that whoever is served has to beat: the recent median, the mean and the last of the intervals."""
LEAST = 3
"""Occurrences without which nothing is said: two intervals, so that one can be checked against the other."""
MOST = 32
"""Older occurrences tell little of the next."""
FORGET = 0.95
"""What an error counts for against the next newer one where rules are compared."""
AS_GOOD_RATIO = 1.25
"""A rule that erred up to so much more than the best counts as good: steps go before gaps, gaps before seconds, as they
follow what the job does; chosen with the spreads below."""
SPREADS = {"steps": 0.006, "gap": 0.006, "seconds": 0.009}
"""Pooled spread of the errors of each unit's rules, as a share of the interval, for a job with few of its own.
Chosen, like ``LENGTH_SPREAD``, on half of the published runs of the benchmark."""
LENGTH_SPREAD = 0.02
"""The same of a length, as a share of it."""
PRIOR_WEIGHT = 4.0
"""So many errors of its own count as much as the pooled ones."""
SCALE_WEIGHT = 2.0
"""So many errors of its own count as much as the pooled spread."""
_PRIOR = np.array([-2.4, -1.35, -0.85, -0.5, -0.24, 0.0, 0.24, 0.5, 0.85, 1.35, 2.4])
"""Quantiles of Student's t with 4 degrees of freedom at 1/22, 3/22, ... 21/22, rounded: tails heavier than normal."""
MOST_STRETCH = 6.0
_DISTANCES = np.array([0.2, 0.4, 0.7, 1.0, 1.5])
"""What distances of a calibrated interval look like, for a start."""
OVERDUE_SHARE = 0.1
"""An occurrence is overdue once so little of its distribution lies ahead."""
LATE_RATIO = 0.4
"""Overdue by more than this share of the interval, it was left out rather than delayed."""
_EXPONENTIAL = -np.log1p(-(np.arange(20) + 0.5) / 20)
LATEST_TURNS = 3
"""An occurrence overdue by so many turns has ceased to come."""
_EDGE = 0.41
"""Two edges, each anywhere within a slot: sqrt(2 / 12)."""
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


@dataclass(frozen=True, slots=True, eq=False)
class Replay:
    """What would have been foreseen after each occurrence; column k is about occurrence k + 1.

    Args:
        rule: (n,) which rule spoke, -1 where none could.
        start_s: (n, 3) quantiles 10, 50, 90 % of the next start.
        length_s: (n, 3) of its length.
        simple_s: (3, n) starts by the simple rules.
        actual_s: (n,) start of the next occurrence; NaN for the newest.
        found: what the rules said.
        chosen_length: (n,) which statistic of lengths spoke.
        stretch: (n,) by how much the starts' intervals were widened for having been too narrow before, or narrowed.
    """

    rule: NDArray[np.intp]
    start_s: Floats
    length_s: Floats
    simple_s: Floats
    actual_s: Floats
    found: Rules
    chosen_length: NDArray[np.intp]
    stretch: Floats


def replay(past: Occurrences, resolution_s: float = 0.0) -> Replay:
    """Foresee every occurrence from those before it; edges are known to ``resolution_s``."""
    n = past.size
    found = rules(past)
    actual_s = np.append(past.start_s[1:], np.nan)
    foreseen_s = past.end_s + found.wait_s
    error_s = np.abs(actual_s - foreseen_s)
    rule = _leaders(error_s, found.wait_s)
    next_length_s = np.append((past.end_s - past.start_s)[1:], np.nan)
    length_rule = _leaders(np.abs(next_length_s - found.length_s), found.length_s)
    start_s, length_s = np.full((n, 3), np.nan), np.full((n, 3), np.nan)
    for k in range(LEAST - 1, n):
        if rule[k] >= 0:
            share, weight = _errors(past, found, actual_s, int(rule[k]), k, resolution_s)
            span_s = _span_s(past, found, int(rule[k]), k)
            start_s[k] = foreseen_s[rule[k], k] + span_s * _quantiles(share, weight)
        if length_rule[k] >= 0:
            usual_s = found.length_s[length_rule[k], k]
            share, weight = _length_errors(found, next_length_s, int(length_rule[k]), k, resolution_s)
            length_s[k] = usual_s * (1.0 + _quantiles(share, weight))
    stretch = _stretched(start_s, actual_s)
    _stretched(length_s, next_length_s)
    return Replay(rule, start_s, length_s, foreseen_s[SIMPLE], actual_s, found, length_rule, stretch)


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
    played = replay(past, resolution_s)
    k = past.size - 1
    rule = int(played.rule[k])
    if rule < 0:
        return Unforeseen("few", "no interval between two of them is known")
    scored, right, skill = _standing(played)
    if skill <= 0.0:
        rule, skill = _better_simple(played), 0.0
    actual_s = played.actual_s
    span_s = _span_s(past, played.found, rule, k)
    share, weight = _errors(past, played.found, actual_s, rule, k, resolution_s)
    expected_s = float(past.end_s[k] + played.found.wait_s[rule, k])
    middle = _quantiles(share, weight)[1]
    share = middle + (share - middle) * played.stretch[k]
    unit, count = played.found.unit[rule], float(played.found.count[rule, k])
    if unit == "steps" and pace is not None and np.isfinite(past.step[k]):
        # The pace of whole intervals holds what comes between the steps, such as evaluations; a step's own does not.
        to_go = _steps_to_go(pace.step, float(past.step[k]), count)
        # Right after an occurrence the newest step lies before it; a step that takes long has not ended yet.
        expected_s = (
            max(pace.at_s, float(past.end_s[k]), now_s - pace.step_s)
            + to_go * float(played.found.wait_s[rule, k]) / count
        )
        share = share * np.sqrt(min(1.0, to_go / count))
    starts_s = expected_s + span_s * share
    low_s, _, high_s = expected_s + span_s * _quantiles(share, weight)
    if not high_s - low_s <= LOOSEST_RATIO * span_s:
        took = np.diff(past.start_s)
        return Unforeseen(
            "irregular",
            f"intervals between the last {past.size} run from {took.min():.3g} to {took.max():.3g} s, too uneven to tell the next",
        )
    # A little of the pooled tail always lies ahead: what counts is whether the job's own errors leave room.
    ahead = starts_s > now_s
    late_s = now_s - expected_s
    overdue = not weight[ahead].sum() > OVERDUE_SHARE * weight.sum()
    if overdue and late_s > LATE_RATIO * span_s:
        # It was left out: the next turn is what the rhythm still tells.
        turns = np.ceil(late_s / span_s)
        if turns > LATEST_TURNS:
            return Unforeseen(
                "ceased",
                f"the last began {now_s - past.start_s[k]:.3g} s ago where one came every {span_s:.3g} s before, so it has ceased",
            )
        starts_s = np.maximum(starts_s + turns * span_s, now_s)
        ahead = np.ones_like(ahead)
    elif overdue:
        # What is late for reasons unseen stays so for about as long again.
        starts_s, weight = now_s + late_s * _EXPONENTIAL, np.ones(_EXPONENTIAL.size)
        ahead = np.ones(_EXPONENTIAL.size, np.bool_)
    start_low_s, start_s, start_high_s = _weighted(starts_s[ahead], weight[ahead])
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


def _stretched(quantile: Floats, actual: Floats) -> Floats:
    """Widen or narrow each interval about its median, in place, by how far the truths before it lay out; gives the factors.

    The distance of a truth in units of the half interval on its side has its 80 % quantile at 1 where intervals are right
    (split conformal, one step at a time); pooled distances keep the first factors near 1.
    """
    n = quantile.shape[0]
    away = actual - quantile[:, 1]
    half = np.where(away >= 0, quantile[:, 2] - quantile[:, 1], quantile[:, 1] - quantile[:, 0])
    distance = np.abs(away) / np.maximum(half, 1e-9)
    factor = np.ones(n)
    for k in range(n):
        before = distance[:k]
        before = before[np.isfinite(before)]
        value = np.concatenate([before, _DISTANCES])
        # Half of the correction for the next truth being one more: the whole of it proved too wide.
        factor[k] = min(MOST_STRETCH, float(np.quantile(value, min(1.0, 0.8 * (1 + 0.5 / value.size)))))
    quantile[:, [0, 2]] = quantile[:, [1]] + (quantile[:, [0, 2]] - quantile[:, [1]]) * factor[:, None]
    return factor


def _leaders(error: Floats, told: Floats) -> NDArray[np.intp]:
    """(n,) the rule that erred least before each place; the first that can speak where none was checked yet.

    A rule whose errors are known at fewer places than another's is compared on the places that both know least of: each
    missing error counts as the largest of the others.
    """
    n_rules, n = error.shape
    score = np.zeros(n_rules)
    out = np.full(n, -1, np.intp)
    for k in range(n):
        able = np.isfinite(told[:, k])
        if able.any():
            ranked = np.where(able, score, np.inf)
            # Nearly as good is as good: the order of the rules says which of them means more.
            out[k] = int(np.flatnonzero(ranked <= AS_GOOD_RATIO * ranked.min() + 1e-9)[0])
        # Column k becomes known once occurrence k + 1 has begun.
        seen = error[:, k]
        if np.isfinite(seen).any():
            score = FORGET * score + np.where(np.isfinite(seen), seen, np.nanmax(seen))
    return out


def _span_s(past: Occurrences, found: Rules, rule: int, k: int) -> float:
    """Foreseen time from start to start, what errors are a share of."""
    return max(1e-6, float(past.end_s[k] - past.start_s[k] + found.wait_s[rule, k]))


def _errors(
    past: Occurrences, found: Rules, actual_s: Floats, rule: int, k: int, resolution_s: float
) -> tuple[Floats, Floats]:
    """Errors of a rule before place ``k`` as shares of its interval, the pooled ones beside them, and their weights."""
    wait_s = found.wait_s[rule, :k]
    span_s = np.maximum(1e-6, past.end_s[:k] - past.start_s[:k] + wait_s)
    own = (actual_s[:k] - past.end_s[:k] - wait_s) / span_s
    own = own[np.isfinite(own)]
    return _pooled(own, SPREADS[found.unit[rule]] + _EDGE * resolution_s / _span_s(past, found, rule, k))


def _length_errors(found: Rules, actual_s: Floats, rule: int, k: int, resolution_s: float) -> tuple[Floats, Floats]:
    told = np.maximum(found.length_s[rule, :k], 1e-6)
    own = actual_s[:k] / told - 1.0
    spread = LENGTH_SPREAD + _EDGE * resolution_s / max(float(found.length_s[rule, k]), 1e-6)
    return _pooled(own[np.isfinite(own)], spread)


def _pooled(own: Floats, spread: float) -> tuple[Floats, Floats]:
    """A job's own errors beside the pooled shape, stretched towards its own scale as its errors grow in number."""
    if own.size:
        scale = max(float(np.abs(own).mean()), 1e-9)
        told = own.size / (own.size + SCALE_WEIGHT)
        spread = float(np.exp(told * np.log(scale) + (1.0 - told) * np.log(spread)))
    weight = np.concatenate([np.ones(own.size), np.full(_PRIOR.size, PRIOR_WEIGHT / _PRIOR.size)])
    return np.concatenate([own, spread * _PRIOR]), weight


def _quantiles(share: Floats, weight: Floats) -> Floats:
    return np.array(_weighted(share, weight))


def _weighted(value: Floats, weight: Floats) -> tuple[float, float, float]:
    """The 10, 50 and 90 % quantile of a weighted sample."""
    order = np.argsort(value)
    value, weight = value[order], weight[order]
    place = (np.cumsum(weight) - weight / 2) / weight.sum()
    low, mid, high = np.interp((0.1, 0.5, 0.9), place, value)
    return float(low), float(mid), float(high)


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
