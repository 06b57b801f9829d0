"""What another package brings by entry point is loaded, used, listed; what fails is named and left out."""

from __future__ import annotations

import asyncio
import importlib
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from api.plugins import find_plugins
from api.settings import load_settings
from api.wiring import build
from collectors.registry import collector_names, load_collector
from telemetry.errors import ConfigError
from tests.kit.http_client import get

MODULE = """
from forecast.plugins import Advice, Plan, Receipt


def always(snapshot, forecasts, limits):
    reason = "the rule of another package says so"
    at_s = snapshot.at_s
    return [Advice("always-1", "tidy", None, None, {"speed": 1.0}, reason, {}, None, at_s, at_s + 60.0)]


def broken(snapshot, forecasts, limits):
    raise RuntimeError("boom")


def strange(snapshot, forecasts, limits):
    return ["not advice"]


class Recorder:
    name = "recorder"

    def __init__(self, snapshot, clock):
        self._snapshot, self._clock = snapshot, clock

    def snapshot(self):
        return self._snapshot()

    def plan(self, advice, snapshot):
        return Plan(advice.id, self.name, ("written down",), snapshot.at_s, advice.expires_at_s)

    def apply(self, plan):
        return Receipt(plan.advice_id, True, "written down", self._clock.now())


class Reader:
    pass


def no_backend(snapshot, clock):
    return object()
"""
ENTRY_POINTS = """
[gpucast.rules]
always = their_plugins:always
broken = their_plugins:broken
strange = their_plugins:strange
leaves = their_exit:rule
shift = their_plugins:always

[gpucast.backends]
recorder = their_plugins:Recorder
gone = their_absent_module:Backend
nothing = their_plugins:no_backend

[gpucast.collectors]
reader = their_plugins:Reader

[gpucast.models]
odd = their_plugins:absent_name
"""
FAILED = {"leaves": "SystemExit", "shift": "is taken", "gone": "their_absent_module", "odd": "absent_name"}


@pytest.fixture
def theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A distribution of another author, installed as far as Python can tell."""
    folder = tmp_path / "site"
    info = folder / "their_plugins-1.2.dist-info"
    info.mkdir(parents=True)
    (folder / "their_plugins.py").write_text(MODULE)
    (folder / "their_exit.py").write_text("import sys\nsys.exit(3)\n")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-plugins\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(folder)
    importlib.invalidate_caches()
    yield folder
    for name in ("their_plugins", "their_exit"):
        sys.modules.pop(name, None)


def test_each_seam_is_loaded_and_what_fails_is_named_and_left_out(
    theirs: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A failing import, a module that exits, an absent name and a name that is taken stop nobody else."""
    with caplog.at_level(logging.WARNING):
        found = find_plugins()
    mine = {plugin.name: plugin for plugin in found.found if plugin.distribution == "their-plugins"}
    assert {name for name, plugin in mine.items() if plugin.error} == set(FAILED)
    for name, why in FAILED.items():
        assert why in mine[name].error
        assert mine[name].loaded is None
        assert any(name in record.getMessage() for record in caplog.records)
    assert {"shift", "hold", "always"} <= set(found.rules())
    assert found.rules()["shift"].__module__ == "forecast.advisor.rules.shift"
    assert {"dry_run", "recorder"} <= set(found.backends())
    assert collector_names()["reader"] == "their_plugins:Reader"
    assert load_collector("reader").__name__ == "Reader"
    assert {plugin.version for plugin in mine.values()} == {"1.2"}


def test_the_service_asks_their_rules_and_acts_through_their_backend(theirs: Path, tmp_path: Path) -> None:
    """Their advice lies on the desk with their plan, is carried out when its mode is auto; failing rules are counted."""
    settings = load_settings(
        environment={},
        port=0,
        store__folder=tmp_path / "store",
        advice__backend="recorder",
        advice__modes={"tidy": "auto"},
    )
    built = build(settings)

    async def one_round() -> None:
        try:
            await built.service.forecast_once()
        finally:
            built.service.end_worker()

    asyncio.run(one_round())
    (record,) = built.service.advice()
    assert (record.advice.id, record.status) == ("always-1", "applied")
    assert record.receipt is not None
    assert record.receipt.detail == "written down"
    counters = built.service.health().counters
    assert counters['gpucast_rule_errors_total{rule="broken"}'] == 1
    assert counters['gpucast_rule_errors_total{rule="strange"}'] == 1
    shown = get(built.app, "/v1/plugins").json()["items"]
    assert {one["name"] for one in shown if one["seam"] == "rules"} >= {"always", "broken", "strange", "leaves"}
    assert {one["name"] for one in shown if not one["loaded"]} == set(FAILED)
    assert get(built.app, "/v1/health").json()["backend"] == "recorder"


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("gone", "'gone' cannot be loaded: ModuleNotFoundError"),
        ("nothing", "'nothing' gives object, which is no backend"),
        ("nobody", "'nobody' is not known. Known are dry_run, .*recorder, simulator"),
    ],
)
def test_a_backend_that_cannot_be_had_is_refused_at_the_start(
    theirs: Path, tmp_path: Path, name: str, sentence: str
) -> None:
    """The sentence names the setting, the backend and why."""
    settings = load_settings(environment={}, store__folder=tmp_path / "store", advice__backend=name)
    with pytest.raises(ConfigError, match=f"setting advice.backend: {sentence}"):
        build(settings)
