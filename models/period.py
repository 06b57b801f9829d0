"""The iteration period of each job, voted over its GPUs and metrics; or the reason why none can be told."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from features.frame import Context
from models.period_acf import acf_batch
from models.period_comb import COMB_TEETH, SHORTEST_POINTS, candidate_grid, comb_score

Status = Literal["found", "none", "idle", "too_coarse", "too_short"]

LEAST_POINTS = 20
"""Fewer points than this cannot hold four periods of four samples and still show noise apart."""
LEAST_SAMPLES = 4.0
"""Samples that one period needs."""
LEAST_CYCLES = 4.0
"""Periods that the window needs."""
CYCLE_SLACK = 1.06
"""The found period may exceed a quarter of the window by this factor: it is itself known only to a few per cent."""
MAX_LAG_SHARE = 0.625
"""Greatest lag as a share of the window; beyond it too few pairs are left."""
LONGEST_SHARE = 0.3125
"""Longest candidate as a share of the window, so that two teeth of its comb lie inside the greatest lag."""
SMALLER_ENOUGH = 0.75
"""A fraction of the best period replaces it when it keeps this share of the score."""
FLOOR_BY_UNIT: tuple[tuple[str, float], ...] = (
    ("_bytes_per_s", 1e7),
    ("_ratio", 0.005),
    ("_watts", 2.0),
    ("_celsius", 1.0),
    ("_bytes", 1e8),
)
"""Spread (one standard deviation) below which a row of this unit is idle: the chatter of a machine without work."""


@dataclass(frozen=True, slots=True, eq=False)
class PeriodFinding:
    """What one group's rows say together about their period.

    Args:
        group: the group's number in the context.
        status: ``found``; ``none`` nothing repeats; ``idle`` nothing happens; ``too_coarse`` what repeats is faster than the
            sampling can show; ``too_short`` the window holds too few points or periods.
        period_s: seconds, NaN unless found.
        low_s: lower end of the likely range, NaN unless found.
        high_s: upper end.
        score: share of the voters' variance that repeats with the period, 0 where no candidate stands out.
        votes: rows whose own period agrees.
        voters: rows that are alive, neither constant nor idle.
        reason: a sentence with the numbers used.
        row_period_s: (n_rows in group,) each row's own period near the group's, NaN where it has none.
        row_score: (n_rows in group,) share of each row's variance that repeats with the group's period.
        candidate_s: the best repeating period whether or not it may be called found; NaN where there is none. A regular
            alias repeats on the grid too, which helps to forecast the samples though it is nobody's iteration.
    """

    group: int
    status: Status
    period_s: float
    low_s: float
    high_s: float
    score: float
    votes: int
    voters: int
    reason: str
    row_period_s: NDArray[np.float64]
    row_score: NDArray[np.float64]
    candidate_s: float = float("nan")


def detect_periods(context: Context) -> list[PeriodFinding]:
    """One finding for each group, in ascending group number."""
    return [_detect_group(context, int(group)) for group in np.unique(context.group)]


def _empty(group: int, status: Status, reason: str, n_rows: int, voters: int = 0) -> PeriodFinding:
    nan = float("nan")
    return PeriodFinding(
        group, status, nan, nan, nan, 0.0, 0, voters, reason, np.full(n_rows, nan), np.zeros(n_rows), nan
    )


def _detect_group(context: Context, group: int) -> PeriodFinding:
    index = np.flatnonzero(context.group == group)
    values = context.values[index]
    metrics = [context.metric[i] for i in index]
    n_rows, n = values.shape
    if n < LEAST_POINTS:
        return _empty(group, "too_short", f"{n} points present, at least {LEAST_POINTS} needed", n_rows)
    active = active_rows(values, metrics)
    most = int(np.isfinite(values).sum(axis=1).max()) if n_rows else 0
    if most < LEAST_POINTS:
        return _empty(group, "too_short", f"{most} values present, at least {LEAST_POINTS} needed", n_rows)
    if not active.any():
        return _empty(group, "idle", f"all {n_rows} series are flat or below the level of an idle machine", n_rows)
    rows = np.flatnonzero(active)
    acf = acf_batch(values[rows], int(MAX_LAG_SHARE * n))
    good = np.isfinite(acf[:, 0])
    rows, acf = rows[good], acf[good]
    if not rows.size:
        return _empty(group, "idle", f"all {n_rows} series are constant", n_rows)
    return _judge(values[rows], acf, rows, n_rows, context.step_s, group)


def active_rows(values: NDArray[np.float64], metrics: list[str]) -> NDArray[np.bool_]:
    """Rows (n_rows,) whose spread is above the idle floor of their unit and that hold enough values."""
    present = np.isfinite(values)
    count = present.sum(axis=1)
    filled = np.where(present, values, 0.0)
    mean = filled.sum(axis=1) / np.maximum(count, 1)
    centred = np.where(present, values - mean[:, None], 0.0)
    sd = np.sqrt((centred**2).sum(axis=1) / np.maximum(count, 1))
    floor = np.array([next((f for unit, f in FLOOR_BY_UNIT if name.endswith(unit)), 0.0) for name in metrics])
    return np.asarray((sd > np.maximum(floor, 1e-9 * np.abs(mean))) & (count >= LEAST_POINTS))


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A period in points, its comb score, and whether a faster one below the resolution explains it nearly as well."""

    points: float
    score: float
    unresolved: bool


