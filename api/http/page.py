"""The web page: one document and its static files, all from this origin."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter, FastAPI
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

STATIC = Path(__file__).resolve().parents[1] / "static"
"""Lies inside the package, in a checkout and in a wheel alike."""
_HEADERS = {"Cache-Control": "no-cache"}


class _RevalidatedFiles(StaticFiles):
    """Static files that a browser asks about again each time, so that an upgrade shows at once."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """One file."""
        response = await super().get_response(path, scope)
        response.headers.setdefault("Cache-Control", "no-cache")
        return response


def install_page(app: FastAPI) -> None:
    """Serve the page at ``/`` and its files under ``/static``."""
    router = APIRouter(include_in_schema=False)

    @router.get("/")
    async def index() -> Response:
        """The page."""
        return FileResponse(STATIC / "index.html", media_type="text/html; charset=utf-8", headers=_HEADERS)

    app.include_router(router)
    app.mount("/static", _RevalidatedFiles(directory=STATIC), name="static")
