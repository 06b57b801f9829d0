"""Replies: JSON by orjson, entity tags, cache rules."""

from __future__ import annotations

from hashlib import blake2b

import orjson
from fastapi import Request
from pydantic import BaseModel
from starlette.responses import Response

REVALIDATE = "private, no-cache"
"""Keep a copy, but ask each time whether it is still right."""
NEVER_STORE = "no-store"


def encode(model: BaseModel) -> bytes:
    """A model as JSON bytes; a number that is not finite becomes null."""
    return orjson.dumps(model.model_dump())


def entity_tag(body: bytes) -> str:
    """A strong entity tag of a body."""
    return f'"{blake2b(body, digest_size=12).hexdigest()}"'


def matches(if_none_match: str | None, tag: str) -> bool:
    """Whether ``If-None-Match`` lists the tag, by the weak comparison that RFC 9110 asks for."""
    if not if_none_match:
        return False
    listed = {part.strip().removeprefix("W/") for part in if_none_match.split(",")}
    return "*" in listed or tag in listed


def tagged(request: Request, body: bytes, tag: str | None = None) -> Response:
    """The body with its entity tag, or 304 when the caller already has it."""
    tag = tag or entity_tag(body)
    headers = {"ETag": tag, "Cache-Control": REVALIDATE}
    if matches(request.headers.get("if-none-match"), tag):
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers, media_type="application/json")


def answer(request: Request, model: BaseModel) -> Response:
    """A model as a tagged JSON reply."""
    return tagged(request, encode(model))


def fresh(model: BaseModel, status: int = 200) -> Response:
    """A model as a JSON reply that nobody may keep."""
    return Response(encode(model), status, {"Cache-Control": NEVER_STORE}, media_type="application/json")


class RenderedOnce:
    """Bytes and tag of the newest version of each thing, so that many callers cost one rendering.

    A thing is recognised by identity: the service hands out the same object until it makes a newer one.

    Args:
        capacity: most things kept; the longest unused goes first.
    """

    def __init__(self, capacity: int = 2048) -> None:
        self._capacity = capacity
        self._kept: dict[str, tuple[object, bytes, str]] = {}

    def get(self, key: str, thing: object) -> tuple[bytes, str] | None:
        """Bytes and tag rendered for this very object, None when there are none."""
        kept = self._kept.pop(key, None)
        if kept is None or kept[0] is not thing:
            return None
        self._kept[key] = kept
        return kept[1], kept[2]

    def put(self, key: str, thing: object, model: BaseModel) -> tuple[bytes, str]:
        """Render and keep."""
        body = encode(model)
        tag = entity_tag(body)
        self._kept[key] = (thing, body, tag)
        while len(self._kept) > self._capacity:
            del self._kept[next(iter(self._kept))]
        return body, tag
