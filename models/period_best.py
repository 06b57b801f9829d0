"""The period that explains the rows of one job best, and who agrees with it; no verdict yet."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.period_comb import COMB_TEETH, SHORTEST_POINTS, FineAcf, candidate_grid, comb_score, grid_loss

Floats = NDArray[np.float64]

LEAST_SAMPLES = 4.0
"""Samples that one period needs."""
LEAST_CYCLES = 4.0
"""Periods that the window needs."""
LONGEST_SHARE = 0.3125
"""Longest candidate as a share of the window, so that two teeth of its comb lie inside the greatest lag."""
SMALLER_ENOUGH = 0.75
"""A fraction of the best period replaces it when it keeps this share of the score, allowing for the grid,"""
SMALLER_AT_LEAST = 0.5
"""and at least this share of it as read."""
HALF_IS_TOO_FAST = 0.45
"""Half a period below the resolution that keeps this share of the score makes the whole one doubtful."""
AGREE_RATIO = 0.025
"""A row votes for a period when its own lies this near."""
LEAST_TO_MULTIPLY = 8.0
"""Points below which a period is never replaced by its multiple: the grid alone makes multiples look better there."""
NO_MEMORY_LIMIT = 1e9


def threshold(cycles: float) -> float:
    """Least score: chance repeats two or three times easily, twenty times hardly."""
    return 0.2 + 0.75 / max(cycles, 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class Best:
    """The best period of some rows, before any verdict on it; lengths are in points.

    Args:
        points: the period.
        score: its comb score over the rows that agree.
        unresolved: half of it, below the resolution, explains the rows nearly as well.
        agree: (n_rows,) who votes for it.
        row_points: (n_rows,) each row's own period near it.
        row_score: (n_rows,) each row's score at it.
    """

    points: float
    score: float
    unresolved: bool
    agree: NDArray[np.bool_]
    row_points: Floats
    row_score: Floats


def best_of(fine: FineAcf, n: int, longest: float = np.inf) -> Best | None:
    """The period up to ``longest`` points that the rows of an autocorrelation over ``n`` points agree on best.

    None when nothing repeats.
    """
    found = best_candidate(fine.pooled(), n, longest)
    if found is None:
        return None
    candidate, unresolved = found
    agree, own_points, own_score = vote(fine, candidate, n)
    changed = settle_multiple(fine, candidate, agree, own_score, n)
    if changed != candidate:
        candidate, unresolved = changed, False
        agree, own_points, own_score = vote(fine, candidate, n)
    who = agree if agree.any() else np.ones_like(agree)
    points, score = refine(fine.rows(who).pooled(), candidate, n)
    row_score = comb_score(fine, np.array([points]), n)[:, 0]
    return Best(points, score, unresolved, agree, own_points, row_score)


def vote(acf: FineAcf, candidate: float, n: int) -> tuple[NDArray[np.bool_], Floats, Floats]:
    """Who agrees with the candidate, and each row's own period near it with its score, all (n_rows,)."""
    near = near_periods(candidate, 0.06, 61, acf)
    own = comb_score(acf, near, n)
    points, score = near[own.argmax(axis=1)], own.max(axis=1)
    return (score >= 0.5 * threshold(n / candidate)) & (np.abs(points / candidate - 1) <= AGREE_RATIO), points, score


def settle_multiple(acf: FineAcf, candidate: float, agree: NDArray[np.bool_], score: Floats, n: int) -> float:
    """The candidate, or a fraction or multiple of it that rows which see it clearly speak for.

    A fraction: some clear rows repeat with it just as well, and hardly any does not; the others only saw its multiple
    because their bursts are shorter than a sample. A multiple: some clear rows repeat with it and not with the candidate,
    as the one gradient exchange after several equal micro-batches does.
    """
    clear = agree & resolved(acf.coarse, score, candidate)
    if clear.sum() >= max(1.0, 0.2 * agree.sum()):
        seen = acf.rows(clear)
        for divisor in range(COMB_TEETH, 1, -1):
            part = _peak(seen, candidate / divisor, n)
            if part is None:
                continue
            ratio = part / np.maximum(score[clear], 1e-9)
            if np.mean(ratio >= 0.75) >= 0.5 and np.mean(ratio < 0.5) <= 0.1:
                return candidate / divisor
    if candidate < LEAST_TO_MULTIPLY:
        return candidate
    return candidate * _multiple(acf, candidate, np.clip(score, 0.0, None), n)