def _best_candidate(pooled: NDArray[np.floating], n: int) -> _Candidate | None:
    periods = candidate_grid(pooled.shape[1] - 1, SHORTEST_POINTS, LONGEST_SHARE * n)
    if periods.size < 3:
        return None
    score = comb_score(pooled, periods, n)[0]
    # A period that the window holds only a few times is likelier to be chance.
    ranked = score * (1 - periods / n)
    top = int(np.argmax(ranked))
    chosen = top
    for divisor in range(COMB_TEETH, 1, -1):
        near = np.flatnonzero(np.abs(periods * divisor / periods[top] - 1) < 0.03)
        if near.size and ranked[near].max() >= SMALLER_ENOUGH * ranked[top]:
            chosen = int(near[np.argmax(ranked[near])])
            break
    unresolved = False
    if LEAST_SAMPLES <= periods[chosen] < 2 * LEAST_SAMPLES:
        half = np.abs(periods * 2 / periods[chosen] - 1) < 0.03
        unresolved = bool(half.any() and score[half].max() >= 0.45 * score[chosen])
    return _Candidate(float(periods[chosen]), float(score[chosen]), unresolved)


def _threshold(cycles: float) -> float:
    """Least score: chance repeats two or three times easily, twenty times hardly."""
    return 0.14 + 0.65 / max(cycles, 1.0)


def _judge(
    values: NDArray[np.float64],
    acf: NDArray[np.floating],
    rows: NDArray[np.intp],
    n_rows: int,
    step_s: float,
    group: int,
) -> PeriodFinding:
    n = values.shape[1]
    candidate = _best_candidate(acf.mean(axis=0, keepdims=True), n)
    if candidate is None or candidate.score <= 0:
        return _empty(group, "none", "nothing repeats", n_rows, rows.size)
    near = candidate.points * np.linspace(0.94, 1.06, 61)
    near = near[(near >= 2.0) & (near <= acf.shape[1] - 2)]
    own = comb_score(acf, near, n)
    own_points = near[own.argmax(axis=1)]
    own_score = own.max(axis=1)
    threshold = _threshold(n / candidate.points)
    agree = (own_score >= 0.5 * threshold) & (np.abs(own_points / candidate.points - 1) <= 0.025)
    votes = int(agree.sum())
    pool = acf[agree] if votes else acf
    fine = candidate.points * np.linspace(0.97, 1.03, 121)
    fine = fine[(fine >= 2.0) & (fine <= acf.shape[1] - 2)]
    pooled = comb_score(pool.mean(axis=0, keepdims=True), fine, n)[0]
    points, score = float(fine[pooled.argmax()]), float(pooled.max())
    halves = _half_window(values[agree] if votes else values, points)
    row_score = np.zeros(n_rows)
    row_score[rows] = np.clip(comb_score(acf, np.array([points]), n)[:, 0], 0.0, 1.0)
    row_period = np.full(n_rows, np.nan)
    row_period[rows[agree]] = own_points[agree] * step_s
    spread = _half_width(points, own_points[agree], halves, n)
    base = PeriodFinding(
        group, "none", float("nan"), float("nan"), float("nan"), max(score, 0.0), votes, int(rows.size), "", row_period, row_score,
        points * step_s,
    )  # fmt: skip
    status, reason = _verdict(candidate, points, score, halves, votes, rows.size, float(pool[:, 1].mean()), n, step_s)
    if status == "found":
        return replace(
            base, status=status, reason=reason, period_s=points * step_s,
            low_s=(points - spread) * step_s, high_s=(points + spread) * step_s,
        )  # fmt: skip
    return replace(base, status=status, reason=reason, row_period_s=np.full(n_rows, np.nan))


