"""The queue: jobs that wait, as schedulers list them."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from api.http.answers import answer
from api.http.dependencies import ReadsDep, errors
from api.http.paging import Cursor, Limit, page
from api.http.render.outlook import ends
from api.http.render.queue import queued, scheduler, waiting_jobs
from api.http.schemas.queue import QueueOut

router = APIRouter(tags=["queue"])
_UNREAD = "no scheduler has been read: set slurm.enabled or kubernetes.enabled"


@router.get("/v1/queue", response_model=QueueOut, responses=errors(422))
async def queue(request: Request, reads: ReadsDep, limit: Limit = 100, cursor: Cursor = None) -> Response:
    """Jobs that wait, why, and when they are expected to start; each scheduler's GPUs, ends and demand ahead."""
    rosters, now_s, outlooks = reads.rosters(), reads.now(), reads.outlooks()
    waiting = waiting_jobs(rosters)
    chosen, following = page(waiting, limit, cursor, lambda pair: f"{pair[0]} {pair[1].job}")
    return answer(
        request,
        QueueOut(
            items=[queued(source, record, now_s, outlooks) for source, record in chosen],
            next_cursor=following,
            total=len(waiting),
            schedulers=[scheduler(roster, now_s, outlooks) for roster in rosters],
            ends=ends(outlooks, limit),
            unread="" if rosters else _UNREAD,
        ),
    )
