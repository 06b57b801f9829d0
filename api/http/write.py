"""Remote write: samples that a Prometheus, an agent or a collector sends."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from api.http.answers import NEVER_STORE
from api.http.dependencies import PushDep, errors
from api.http.problems import Problem
from api.intake import IntakeBusy
from api.push import WRITE_PATH
from collectors.remote_write.label_sets import MuchIsNew
from collectors.remote_write.receiver import Message, Received
from collectors.remote_write.snappy import TooLarge
from telemetry.errors import SchemaError, StoreError

router = APIRouter(tags=["telemetry"])
_PROTOBUF = "application/x-protobuf"
_BUSY_S = "1"
_REFUSED_S = "5"


def message_of(content_type: str, content_encoding: str) -> Message:
    """Which message the headers announce.

    Raises:
        Problem: 415, for another encoding than snappy, another media type, or a message that is not known.
    """
    if content_encoding.strip().lower() != "snappy":
        raise Problem(
            415,
            "unsupported-write",
            f"The Content-Encoding is {content_encoding[:40]!r}; remote write is packed by snappy in its block format.",
        )
    kind, *parameters = [part.strip() for part in content_type.split(";")]
    proto = next((text[6:].strip('"') for text in parameters if text.lower().startswith("proto=")), Message.V1.value)
    known = {message.value: message for message in Message}
    if kind.lower() != _PROTOBUF or proto not in known:
        raise Problem(
            415,
            "unsupported-write",
            f"The Content-Type is {content_type[:80]!r}; read are {_PROTOBUF} with proto={' or proto='.join(known)}.",
        )
    return known[proto]


@router.post(
    WRITE_PATH,
    status_code=204,
    response_class=Response,
    responses={
        **errors(400, 413, 415, 503, 507),
        204: {
            "description": "Every sample is on disk. To 2.0 the headers X-Prometheus-Remote-Write-*-Written say how many."
        },
    },
    openapi_extra={
        "requestBody": {
            "required": True,
            "description": "prometheus.WriteRequest or io.prometheus.write.v2.Request, packed by snappy (block format).",
            "content": {_PROTOBUF: {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
async def write(request: Request, push: PushDep) -> Response:
    """Prometheus remote write 1.0 and 2.0; answers once the samples are on disk. Sending again does no harm."""
    message = message_of(request.headers.get("content-type", ""), request.headers.get("content-encoding", ""))
    try:
        with push.admitted():
            received = await push.write(await request.body(), message)
    except TooLarge as large:
        raise Problem(413, "body-too-large", str(large), headers=_written(message, None)) from large
    except MuchIsNew as much:
        raise _busy(much, message) from much
    except SchemaError as bad:
        raise Problem(400, "bad-write", f"{bad}.", headers=_written(message, None)) from bad
    except IntakeBusy as busy:
        raise _busy(busy, message) from busy
    except StoreError as refused:
        raise refusal(refused, _written(message, None)) from refused
    headers = _written(message, received)
    if received.invalid or received.over_limit:
        raise _partly(received, headers)
    return Response(status_code=204, headers={"Cache-Control": NEVER_STORE, **headers})


def _busy(why: Exception, message: Message) -> Problem:
    """503: Prometheus drops what is answered 429, unless ``retry_on_http_429`` is set (it is off by default)."""
    return Problem(503, "busy", f"{why}.", headers={"Retry-After": _BUSY_S, **_written(message, None)})


def refusal(error: StoreError, headers: dict[str, str] | None = None) -> Problem:
    """The problem for samples that the store did not take: the sender keeps them and comes again."""
    from api.http.problems import problem_of

    found = problem_of(error)
    return Problem(found.status, found.slug, found.detail, headers={"Retry-After": _REFUSED_S, **(headers or {})})


def _written(message: Message, received: Received | None) -> dict[str, str]:
    """How much was written, which 2.0 asks for with every answer."""
    if message is Message.V1:
        return {}
    name = "X-Prometheus-Remote-Write-{}-Written"
    taken = 0 if received is None else received.taken
    return {name.format("Samples"): str(taken), name.format("Histograms"): "0", name.format("Exemplars"): "0"}


def _partly(received: Received, headers: dict[str, str]) -> Problem:
    """400, so that nobody sends the same again; the good samples are kept."""
    refused = received.invalid + received.over_limit
    detail = (
        f"{refused} of {received.samples} samples are refused, {received.taken} were written: "
        f"{'; '.join(received.faults)}."
    )
    if received.over_limit:
        detail += " Raise store.max_series, or leave series out with write_relabel_configs."
    return Problem(
        400,
        "invalid-samples" if received.invalid else "series-limit",
        detail,
        headers=headers,
        samples=received.samples,
        written=received.taken,
        invalid=received.invalid,
        unknown=received.unknown,
        over_limit=received.over_limit,
    )
