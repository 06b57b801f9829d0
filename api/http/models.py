"""Trained models: what serves, what could, and why."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from api.http import render, schemas
from api.http.answers import answer
from api.http.dependencies import ReadsDep, errors
from api.model_keeper import ModelsView
from api.models_view import shelf_as_dict
from models.store_records import Shelf

router = APIRouter(tags=["models"])


@router.get("/v1/models", response_model=schemas.ModelList, responses=errors())
async def models(request: Request, reads: ReadsDep) -> Response:
    """Champions and challengers with lineage, figures and what was done; empty before the first training."""
    view = reads.models()
    items = [schemas.ModelOut.model_validate(_model(view, shelf)) for shelf in view.shelves]
    return answer(request, schemas.ModelList(items=items, next_cursor=None, total=len(items)))


def _model(view: ModelsView, shelf: Shelf) -> dict[str, Any]:
    told = shelf_as_dict(shelf)
    state = next((state for state in view.states if state.name == shelf.name), None)
    told["serving"] = (state.version or None) if state and not state.fault else None
    told["refused"] = (state.refused or None) if state else None
    for version in told["versions"]:
        live = view.live.get(version["version"])
        version["live"] = None if live is None else _live(live.skill, live.origins, live.series)
        version["created_at"] = render.rfc3339(version["created_s"])
    for event in told["events"]:
        event["at"] = render.rfc3339(event["at_s"])
    return told


def _live(skill: float, origins: int, series: int) -> dict[str, Any]:
    return {"skill": render.number(skill), "origins": origins, "series": series}
