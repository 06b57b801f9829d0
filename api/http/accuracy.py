"""Accuracy: how served forecasts did once the truth was in."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from api.http import render, schemas
from api.http.answers import answer
from api.http.dependencies import ReadsDep, errors
from api.http.paging import Cursor, Limit, page

router = APIRouter(tags=["accuracy"])


@router.get("/v1/accuracy", response_model=schemas.AccuracyList, responses=errors(422))
async def accuracy(request: Request, reads: ReadsDep, limit: Limit = 100, cursor: Cursor = None) -> Response:
    """Live skill and coverage by subject and metric, losers too."""
    rows = reads.accuracy()
    chosen, following = page(rows, limit, cursor, lambda row: f"{row.subject} {row.metric} {row.model}")
    items = [render.accuracy(row) for row in chosen]
    return answer(request, schemas.AccuracyList(items=items, next_cursor=following, total=len(rows)))
