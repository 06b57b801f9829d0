"""Progress that a job reports itself."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from api.http import schemas
from api.http.answers import fresh
from api.http.dependencies import PushDep, errors
from api.http.problems import Problem
from api.http.write import refusal
from api.intake import IntakeBusy
from api.push import STEPS_PATH
from telemetry.errors import SchemaError, StoreError

router = APIRouter(tags=["telemetry"])
_ONE = schemas.StepIn.model_json_schema()


@router.post(
    STEPS_PATH,
    response_model=schemas.StepsOut,
    responses=errors(413, 422, 429, 503, 507),
    openapi_extra={
        "requestBody": {
            "required": True,
            "description": "One report, a list of them, or one on each line.",
            "content": {
                "application/json": {"schema": {"anyOf": [_ONE, {"type": "array", "items": _ONE}]}},
                "application/x-ndjson": {"schema": {"type": "string"}},
            },
        }
    },
)
async def steps(request: Request, push: PushDep) -> Response:
    """Steps, losses and checkpoints as a job sees them; answers once they are on disk. Sending again does no harm."""
    try:
        with push.admitted():
            taken = await push.steps(await request.body())
    except SchemaError as bad:
        raise Problem(422, "bad-steps", f"{bad}.") from bad
    except IntakeBusy as busy:
        raise Problem(429, "busy", f"{busy}.", headers={"Retry-After": "1"}) from busy
    except StoreError as refused:
        raise refusal(refused) from refused
    if taken.rejected and not taken.accepted and not taken.duplicates:
        raise Problem(422, "bad-steps", f"No report can be used: {'; '.join(taken.faults)}.", rejected=taken.rejected)
    return fresh(
        schemas.StepsOut(
            accepted=taken.accepted,
            duplicates=taken.duplicates,
            other_ranks=taken.other_ranks,
            rejected=taken.rejected,
            faults=list(taken.faults),
        )
    )
