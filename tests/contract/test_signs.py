"""Every sign of sickness keeps the laws of its seam."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from forecast.predict.health.checks import sick, well, yield_checks
from forecast.predict.health.registry import BUILTIN
from forecast.predict.health.review import review

CHECKS = [(sign, name, check) for sign in BUILTIN for name, check in yield_checks(BUILTIN[sign])]


@pytest.mark.parametrize(("sign", "name", "check"), CHECKS, ids=[f"{sign}-{name}" for sign, name, _ in CHECKS])
def test_sign(sign: str, name: str, check: Callable[[], None]) -> None:
    """The law that the id names holds for the sign that it names."""
    assert sign in BUILTIN, name
    check()


@pytest.mark.parametrize("sign", list(BUILTIN))
def test_every_sign_can_find_something(sign: str) -> None:
    """A sign that is silent on the sick sample could never fail its checks."""
    assert BUILTIN[sign].find(sick()), f"{sign} finds nothing in the sick sample"


def test_nothing_is_unknown_where_all_is_read() -> None:
    """With every metric read, every sign is judged, and all scores are 1."""
    report = review(well())
    assert report.unjudged == ()
    assert report.findings == ()
    assert report.scores == ()
    assert report.failed == {}
