"""What every route may ask for: the service, the settings, documented errors."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Query, Request

from api.http.answers import RenderedOnce
from api.http.problems import MEDIA_TYPE
from api.http.settings import HttpSettings
from api.reads import Reads

WindowSeconds = Annotated[
    float, Query(gt=0, le=86400, allow_inf_nan=False, description="How far back, seconds.", examples=[60])
]
MaxPoints = Annotated[
    int, Query(ge=1, le=20000, description="Most points in the reply; the oldest are left out beyond it.")
]


def _reads(request: Request) -> Reads:
    reads: Reads = request.app.state.reads
    return reads


def _settings(request: Request) -> HttpSettings:
    settings: HttpSettings = request.app.state.settings
    return settings


def _rendered(request: Request) -> RenderedOnce:
    rendered: RenderedOnce = request.app.state.rendered
    return rendered


ReadsDep = Annotated[Reads, Depends(_reads)]
SettingsDep = Annotated[HttpSettings, Depends(_settings)]
RenderedDep = Annotated[RenderedOnce, Depends(_rendered)]


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """OpenAPI entries for the errors a route may answer with, beside the default one."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDocument"}}}
    words = {
        404: "Unknown id; `known` lists ids near it.",
        409: "The verb does not fit the advice's status or mode, or the world changed.",
        422: "A parameter is wrong; `errors` names it.",
        502: "The scheduler could not be reached.",
        503: "Not ready; `reasons` says why.",
    }
    chosen: dict[int | str, dict[str, Any]] = {
        status: {"description": words[status], "content": content} for status in statuses
    }
    chosen["default"] = {"description": "Any other error.", "content": content}
    return chosen
