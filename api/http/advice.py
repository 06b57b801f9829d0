"""Advice: what to do, why, what it will bring, what became of it; and the user's word on it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from api.http import schemas
from api.http.answers import answer, fresh
from api.http.dependencies import ReadsDep, errors
from api.http.paging import Cursor, Limit, page
from api.http.problems import unknown
from api.http.render.advice import advice as render_advice
from api.reads import AdviceRecord, Reads

router = APIRouter(tags=["advice"])
AdvicePath = Annotated[str, Path(max_length=128, description="Id of the advice.")]


class Verb(StrEnum):
    """What a user may say about an advice."""

    APPROVE = "approve"
    REJECT = "reject"
    ROLLBACK = "rollback"


def _record(reads: Reads, text: str) -> AdviceRecord:
    found = reads.advice_by_id(text)
    if found is None:
        raise unknown("advice", text, (record.advice.id for record in reads.advice()))
    return found


@router.get("/v1/advice", response_model=schemas.AdviceList, responses=errors(422))
async def list_advice(request: Request, reads: ReadsDep, limit: Limit = 100, cursor: Cursor = None) -> Response:
    """Every advice kept, newest first."""
    records = reads.advice()
    chosen, following = page(records, limit, cursor, lambda record: record.advice.id)
    now_s = reads.now()
    items = [render_advice(record, now_s) for record in chosen]
    return answer(request, schemas.AdviceList(items=items, next_cursor=following, total=len(records)))


@router.get("/v1/advice/{advice_id}", response_model=schemas.AdviceOut, responses=errors(404, 422))
async def advice(request: Request, advice_id: AdvicePath, reads: ReadsDep) -> Response:
    """One advice with its plan, receipt and grade."""
    return answer(request, render_advice(_record(reads, advice_id), reads.now()))


@router.post("/v1/advice/{advice_id}:{verb}", response_model=schemas.AdviceOut, responses=errors(404, 409, 422, 502))
async def decide(advice_id: AdvicePath, verb: Verb, reads: ReadsDep) -> Response:
    """Approve, reject or roll back; the reply is the advice as it stands after that."""
    _record(reads, advice_id)
    return fresh(render_advice(reads.decide(advice_id, verb.value), reads.now()))
