"""What other packages bring."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from api.http import schemas
from api.http.answers import answer
from api.http.dependencies import SettingsDep, errors

router = APIRouter(tags=["health"])


@router.get("/v1/plugins", response_model=schemas.PluginList, responses=errors())
async def plugins(request: Request, settings: SettingsDep) -> Response:
    """Plug-ins found at the start, also those that failed to load."""
    items = [
        schemas.PluginOut(
            seam=plugin.group.removeprefix("gpucast."),
            name=plugin.name,
            module=plugin.module,
            distribution=plugin.distribution,
            version=plugin.version,
            loaded=not plugin.error,
            error=plugin.error,
            in_use=(plugin.group, plugin.name) in settings.plugins_in_use,
        )
        for plugin in settings.plugins
    ]
    return answer(request, schemas.PluginList(items=items, next_cursor=None, total=len(items)))
