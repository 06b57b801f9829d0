"""What every route may ask for: the service, the settings, documented errors."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Query, Request

from api.http.answers import RenderedOnce
from api.http.problems import MEDIA_TYPE, Problem
from api.http.settings import HttpSettings
from api.push import Push
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


def _push(request: Request) -> Push:
    push: Push | None = request.app.state.push
    if push is None:
        raise Problem(503, "not-ready", "This service takes in nothing that is pushed.")
    return push


ReadsDep = Annotated[Reads, Depends(_reads)]
SettingsDep = Annotated[HttpSettings, Depends(_settings)]
PushDep = Annotated[Push, Depends(_push)]
RenderedDep = Annotated[RenderedOnce, Depends(_rendered)]


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """OpenAPI entries for the errors a route may answer with, beside the default one."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDocument"}}}
    words = {
        400: "The body is no such message, or some samples in it are refused; `detail` names them.",
        404: "Unknown id; `known` lists ids near it.",
        409: "The verb does not fit the advice's status or mode, or the world changed.",
        413: "The body is larger than this service reads.",
        415: "Another media type or encoding than this route reads.",
        422: "A parameter is wrong; `errors` names it.",
        429: "Too much waits already; `Retry-After` says when to send again.",
        502: "The scheduler could not be reached.",
        503: "Not ready; `reasons` says why.",
        507: "The disk of the sample store is full.",
    }
    chosen: dict[int | str, dict[str, Any]] = {
        status: {"description": words[status], "content": content} for status in statuses
    }
    chosen["default"] = {"description": "Any other error.", "content": content}
    return chosen
