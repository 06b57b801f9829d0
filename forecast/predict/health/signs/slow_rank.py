"""A rank that lasts behind the other ranks of its job, by the durations of its own steps."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from features.frame import JobFrame
from features.store.base import Series
from forecast.predict.health.types import Evidence, HealthFinding, Severity, Sign, Thing
from models.straggler import LEAST_MEMBERS, StragglerRule, find_stragglers
from telemetry.ids import JobId

KIND = "straggler"
METRIC = "rank_step_duration_s"
MOST_READINGS = 192
TO_DO = (
    "Look at this rank's GPU clock, heat and errors and at its host's processors; where all are well, exchange its "
    "host at the next checkpoint and see whether the delay stays with the host."
)


def find(evidence: Evidence) -> list[HealthFinding]:
    """Ranks that are behind their peers."""
    by_job: dict[str, list[Series]] = {}
    for one in evidence.series(METRIC):
        by_job.setdefault(one.key.entity.rpartition("@")[0], []).append(one)
    return [finding for job, ranks in sorted(by_job.items()) for finding in _in_job(job, ranks)]


def too_little(evidence: Evidence, frame: JobFrame) -> str:
    """Why a job's ranks cannot be compared."""
    job = str(frame.job.job)
    ranks = [one.at_s.size for one in evidence.series(METRIC) if one.key.entity.rpartition("@")[0] == job]
    if len(ranks) < LEAST_MEMBERS:
        return f"{len(ranks)} ranks report, and among fewer than {LEAST_MEMBERS} there is no telling who is the odd one"
    needed = StragglerRule().readings
    return f"{max(ranks)} steps are too few, {needed} are needed" if max(ranks) < needed else ""


def _in_job(job: str, ranks: list[Series]) -> list[HealthFinding]:
    if len(ranks) < LEAST_MEMBERS:
        return []
    cost, at_s = by_turn(ranks)
    return [
        _finding(job, ranks[one.member].key.entity, one.ratio, float(at_s[one.since]), one.jumped, cost)
        for one in find_stragglers(cost)
    ]


def by_turn(ranks: list[Series]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Readings of the ranks side by side, (n_ranks, n_turns), and the time of each turn.

    Ranks report each step at nearly the same time: turns are cut by the busiest rank's stamps, and a reading belongs
    to the last turn that began at most half a spacing after it.
    """
    clock = max(ranks, key=lambda one: one.at_s.size).at_s[-MOST_READINGS:]
    cost = np.full((len(ranks), clock.size), np.nan)
    half_s = 0.5 * float(np.median(np.diff(clock))) if clock.size > 1 else 0.5
    for row, one in enumerate(ranks):
        place = np.searchsorted(clock, one.at_s + half_s, side="right") - 1
        inside = place >= 0
        cost[row, place[inside]] = one.value[inside]
    return cost, clock


def _finding(
    job: str, entity: str, ratio: float, since_s: float, jumped: bool, cost: NDArray[np.float64]
) -> HealthFinding:
    usual_s = float(np.nanmedian(cost[:, -16:]))
    how = "fell behind" if jumped else "has been behind for as long as it is read"
    rank = entity.rpartition("@")[2]
    return HealthFinding(
        KIND,
        Thing.RANK,
        entity,
        Severity.WARNING,
        float(np.clip(ratio / 0.4, 0.2, 1.0)),
        since_s,
        f"steps of rank {rank} take {100 * ratio:.0f} % longer than the median {usual_s:.3g} s of {cost.shape[0]} ranks; "
        f"it {how}",
        TO_DO,
        (METRIC,),
        jobs=(JobId.parse(job),),
        numbers={"ratio": 1.0 + ratio, "peers_median_s": usual_s, "peers": float(cost.shape[0] - 1)},
    )


SIGN = Sign(((METRIC,),), find, per_job=True, too_little=too_little)
