"""Collectives: missing ranks, sequence gaps and troubles of each communicator, by job."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from api.http.answers import answer
from api.http.dependencies import ReadsDep, errors
from api.http.paging import Cursor, Limit, page
from api.http.render.base import rfc3339
from api.http.schemas.collectives import CollectivesOut, CommunicatorOut, LaunchedOut, TroubleOut
from collectors.nccl.ras import Trouble
from collectors.nccl.standing import CommunicatorState

router = APIRouter(tags=["collectives"])
_MOST_HOSTS = 64
_UNREAD = "nothing is known of communicators: set nccl.inspector_folders or nccl.ras, or wait for the first records"
Job = Annotated[str | None, Query(max_length=512, description="Only communicators of this job, `backend:name`.")]


@router.get("/v1/collectives", response_model=CollectivesOut, responses=errors(422))
async def collectives(
    request: Request, reads: ReadsDep, job: Job = None, limit: Limit = 100, cursor: Cursor = None
) -> Response:
    """Every communicator that NCCL Inspector or RAS tells of."""
    found = [state for state in reads.collectives() if job is None or str(state.job) == job]
    chosen, following = page(found, limit, cursor, lambda state: str(state.id))
    return answer(
        request,
        CollectivesOut(
            items=[_communicator(state) for state in chosen],
            next_cursor=following,
            total=len(found),
            in_trouble=sum(state.in_trouble for state in found),
            unread="" if found or job is not None else _UNREAD,
        ),
    )


def _communicator(state: CommunicatorState) -> CommunicatorOut:
    return CommunicatorOut(
        id=str(state.id),
        job=None if state.job is None else str(state.job),
        job_reason=state.job_reason,
        in_trouble=state.in_trouble,
        rank_count=state.rank_count,
        host_count=len(state.hosts),
        hosts=list(state.hosts[:_MOST_HOSTS]),
        recorded_ranks=state.recorded_ranks,
        missing_ranks=state.missing_ranks,
        failed_ranks=state.failed_ranks,
        launched={
            name: LaunchedOut(furthest_count=most, last_count=fewest) for name, (most, fewest) in state.launched.items()
        },
        missed_count=sum(state.missed.values()),
        missed=dict(state.missed),
        troubles=[_trouble(trouble) for trouble in state.troubles[:_MOST_HOSTS]],
        last_at=rfc3339(state.last_s),
        last_s=state.last_s,
        sources=list(state.sources),
    )


def _trouble(trouble: Trouble) -> TroubleOut:
    return TroubleOut(
        kind=str(trouble.kind),
        sentence=trouble.sentence,
        ranks=list(trouble.ranks),
        rank_count=trouble.count,
        host=trouble.host or None,
        pid=trouble.pid or None,
        operation=trouble.operation or None,
        behind_count=trouble.by or None,
    )
