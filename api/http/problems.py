"""Errors as RFC 9457 problem documents, for every status and every route."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from api.http.headers import SECURITY_HEADERS
from telemetry.errors import (
    AdviceError,
    BackendConflict,
    BackendRefused,
    BackendUnreachable,
    GpucastError,
    StoreError,
    StoreFull,
)

MEDIA_TYPE = "application/problem+json"
_log = logging.getLogger("gpucast.http")

_STATUS_OF: tuple[tuple[type[GpucastError], int, str], ...] = (
    (BackendConflict, 409, "backend-conflict"),
    (BackendRefused, 409, "backend-refused"),
    (BackendUnreachable, 502, "backend-unreachable"),
    (AdviceError, 409, "advice-conflict"),
    (StoreFull, 507, "store-full"),
    (StoreError, 503, "store-unavailable"),
)


class Problem(Exception):
    """An error with everything a problem document needs.

    Args:
        status: HTTP status.
        slug: last part of the ``type`` URN, stable for programs.
        detail: a sentence that names the thing at fault and the mend.
        headers: extra reply headers, such as ``Allow``.
        extra: extension members, such as ``known``.
    """

    def __init__(
        self, status: int, slug: str, detail: str, *, headers: dict[str, str] | None = None, **extra: Any
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.slug = slug
        self.detail = detail
        self.headers = headers or {}
        self.extra = extra


def unknown(kind: str, text: str, known: Iterable[str]) -> Problem:
    """A 404 for an id nobody knows, with the known ids nearest to it (else the first few)."""
    ids = list(known)
    near = difflib.get_close_matches(text, ids, n=5, cutoff=0.4) or ids[:5]
    hint = f"Known and near: {', '.join(near)}" if near else f"No {kind} is known yet"
    return Problem(404, f"unknown-{kind}", f"There is no {kind} {text!r}. {hint}.", known=near)


def problem_response(problem: Problem, path: str) -> Response:
    """The reply for a problem; ``path`` becomes ``instance``."""
    body = {
        "type": f"urn:gpucast:problem:{problem.slug}",
        "title": HTTPStatus(problem.status).phrase,
        "status": problem.status,
        "detail": problem.detail,
        "instance": path,
        **problem.extra,
    }
    headers = {**SECURITY_HEADERS, "Cache-Control": "no-store", **problem.headers}
    return Response(orjson.dumps(body, default=str), problem.status, headers, media_type=MEDIA_TYPE)


def problem_of(error: Exception) -> Problem:
    """Translate any error into a problem; unforeseen ones become a 500 that tells no internals."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, RequestValidationError):
        return _validation(error)
    if isinstance(error, HTTPException):
        return _http(error)
    for kind, status, slug in _STATUS_OF:
        if isinstance(error, kind):
            return Problem(status, slug, str(error))
    if isinstance(error, GpucastError):
        return Problem(500, "service-error", str(error))
    return Problem(500, "internal-error", "The service failed while answering; its log names the fault.")


def _http(error: HTTPException) -> Problem:
    slugs = {404: "no-such-route", 405: "method-not-allowed", 413: "body-too-large"}
    details = {
        404: "Nothing is served here. The routes are listed in /openapi.json.",
        405: "This route exists, but not with this method; Allow names those it has.",
    }
    detail = details.get(error.status_code, str(error.detail))
    headers = dict(error.headers or {})
    return Problem(error.status_code, slugs.get(error.status_code, "http-error"), detail, headers=headers)


def _validation(error: RequestValidationError) -> Problem:
    # The offending input is not echoed: it may be large or hostile.
    faults = [
        {"where": ".".join(str(part) for part in fault["loc"]), "message": str(fault["msg"])}
        for fault in error.errors()
    ]
    detail = "; ".join(f"{fault['where']}: {fault['message']}" for fault in faults)
    return Problem(422, "bad-parameter", detail or "A parameter is wrong.", errors=faults)


def install_problem_handlers(app: FastAPI) -> None:
    """Make every error of the app answer as problem+json."""

    async def handle(request: Request, error: Exception) -> Response:
        problem = problem_of(error)
        if problem.status >= 500 and not isinstance(error, Problem):
            # A probe that is told "not ready" is no fault; an expected error needs no traceback.
            trace = None if isinstance(error, GpucastError) else error
            _log.error("%s %s failed: %s", request.method, request.url.path, error, exc_info=trace)
        return problem_response(problem, request.url.path)

    for kind in (Problem, RequestValidationError, HTTPException, GpucastError, Exception):
        app.add_exception_handler(kind, handle)
