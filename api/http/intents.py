"""Jobs that have not run yet: what to expect of them."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from api.estimates import answer_intent
from api.http import schemas
from api.http.answers import fresh
from api.http.dependencies import errors
from api.http.problems import Problem
from telemetry.errors import ConfigError

router = APIRouter(tags=["intents"])


@router.post("/v1/intents:estimate", response_model=schemas.EstimateOut, responses=errors(413, 422))
def estimate(intent: schemas.IntentIn) -> Response:
    """FLOPs, memory, traffic, step time and power of a job from its description, with intervals and the reasoning."""
    try:
        return fresh(answer_intent(intent))
    except ConfigError as bad:
        raise Problem(422, "bad-intent", f"{bad}.") from bad