def _multiple(acf: FineAcf, candidate: float, own: Floats, n: int) -> int:
    """The multiple of the candidate with which some clear rows repeat that hardly repeat with the candidate; else 1."""
    strength = {1: 0.0}
    for factor in range(2, COMB_TEETH + 1):
        points = candidate * factor
        whole = _peak(acf, points, n) if points <= n / LEAST_CYCLES else None
        if whole is None:
            break
        only = (whole >= 1.5 * threshold(n / points)) & (own <= 0.35 * whole) & resolved(acf.coarse, whole, points)
        if only.sum() >= max(2.0, 0.1 * own.size):
            strength[factor] = float(whole[only].mean())
    best = max(strength.values())
    return next(factor for factor, value in strength.items() if value >= 0.85 * best)


def _peak(acf: FineAcf, points: float, n: int) -> Floats | None:
    """(n_rows,) best score within 2 % of ``points``; None where that is below the resolution or beyond the lags."""
    if points < LEAST_SAMPLES or points > 0.5 * acf.max_lag:
        return None
    return np.asarray(comb_score(acf, near_periods(points, 0.02, 9, acf), n).max(axis=1))


def best_candidate(pooled: FineAcf, n: int, longest: float = np.inf) -> tuple[float, bool] | None:
    """The period in points that explains the pooled autocorrelation best, and whether half of it is too fast to see.

    The smallest fraction of the best period that explains nearly as much is taken instead, so that a multiple of the
    period never stands for it; a sub-burst inside an iteration explains less, since only some bursts resemble it.
    """
    periods = candidate_grid(pooled.max_lag, SHORTEST_POINTS, min(longest, LONGEST_SHARE * n))
    if periods.size < 3:
        return None
    score = comb_score(pooled, periods, n)[0]
    # A period that the window holds only a few times is likelier to be chance.
    ranked = score * (1 - periods / n)
    top = int(np.argmax(ranked))
    if ranked[top] <= 0:
        return None
    # What a narrow burst of that period would show on this grid, where the period is no whole number of points.
    fair = ranked / grid_loss(periods, pooled.max_lag, n)
    chosen = top
    for divisor in range(COMB_TEETH, 1, -1):
        near = np.flatnonzero(np.abs(periods * divisor / periods[top] - 1) < 0.03)
        if not near.size:
            continue
        best = int(near[np.argmax(ranked[near])])
        if fair[best] >= SMALLER_ENOUGH * fair[top] and ranked[best] >= SMALLER_AT_LEAST * ranked[top]:
            chosen = best
            break
    half = np.abs(periods * 2 / periods[chosen] - 1) < 0.03
    fast = LEAST_SAMPLES <= periods[chosen] < 2 * LEAST_SAMPLES and half.any()
    return float(periods[chosen]), bool(fast and score[half].max() >= HALF_IS_TOO_FAST * score[chosen])


def refine(pooled: FineAcf, points: float, n: int) -> tuple[float, float]:
    """The period nearest to ``points`` that explains the rows best, from all teeth if they hold, and its score."""
    near = near_periods(points, 0.03, 121, pooled)
    fading = comb_score(pooled, near, n)[0]
    lasting = comb_score(pooled, near, n, memory=NO_MEMORY_LIMIT)[0]
    chosen = lasting if lasting.max() >= 0.6 * fading.max() else fading
    return float(near[chosen.argmax()]), float(fading.max())


def resolved(acf: NDArray[np.floating], score: Floats, points: float) -> NDArray[np.bool_]:
    """Rows (n_rows,) whose neighbouring samples fit a period of ``points``.

    Bursts one sample wide every P samples give ``-score / (P - 1)`` at lag 1; a lower value means that most of the power
    lies above a quarter of the sampling rate. And in a long period something must last longer than one sample.
    """
    fits = next_lag_excess(acf, score, points) >= -0.08
    return np.asarray(fits & ((acf[:, 1] >= 0.05) | (points <= 12)))


def next_lag_excess(acf: NDArray[np.floating], score: Floats, points: float) -> Floats:
    """(n_rows,) autocorrelation at lag 1 above that of bursts one sample wide."""
    return np.asarray(acf[:, 1] + np.clip(score, 0, 1) / (points - 1))


def near_periods(points: float, share: float, count: int, acf: FineAcf) -> Floats:
    """At most ``count`` candidates within ``share`` of ``points`` that the autocorrelation reaches."""
    near = points * np.linspace(1 - share, 1 + share, count)
    return np.asarray(near[(near >= 2.0) & (near <= acf.max_lag - 1)])
