"""How well each card, host and job is: 1 without any finding, less with each."""

from __future__ import annotations

from collections.abc import Sequence

from forecast.predict.health.types import Evidence, HealthFinding, HealthScore, Severity, Thing

WEIGHT = {Severity.INFO: 0.1, Severity.WARNING: 0.5, Severity.CRITICAL: 1.0}
"""The most that one finding of full strength takes away: a critical one all, ten strong informative ones about two thirds."""
MOST_REASONS = 8


def scores_of(findings: Sequence[HealthFinding], evidence: Evidence) -> tuple[HealthScore, ...]:
    """Scores of every card, host and job with a finding, worst first.

    A thing's score is the product of what its findings leave: 1 - weight x score. A host has its cards' and ports'
    findings too, a job those of all its cards, ranks and links; each finding counts once for a thing.
    """
    mine: dict[tuple[Thing, str], list[HealthFinding]] = {}
    owner = evidence.job_of_gpu()
    for one in findings:
        things: set[tuple[Thing, str]] = {(Thing.JOB, str(job)) for job in one.jobs}
        if one.thing in (Thing.GPU, Thing.NODE, Thing.JOB):
            things.add((one.thing, one.entity))
        if one.thing is Thing.GPU and one.entity in owner:
            things.add((Thing.JOB, str(owner[one.entity])))
        if one.node:
            things.add((Thing.NODE, one.node))
        for thing in things:
            mine.setdefault(thing, []).append(one)
    scores = [
        HealthScore(thing, entity, _left(those), tuple(f"{one.entity}: {one.evidence}" for one in those[:MOST_REASONS]))
        for (thing, entity), those in mine.items()
    ]
    return tuple(sorted(scores, key=lambda one: (one.score, one.thing, one.entity)))


def _left(findings: Sequence[HealthFinding]) -> float:
    left = 1.0
    for one in findings:
        left *= 1.0 - WEIGHT[one.severity] * min(1.0, max(0.0, one.score))
    return left
