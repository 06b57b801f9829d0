"""Replies: JSON without NaN, entity tags, rendering once."""

from __future__ import annotations

import math

import pytest
from pydantic import BaseModel

from api.http.answers import RenderedOnce, encode, entity_tag, matches


class Small(BaseModel):
    """A model for these tests."""

    value: float | None


def test_a_number_that_is_not_finite_becomes_null() -> None:
    """JSON has no NaN; even a model that lets one through never sends it."""
    assert encode(Small(value=math.nan)) == b'{"value":null}'
    assert encode(Small(value=math.inf)) == b'{"value":null}'


def test_equal_bodies_have_equal_tags_and_others_do_not() -> None:
    """The tag is a quoted digest of the body."""
    assert entity_tag(b"a") == entity_tag(b"a")
    assert entity_tag(b"a") != entity_tag(b"b")
    assert entity_tag(b"a").startswith('"')
    assert entity_tag(b"a").endswith('"')


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, False),
        ("", False),
        ('"x"', True),
        ('W/"x"', True),
        ('"y", "x"', True),
        ("*", True),
        ('"y"', False),
        ("x", False),
    ],
)
def test_if_none_match_is_read_as_a_list_with_weak_comparison(header: str | None, expected: bool) -> None:
    """RFC 9110: a list, weak tags match too, a star matches anything, an unquoted word nothing."""
    assert matches(header, '"x"') is expected


def test_a_thing_is_rendered_once_and_again_only_when_it_is_another_object() -> None:
    """Identity decides, so a newer forecast is never answered with older bytes."""
    kept, first, second = RenderedOnce(), object(), object()
    assert kept.get("k", first) is None
    body, tag = kept.put("k", first, Small(value=1.0))
    assert kept.get("k", first) == (body, tag)
    assert kept.get("k", second) is None


def test_the_longest_unused_rendering_goes_first() -> None:
    """Memory stays bounded however many jobs come and go."""
    kept = RenderedOnce(capacity=2)
    things = {key: object() for key in "abc"}
    for key in "ab":
        kept.put(key, things[key], Small(value=1.0))
    assert kept.get("a", things["a"]) is not None
    kept.put("c", things["c"], Small(value=1.0))
    assert kept.get("b", things["b"]) is None
    assert kept.get("a", things["a"]) is not None
