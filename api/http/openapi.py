"""The API's description: OpenAPI 3.1 with problem documents as the only error shape."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from api.http.schemas import ProblemDocument

API_VERSION = "1"
TITLE = "gpucast"
DESCRIPTION = (
    "Forecasts of GPU training jobs and fabric links, and advice, each with skill, coverage and age, or with the "
    "reason why there is none. Times are Unix seconds (`_s`) or RFC 3339 UTC (`_at`); ratios are 0..1."
)


def describe(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document; made once per app."""
    if app.openapi_schema is None:
        document = get_openapi(
            title=TITLE, version=API_VERSION, description=DESCRIPTION, routes=app.routes, openapi_version="3.1.0"
        )
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        for unused in ("HTTPValidationError", "ValidationError"):
            schemas.pop(unused, None)
        schemas["ProblemDocument"] = ProblemDocument.model_json_schema(ref_template="#/components/schemas/{model}")
        app.openapi_schema = document
    return app.openapi_schema
