"""Links: what they carry, and where they will congest."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from api.http import render, schemas
from api.http.answers import answer, tagged
from api.http.dependencies import MaxPoints, ReadsDep, RenderedDep, WindowSeconds, errors
from api.http.paging import Cursor, Limit, page
from api.http.problems import unknown
from api.reads import Reads
from forecast.predict.types import Absence, LinkForecast, Why

router = APIRouter(tags=["links"])
LinkPath = Annotated[str, Path(max_length=512, description="`device:port`, such as `leaf-1:swp49`.")]


def _link(reads: Reads, text: str) -> LinkForecast:
    # By text: the tier is part of a LinkId, but not of its text form.
    links = reads.links()
    found = next((link.link for link in links if str(link.link) == text), None)
    newest = None if found is None else reads.link(found)
    if newest is None:
        raise unknown("link", text, (str(link.link) for link in links))
    return newest


@router.get("/v1/links", response_model=schemas.LinkList, responses=errors(422))
async def list_links(request: Request, reads: ReadsDep, limit: Limit = 100, cursor: Cursor = None) -> Response:
    """Every link, highest chance of congestion first."""
    links = reads.links()
    chosen, following = page(links, limit, cursor, lambda link: str(link.link))
    items = [render.link_summary(link) for link in chosen]
    return answer(request, schemas.LinkList(items=items, next_cursor=following, total=len(links)))


@router.get("/v1/links/{link_id:path}/congestion", response_model=schemas.LinkCongestion, responses=errors(404, 422))
async def link_congestion(request: Request, link_id: LinkPath, reads: ReadsDep, rendered: RenderedDep) -> Response:
    """Chance to pass the threshold, expected onset, causes, and the quantile path of the use."""
    found = _link(reads, link_id)
    key = f"link {found.link}"
    body, tag = rendered.get(key, found) or rendered.put(key, found, render.link_congestion(found))
    return tagged(request, body, tag)


@router.get(
    "/v1/links/{link_id:path}/history",
    response_model=schemas.HistoryOut | schemas.Absent,
    responses=errors(404, 422),
)
async def link_history(
    request: Request,
    link_id: LinkPath,
    reads: ReadsDep,
    window_s: WindowSeconds = 60.0,
    max_points: MaxPoints = 5000,
) -> Response:
    """Actual use of a link, 0..1, on a grid."""
    found = _link(reads, link_id)
    values = reads.link_history(found.link, window_s)
    if values is None:
        reason = f"{found.link} has no measured use in the last {window_s:g} s"
        return answer(request, render.absent(Absence(Why.NO_DATA, reason)))
    return answer(request, render.history(str(found.link), values, max_points))


@router.get("/v1/links/{link_id:path}", response_model=schemas.LinkSummary, responses=errors(404, 422))
async def link(request: Request, link_id: LinkPath, reads: ReadsDep) -> Response:
    """One link in short."""
    return answer(request, render.link_summary(_link(reads, link_id)))