def _half_window(values: NDArray[np.float64], points: float) -> list[tuple[float, float]]:
    """(score, period in points) of each half of the window near ``points``; score 0 where it cannot be told."""
    half = values.shape[1] // 2
    out = []
    for part in (values[:, :half], values[:, -half:]):
        acf = acf_batch(part, min(half - 1, int(0.75 * half)))
        acf = acf[np.isfinite(acf[:, 0])]
        near = points * np.linspace(0.9, 1.1, 81)
        near = near[(near >= 2.0) & (near <= acf.shape[1] - 2)]
        if not acf.shape[0] or not near.size:
            out.append((0.0, points))
            continue
        score = comb_score(acf.mean(axis=0, keepdims=True), near, half)[0]
        out.append((float(score.max()), float(near[score.argmax()])))
    return out


def _half_width(points: float, own: NDArray[np.float64], halves: list[tuple[float, float]], n: int) -> float:
    between_halves = abs(halves[0][1] - halves[1][1]) / 2
    between_rows = float(np.subtract(*np.percentile(own, [75, 25]))) / 2 if own.size else 0.0
    resolution = 0.25 * points / max(MAX_LAG_SHARE * n, 1.0)
    return max(between_halves, between_rows, resolution)


def _verdict(
    candidate: _Candidate, points: float, score: float, halves: list[tuple[float, float]], votes: int, voters: int,
    next_lag: float, n: int, step_s: float,
) -> tuple[Status, str]:  # fmt: skip
    """Whether the candidate may be called the period, and the sentence that says why."""
    cycles = n / points
    threshold = _threshold(cycles)
    seen = f"{points * step_s:.4g} s repeats in {votes} of {voters} series with score {score:.2f}"
    if score < threshold or votes < max(1, 0.2 * voters):
        return "none", f"nothing repeats: at best {seen}, {threshold:.2f} in a fifth of them is needed"
    agree = abs(halves[0][1] / halves[1][1] - 1) <= 0.03 + 0.5 / (0.5 * n)
    if min(halves[0][0], halves[1][0]) < 0.35 * threshold or (not agree and score < 2 * threshold):
        return "none", f"{seen}, but the two halves of the window do not agree"
    if points < LEAST_SAMPLES:
        return (
            "too_coarse",
            f"{seen}, only {points:.1f} samples a period where {LEAST_SAMPLES:.0f} are needed; sample faster",
        )
    if candidate.unresolved:
        return (
            "too_coarse",
            f"{seen}, and half of it nearly as well, which is below {LEAST_SAMPLES:.0f} samples; sample faster",
        )
    # Spikes one sample wide give -score / (P - 1) at lag 1; less than that means power above a quarter of the sampling rate.
    if next_lag < -score / (points - 1) - 0.08 or (next_lag < 0.05 and points > 12):
        return "too_coarse", f"{seen}, but neighbouring samples do not resemble each other: an alias; sample faster"
    if cycles * CYCLE_SLACK < LEAST_CYCLES:
        needed = int(np.ceil(LEAST_CYCLES * points))
        return "too_short", f"{seen}, but only {cycles:.1f} times: {n} points present, {needed} needed"
    return "found", f"{seen} over {cycles:.1f} periods"
