"""What the rows of one job say together about a period: the best candidate, who agrees, and whether both halves do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.period_acf import acf_batch
from models.period_alias import is_counted, proof
from models.period_best import (
    LEAST_CYCLES,
    LEAST_SAMPLES,
    Best,
    Floats,
    best_of,
    near_periods,
    next_lag_excess,
    resolved,
    threshold,
)
from models.period_comb import FineAcf, comb_score

__all__ = ["LEAST_CYCLES", "LEAST_SAMPLES", "MAX_LAG_SHARE", "Evidence", "gather", "halves", "swings"]

MAX_LAG_SHARE = 0.625
"""Greatest lag as a share of the window; beyond it too few pairs are left."""
LEAST_IN_CADENCE = 6.0
"""Iterations between two checkpoints, at least."""
STRONG_TRAFFIC = 1.5
"""Times the threshold that the network's own repeat has to reach."""
SWING = -0.2
"""Autocorrelation of power at lag 1, above that of bursts one sample wide, below which it swings from sample to sample."""


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """Everything that a verdict on a period needs; lengths are in points.

    Args:
        points: the best period.
        score: its comb score over the rows that agree.
        threshold: the score that chance seldom reaches.
        cycles: how often the window holds it.
        votes: rows that agree.
        voters: rows asked.
        half_score: scores of the two halves of the window near the period.
        half_points: their periods.
        unresolved: half the period, below the resolution, explains the rows nearly as well.
        resolved_share: share of the agreeing rows in which neighbouring samples fit a period seen well enough.
        proof: how far the swings pass what an alias of something faster could show; above 1 it is none.
        counted: counters were among the rows, which makes that sure.
        power_swings: most agreeing rows of power change from sample to sample more than a second's average could.
        row_points: (voters,) each row's own period near the best.
        row_score: (voters,) each row's score at the best period.
        agree: (voters,) who votes for it.
    """

    points: float
    score: float
    threshold: float
    cycles: float
    votes: int
    voters: int
    half_score: tuple[float, float]
    half_points: tuple[float, float]
    unresolved: bool
    resolved_share: float
    proof: float
    counted: bool
    power_swings: bool
    row_points: Floats
    row_score: Floats
    agree: NDArray[np.bool_]

    @property
    def half_width(self) -> float:
        """Likely error of the period: what the halves, the rows and the grid leave open."""
        halves = abs(self.half_points[0] - self.half_points[1]) / 2
        own = self.row_points[self.agree]
        rows = float(np.subtract(*np.percentile(own, [75, 25]))) / 2 if own.size else 0.0
        return max(halves, rows, 0.25 / max(MAX_LAG_SHARE * self.cycles, 1.0))


def gather(values: Floats, acf: NDArray[np.floating], metrics: Sequence[str], step_s: float) -> Evidence | None:
    """The evidence for the best period of some rows; None when nothing repeats at all.

    Args:
        values: (n_rows, n_points) of one job, each row alive.
        acf: (n_rows, max_lag + 1) of the same rows.
        metrics: (n_rows,) catalogue names.
        step_s: spacing of the samples.
    """
    # A device itself averages its power over about a second.
    smooth = np.array([name.endswith("_watts") for name in metrics])
    n = values.shape[1]
    fine, counted = FineAcf.of(acf), is_counted(metrics)
    best = best_of(fine, n)
    if best is None:
        return None
    best = within_cadence(fine, n, counted, best)
    agree, points, row_score = best.agree, best.points, best.row_score
    half_score, half_points = halves(values[agree] if agree.any() else values, points)
    excess = next_lag_excess(acf, row_score, points)
    who = agree if agree.any() else np.ones_like(agree)
    return Evidence(
        points=points,
        score=best.score,
        threshold=threshold(n / points),
        cycles=n / points,
        votes=int(agree.sum()),
        voters=int(agree.size),
        half_score=half_score,
        half_points=half_points,
        unresolved=best.unresolved,
        resolved_share=float(resolved(acf[who], row_score[who], points).mean()),
        proof=proof(values, points, metrics, step_s),
        counted=bool(counted.any()),
        power_swings=swings(acf[agree], excess[agree], smooth[agree]),
        row_points=best.row_points,
        row_score=np.clip(row_score, 0.0, 1.0),
        agree=agree,
    )


def within_cadence(fine: FineAcf, n: int, counted: NDArray[np.bool_], best: Best) -> Best:
    """The iteration, where ``best`` is the cadence of checkpoints or evaluations, which come every so many iterations.

    Each of them shifts the iterations that follow, so that the cadence repeats better than they do. The network tells it
    from an iteration of many micro-batches: what it repeats many times in one cadence is the exchange of gradients.
    """
    if not counted.any() or best.points < LEAST_IN_CADENCE * LEAST_SAMPLES:
        return best
    traffic = fine.rows(counted)
    own = best_of(traffic, n, best.points / LEAST_IN_CADENCE)
    if own is None or own.points < LEAST_SAMPLES or own.score < STRONG_TRAFFIC * threshold(n / own.points):
        return best
    whole = best_of(fine, n, own.points * 1.05)
    return whole if whole is not None and abs(whole.points / own.points - 1) <= 0.05 else best


def halves(values: Floats, points: float) -> tuple[tuple[float, float], tuple[float, float]]:
    """Scores and periods near ``points`` of the two halves of the window; a half that cannot tell scores 0."""
    half = values.shape[1] // 2
    score, period = [0.0, 0.0], [points, points]
    for k, part in enumerate((values[:, :half], values[:, -half:])):
        acf = acf_batch(part, min(half - 1, int(0.75 * half)))
        acf = acf[np.isfinite(acf[:, 0])]
        if not acf.shape[0]:
            continue
        pooled = FineAcf.of(acf.mean(axis=0, keepdims=True))
        near = near_periods(points, 0.1, 81, pooled)
        if near.size:
            own = comb_score(pooled, near, half)[0]
            score[k], period[k] = float(own.max()), float(near[own.argmax()])
    return (score[0], score[1]), (period[0], period[1])


def swings(acf: NDArray[np.floating], excess: Floats, smooth: NDArray[np.bool_]) -> bool:
    """Whether most smooth rows change sign from sample to sample, and hardly any row lasts longer than one sample.

    Power is an average over about a second: where it swings, the sampling misses whole cycles of something.
    """
    if not smooth.any() or np.mean(excess[smooth] < SWING) <= 0.5:
        return False
    return bool(np.mean(acf[:, 1] >= 0.05) < 0.2)
