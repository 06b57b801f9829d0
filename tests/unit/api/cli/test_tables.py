"""Text for people."""

from __future__ import annotations

import sys

import pytest

from api.cli.tables import colour


def test_colour_only_where_a_terminal_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plain in a pipe, and plain with NO_COLOR."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert colour("up", "green") == "\x1b[32mup\x1b[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert colour("up", "green") == "up"
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False, raising=False)
    assert colour("up", "green") == "up"
