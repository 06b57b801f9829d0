"""What is slow and sick: findings with their evidence, scores, and what could not be judged."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from api.http.answers import answer
from api.http.dependencies import ReadsDep, errors
from api.http.paging import Cursor, Limit, page
from api.http.render.base import number, rfc3339
from api.http.schemas.findings import FindingList, FindingOut, HealthScoreOut, UnjudgedOut
from forecast.predict.health.types import HealthFinding, HealthScore, Unjudged

router = APIRouter(tags=["findings"])
_MOST_SCORES = 200
_RANK = {"info": 0, "warning": 1, "critical": 2}
Kind = Annotated[str | None, Query(max_length=64, description="Only this kind, such as `straggler`.")]
Entity = Annotated[
    str | None, Query(max_length=512, description="Only this GPU, node, job, rank, link or communicator.")
]
Job = Annotated[str | None, Query(max_length=512, description="Only what a job suffers from, `backend:name`.")]
Least = Annotated[
    Literal["info", "warning", "critical"], Query(description="Only findings that matter at least so much.")
]


@router.get("/v1/findings", response_model=FindingList, responses=errors(422))
async def findings(
    request: Request,
    reads: ReadsDep,
    kind: Kind = None,
    entity: Entity = None,
    job: Job = None,
    severity: Least = "info",
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """Findings of what is slow and sick, worst first. An entity also finds what belongs to it: a node's GPUs, a job's."""
    report = reads.sickness()
    found = [
        one
        for one in report.findings
        if (kind is None or one.kind == kind)
        and (entity is None or entity in (one.entity, one.node) or entity in map(str, one.jobs))
        and (job is None or job in map(str, one.jobs))
        and _RANK[one.severity] >= _RANK[severity]
    ]
    chosen, following = page(found, limit, cursor, lambda one: "|".join(one.key))
    wanted = job if job is not None else entity
    scores = [one for one in report.scores if wanted is None or one.entity == wanted]
    unknown = [one for one in report.unjudged if wanted is None or one.scope in ("", wanted)]
    looked = report.at_s > 0
    return answer(
        request,
        FindingList(
            items=[finding(one) for one in chosen],
            next_cursor=following,
            total=len(found),
            looked_at=rfc3339(report.at_s) if looked else None,
            looked_at_s=report.at_s if looked else None,
            seen=dict(report.seen),
            scores=[_score(one) for one in scores[:_MOST_SCORES]],
            scores_total=len(scores),
            unknown=[_unjudged(one) for one in unknown],
        ),
    )


def finding(one: HealthFinding) -> FindingOut:
    """A finding as the API tells it."""
    return FindingOut(
        kind=one.kind,
        thing=str(one.thing),
        entity=one.entity,
        detail=one.detail,
        severity=one.severity.value,
        score=one.score,
        since_at=rfc3339(one.since_s),
        since_s=one.since_s,
        evidence=one.evidence,
        to_do=one.to_do,
        sources=list(one.sources),
        node=one.node or None,
        jobs=[str(job) for job in one.jobs],
        numbers={name: number(value) for name, value in one.numbers.items()},
    )


def _score(one: HealthScore) -> HealthScoreOut:
    return HealthScoreOut(thing=str(one.thing), entity=one.entity, score=one.score, because=list(one.because))


def _unjudged(one: Unjudged) -> UnjudgedOut:
    return UnjudgedOut(sign=one.kind, job=one.scope or None, missing=list(one.missing), reason=one.reason)
