"""What would have been foreseen of each past occurrence: rules replayed, their errors, and intervals that learn from them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from models.phase_occurrences import STATISTICS, UNITS, Floats, Occurrences, Rules, rules

SIMPLE = [UNITS.index("seconds") * len(STATISTICS) + place for place in range(len(STATISTICS))]
"""Rules that whoever is served has to beat: the recent median, the mean and the last of the intervals."""
LEAST = 3
"""Occurrences without which nothing is said: two intervals, so that one can be checked against the other."""
FORGET = 0.95
"""What an error counts for against the next newer one where rules are compared."""
AS_GOOD_RATIO = 1.25
"""A rule that erred up to so much more than the best counts as good: steps go before gaps, gaps before seconds, as they
follow what the job does; chosen with the spreads below."""
SPREADS = {"steps": 0.006, "gap": 0.006, "seconds": 0.009}
"""Pooled spread of the errors of each unit's rules, as a share of the interval, for a job with few of its own.
Chosen, with all that follows, on half of the published runs of the benchmark and on simulated seeds of 100 and 101."""
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
_EDGE = 0.41
"""Two edges, each anywhere within a slot: sqrt(2 / 12)."""


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
        stretch: (n,) by how much the starts' intervals were widened for having been too narrow before, or narrowed.
    """

    rule: NDArray[np.intp]
    start_s: Floats
    length_s: Floats
    simple_s: Floats
    actual_s: Floats
    found: Rules
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
            share, weight = errors_of(past, found, actual_s, int(rule[k]), k, resolution_s)
            span_s = span_of(past, found, int(rule[k]), k)
            start_s[k] = foreseen_s[rule[k], k] + span_s * quantiles(share, weight)
        if length_rule[k] >= 0:
            usual_s = found.length_s[length_rule[k], k]
            share, weight = _length_errors(found, next_length_s, int(length_rule[k]), k, resolution_s)
            length_s[k] = usual_s * (1.0 + quantiles(share, weight))
    stretch = _stretched(start_s, actual_s)
    _stretched(length_s, next_length_s)
    return Replay(rule, start_s, length_s, foreseen_s[SIMPLE], actual_s, found, stretch)


def replay_of(past: Occurrences, resolution_s: float) -> Replay:
    """The same, remembered: occurrences change far less often than forecasts are asked for. Not to be written to."""
    return _remembered(past.start_s.tobytes(), past.end_s.tobytes(), past.step.tobytes(), resolution_s)


@lru_cache(maxsize=4096)
def _remembered(start_s: bytes, end_s: bytes, step: bytes, resolution_s: float) -> Replay:
    arrays = (np.frombuffer(part, np.float64) for part in (start_s, end_s, step))
    return replay(Occurrences(*arrays), resolution_s)


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


def span_of(past: Occurrences, found: Rules, rule: int, k: int) -> float:
    """Seconds: foreseen time from start to start, what errors are a share of."""
    return max(1e-6, float(past.end_s[k] - past.start_s[k] + found.wait_s[rule, k]))


def errors_of(
    past: Occurrences, found: Rules, actual_s: Floats, rule: int, k: int, resolution_s: float
) -> tuple[Floats, Floats]:
    """Errors of a rule before place ``k`` as shares of its interval, the pooled ones beside them, and their weights."""
    wait_s = found.wait_s[rule, :k]
    span_s = np.maximum(1e-6, past.end_s[:k] - past.start_s[:k] + wait_s)
    own = (actual_s[:k] - past.end_s[:k] - wait_s) / span_s
    own = own[np.isfinite(own)]
    return _pooled(own, SPREADS[found.unit[rule]] + _EDGE * resolution_s / span_of(past, found, rule, k))


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


def quantiles(share: Floats, weight: Floats) -> Floats:
    """(3,) the 10, 50 and 90 % quantile of a weighted sample."""
    return np.array(weighted(share, weight))


def weighted(value: Floats, weight: Floats) -> tuple[float, float, float]:
    """The 10, 50 and 90 % quantile of a weighted sample."""
    order = np.argsort(value)
    value, weight = value[order], weight[order]
    place = (np.cumsum(weight) - weight / 2) / weight.sum()
    low, mid, high = np.interp((0.1, 0.5, 0.9), place, value)
    return float(low), float(mid), float(high)
