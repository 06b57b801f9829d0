"""Cursors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.http.paging import page
from api.http.problems import Problem


def _walk(things: list[str], limit: int) -> list[str]:
    seen: list[str] = []
    cursor: str | None = None
    for _ in range(len(things) + 1):
        chosen, cursor = page(things, limit, cursor, str)
        seen += chosen
        if cursor is None:
            return seen
    raise AssertionError("the cursor never ends")


@given(st.lists(st.text(max_size=8), unique=True, max_size=30), st.integers(1, 7))
def test_pages_in_turn_give_everything_once_and_in_order(things: list[str], limit: int) -> None:
    """Whatever the ids and the limit."""
    assert _walk(things, limit) == things


def test_a_thing_that_appears_before_the_cursor_does_not_shift_the_next_page() -> None:
    """The last id rules, not the place."""
    _, cursor = page(["b", "c", "d"], 2, None, str)
    chosen, _ = page(["a", "b", "c", "d"], 2, cursor, str)
    assert list(chosen) == ["d"]


def test_when_the_last_id_is_gone_the_place_rules() -> None:
    """So a walk goes on although its last thing ended."""
    _, cursor = page(["a", "b", "c", "d"], 2, None, str)
    chosen, _ = page(["a", "x", "c", "d"], 2, cursor, str)
    assert list(chosen) == ["c", "d"]


@pytest.mark.parametrize("cursor", ["!", "", "AAAA", "W10", "eyJhIjoxfQ", "WyJhIiwxXQ", "Wy01LCJhIl0", "é", "a" * 900])
def test_a_foreign_cursor_is_a_422_that_names_the_parameter(cursor: str) -> None:
    """Text that is not base64, not JSON, or of another shape."""
    with pytest.raises(Problem, match="cursor: not a cursor") as caught:
        page(["a"], 1, cursor, str)
    assert caught.value.status == 422
