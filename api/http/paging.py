"""Cursors on lists."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

import orjson
from fastapi import Query

from api.http.problems import Problem

T = TypeVar("T")
Limit = Annotated[int, Query(ge=1, le=1000, description="Most items in the reply.")]
Cursor = Annotated[
    str | None,
    Query(max_length=1024, description="``next_cursor`` of the page before; opaque. Leave out for the first page."),
]


def page(
    things: Sequence[T], limit: int, cursor: str | None, id_of: Callable[[T], str]
) -> tuple[Sequence[T], str | None]:
    """One page and the cursor of the next, None after the last.

    The cursor holds the last id and its place. The id rules, so that things that appear or go between two calls do
    not shift the page; the place counts only when that id is gone.

    Raises:
        Problem: 422, the cursor is not one of ours.
    """
    start = 0 if cursor is None else _start(things, cursor, id_of)
    chosen = things[start : start + limit]
    end = start + len(chosen)
    following = _cursor(end, id_of(things[end - 1])) if chosen and end < len(things) else None
    return chosen, following


def _cursor(place: int, last_id: str) -> str:
    return urlsafe_b64encode(orjson.dumps([place, last_id])).rstrip(b"=").decode()


def _start(things: Sequence[T], cursor: str, id_of: Callable[[T], str]) -> int:
    try:
        place, last_id = orjson.loads(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        if not isinstance(place, int) or not isinstance(last_id, str) or place < 0:
            raise TypeError
    except (ValueError, TypeError) as error:
        detail = "cursor: not a cursor of this service. Leave it out to start at the first page."
        raise Problem(422, "bad-parameter", detail) from error
    found = next((i + 1 for i, thing in enumerate(things) if id_of(thing) == last_id), None)
    return min(place, len(things)) if found is None else found
