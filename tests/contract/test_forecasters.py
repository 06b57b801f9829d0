"""Every built-in forecaster keeps the contract of the seam."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from models.base import Forecaster
from models.checks import Factory, contexts, yield_checks
from models.registry import BUILTIN


@cache
def _trained_gbdt() -> Forecaster:
    model = BUILTIN["gbdt"]()(trees=8, origins=6)  # type: ignore[call-arg]
    model.fit([contexts()["waves"]], 12)
    return model


def _factory(name: str) -> Factory:
    return _trained_gbdt if name == "gbdt" else lambda: BUILTIN[name]()()


def _cases() -> Iterator[tuple[str, str]]:
    for name in sorted(BUILTIN):
        for check, _ in yield_checks(_factory(name)):
            yield name, check


def _check(name: str, wanted: str) -> Callable[[Path], None]:
    return next(check for label, check in yield_checks(_factory(name)) if label == wanted)


@pytest.mark.parametrize(("name", "check"), list(_cases()))
def test_contract(name: str, check: str, tmp_path: Path) -> None:
    """Quantiles in order, finite, inside bounds; any history answered; input kept; same answer again and after loading."""
    _check(name, check)(tmp_path)


def test_the_law_of_order_can_fail(tmp_path: Path) -> None:
    """The checks find a forecaster that breaks a law."""

    class Crossing:
        name, version = "crossing", "1"

        def predict(self, context, horizon):
            return BUILTIN["persistence"]()().predict(context, horizon)[..., ::-1]

    checks = dict(yield_checks(Crossing))  # type: ignore[arg-type]
    with pytest.raises(AssertionError, match="cross"):
        checks["answers_waves"](tmp_path)


def test_registry_names_are_the_models_names() -> None:
    """A model is found under the name that its forecasts carry."""
    assert {name: load().name for name, load in BUILTIN.items() if name != "served"} == {
        name: name for name in BUILTIN if name != "served"
    }
