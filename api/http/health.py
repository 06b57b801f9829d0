"""Probes and the state of the sources."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from api.http import schemas
from api.http.answers import fresh
from api.http.dependencies import ReadsDep, SettingsDep, errors
from api.http.problems import Problem
from api.http.render.base import rfc3339
from api.http.render.health import devices, target

router = APIRouter(tags=["health"])


@router.get("/-/healthy", response_model=schemas.ProbeOut, responses=errors())
@router.get("/livez", response_model=schemas.ProbeOut, responses=errors(), name="livez")
async def healthy() -> Response:
    """200 while the process lives."""
    return fresh(schemas.ProbeOut(status="ok"))


@router.get("/-/ready", response_model=schemas.ProbeOut, responses=errors(503))
@router.get("/readyz", response_model=schemas.ProbeOut, responses=errors(503), name="readyz")
async def ready(reads: ReadsDep) -> Response:
    """200 once samples arrive and the store can be written, else 503 with the reasons."""
    health = reads.health()
    if health.ready:
        return fresh(schemas.ProbeOut(status="ready"))
    detail = "; ".join(health.reasons) or "The service has just started."
    raise Problem(503, "not-ready", detail, headers={"Retry-After": "1"}, reasons=list(health.reasons))


router.add_api_route("/-/healthy", healthy, methods=["HEAD"], include_in_schema=False)
router.add_api_route("/livez", healthy, methods=["HEAD"], include_in_schema=False)
router.add_api_route("/-/ready", ready, methods=["HEAD"], include_in_schema=False)
router.add_api_route("/readyz", ready, methods=["HEAD"], include_in_schema=False)


@router.get("/v1/health", response_model=schemas.HealthOut, responses=errors())
async def health(reads: ReadsDep, settings: SettingsDep) -> Response:
    """Readiness, sources with their freshness and findings, and how far the service may act."""
    state = reads.health()
    now_s = reads.now()
    return fresh(
        schemas.HealthOut(
            ready=state.ready,
            reasons=list(state.reasons),
            now_at=rfc3339(now_s),
            now_s=now_s,
            started_at=rfc3339(state.started_s),
            started_s=state.started_s,
            version=settings.build_version,
            mode=str(settings.mode),
            backend=settings.backend,
            sources_up=sum(1 for one in state.targets if one.up),
            sources_total=len(state.targets),
            targets=[target(one) for one in state.targets],
            missing_fields=dict(state.missing_fields),
            devices=devices(state.devices),
        )
    )
