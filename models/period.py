"""The iteration period of each job, voted over its GPUs and metrics; or the reason why none can be told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from features.frame import Context
from models.period_best import LEAST_CYCLES, LEAST_SAMPLES, best_of
from models.period_comb import FineAcf
from models.period_vote import Evidence, gather
from models.period_voters import LEAST_POINTS, Voters, active_rows, voters_of

__all__ = ["LEAST_POINTS", "PeriodFinding", "Repeat", "active_rows", "detect_periods", "find_repeats"]

Status = Literal["found", "none", "idle", "too_coarse", "too_short"]
NAN = float("nan")

CYCLE_SLACK = 1.06
"""The found period may exceed a quarter of the window by this factor: it is itself known only to a few per cent."""
VOTE_SHARE = 0.2
"""Rows that must agree, as a share of the rows that are alive: a job may show its rhythm on the network alone."""
WEAK_VOTE_SHARE = 0.5
"""The same for a score that is less than strong."""
STRONG = 1.5
"""Times the threshold from which a score is strong: it needs fewer votes, and its two halves may drift apart."""


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
        voters: rows that were asked: neither constant nor idle, and only a few of each metric.
        reason: a sentence with the numbers used.
        row_period_s: (n_rows in group,) each row's own period near the group's, NaN where it has none.
        row_score: (n_rows in group,) share of each row's variance that repeats with the candidate.
        candidate_s: the best repeating period whether or not it may be called found; NaN where there is none. A regular
            alias repeats on the grid too, which helps to forecast the samples though it is nobody's iteration.
        points_present: points that the window holds.
        points_needed: points that a verdict needs, as far as known.
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
    candidate_s: float = NAN
    points_present: int = 0
    points_needed: int = LEAST_POINTS


@dataclass(frozen=True, slots=True, eq=False)
class Repeat:
    """The best repeating period of a group, whether or not it may be called found.

    Args:
        group: the group's number in the context.
        candidate_s: seconds; NaN where nothing repeats.
        row_score: (n_rows in group,) share of each row's variance that repeats with it.
    """

    group: int
    candidate_s: float
    row_score: NDArray[np.float64]


def detect_periods(context: Context) -> list[PeriodFinding]:
    """One finding for each group, in ascending group number."""
    return [_detect_group(context, int(group)) for group in np.unique(context.group)]


def find_repeats(context: Context) -> list[Repeat]:
    """What repeats in each group, in ascending group number, without asking whether it may be called a period."""
    found = []
    for group in np.unique(context.group).tolist():
        index = np.flatnonzero(context.group == group)
        voters = voters_of(context, index)
        best = None if voters is None else best_of(FineAcf.of(voters.acf), context.n_points)
        row_score = np.zeros(index.size)
        if voters is not None and best is not None:
            row_score = voters.spread(np.clip(best.row_score, 0.0, 1.0), index.size)
        found.append(Repeat(group, NAN if best is None else best.points * context.step_s, row_score))
    return found


def _detect_group(context: Context, group: int) -> PeriodFinding:
    index = np.flatnonzero(context.group == group)
    values = context.values[index]
    present = int(np.isfinite(values).sum(axis=1).max(initial=0))
    if present < LEAST_POINTS:
        reason = f"{present} points are present and at least {LEAST_POINTS} are needed"
        return _nothing(group, "too_short", reason, index.size, present)
    voters = voters_of(context, index)
    if voters is None:
        reason = f"all {index.size} series are flat, or move less than those of an idle machine"
        return _nothing(group, "idle", reason, index.size, present)
    rows = voters.rows
    evidence = gather(values[rows], voters.acf, [context.metric[index[row]] for row in rows], context.step_s)
    if evidence is None:
        return _nothing(group, "none", f"nothing repeats in {rows.size} series", index.size, present)
    return _finding(group, evidence, voters, index.size, context.step_s, present)


def _nothing(group: int, status: Status, reason: str, n_rows: int, present: int) -> PeriodFinding:
    return PeriodFinding(
        group=group,
        status=status,
        period_s=NAN,
        low_s=NAN,
        high_s=NAN,
        score=0.0,
        votes=0,
        voters=0,
        reason=reason,
        row_period_s=np.full(n_rows, NAN),
        row_score=np.zeros(n_rows),
        points_present=present,
    )


def _finding(group: int, evidence: Evidence, voters: Voters, n_rows: int, step_s: float, present: int) -> PeriodFinding:
    status, reason = verdict(evidence, step_s)
    found = status == "found"
    row_period, row_score = np.full(n_rows, NAN), voters.spread(evidence.row_score, n_rows)
    if found:
        row_period[voters.rows[evidence.agree]] = evidence.row_points[evidence.agree] * step_s
    return PeriodFinding(
        group=group,
        status=status,
        period_s=evidence.points * step_s if found else NAN,
        low_s=(evidence.points - evidence.half_width) * step_s if found else NAN,
        high_s=(evidence.points + evidence.half_width) * step_s if found else NAN,
        score=max(evidence.score, 0.0),
        votes=evidence.votes,
        voters=evidence.voters,
        reason=reason,
        row_period_s=row_period,
        row_score=row_score,
        candidate_s=evidence.points * step_s,
        points_present=present,
        points_needed=max(LEAST_POINTS, int(np.ceil(LEAST_CYCLES * evidence.points))),
    )


def verdict(evidence: Evidence, step_s: float) -> tuple[Status, str]:
    """Whether the best period may be called found, and the sentence that says why."""
    e = evidence
    seen = f"{e.points * step_s:.4g} s repeats in {e.votes} of {e.voters} series with score {e.score:.2f}"
    share = VOTE_SHARE if e.score >= STRONG * e.threshold else WEAK_VOTE_SHARE
    if e.score < e.threshold or e.votes < max(1.0, share * e.voters):
        return (
            "none",
            f"nothing repeats: at best {seen}, where {e.threshold:.2f} in {share:.0%} of the series is needed",
        )
    if not _halves_agree(e):
        return "none", f"{seen}, but the two halves of the window do not agree"
    faster = f"sample faster: {LEAST_SAMPLES:.0f} samples a period are needed"
    if e.points < LEAST_SAMPLES:
        return "too_coarse", f"{seen}, in only {e.points:.1f} samples each time; {faster}"
    if e.proof < 1.0:
        return "too_coarse", f"{seen}, but an alias of something faster could swing as much; {faster}"
    doubt = None if e.counted else _doubt(e)
    if doubt is not None:
        return "too_coarse", f"{seen}{doubt}; {faster}"
    if e.cycles * CYCLE_SLACK < LEAST_CYCLES:
        return "too_short", f"{seen}, but the window holds only {e.cycles:.1f} periods of {LEAST_CYCLES:.0f} needed"
    return "found", f"{seen} over {e.cycles:.1f} periods"


def _doubt(e: Evidence) -> str | None:
    """What speaks against a period that only gauges show: their means may be over less than a sample."""
    if e.unresolved:
        return ", and half of that nearly as well"
    if e.power_swings:
        return ", but power, which is an average over about a second, swings from sample to sample"
    if e.resolved_share < VOTE_SHARE:
        return ", but neighbouring samples do not resemble each other, as in an alias"
    return None


def _halves_agree(e: Evidence) -> bool:
    """Chance that repeats in one half of the window seldom repeats at the same period in the other."""
    if min(e.half_score) < 0.35 * e.threshold:
        return False
    first, second = e.half_points
    near = abs((first + second) / (2 * e.points) - 1) <= 0.05 and abs(first / second - 1) <= 0.03 + 1 / (
        e.cycles * e.points
    )
    # Real rhythms drift too: a strong one may.
    return near or e.score >= STRONG * e.threshold
