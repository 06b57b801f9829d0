"""Docs that lag behind the code fail here: settings, commands, routes, metrics, links, decisions."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, cast

import pytest

if TYPE_CHECKING:
    from api.reads import Reads

REPOSITORY = Path(__file__).resolve().parents[2]
ROOMS = ("telemetry", "collectors", "features", "models", "forecast", "api")
OWN_METRIC = re.compile(r"[\"'](gpucast_[a-z0-9_]+)")
LINK = re.compile(r"\]\((?!https?://|mailto:|#)([^)#\s]+)(?:#[^)]*)?\)")


def _text(path: str) -> str:
    return (REPOSITORY / path).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def document() -> ModuleType:
    """scripts/document.py as a module."""
    spec = importlib.util.spec_from_file_location("document", REPOSITORY / "scripts" / "document.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_setting_and_command_is_documented(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables in docs/settings.md and docs/cli.md are what scripts/document.py writes from the code."""
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)

    result = subprocess.run(
        [sys.executable, "scripts/document.py", "--check"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_every_setting_says_what_it_means(document: ModuleType) -> None:
    """No setting has an empty meaning."""
    rows = [row.split(" | ") for row in document.settings_table().splitlines()[2:]]

    assert len(rows) > 10
    assert [row[0] for row in rows if not row[-1].strip(" |")] == []


def test_the_example_settings_are_accepted() -> None:
    """examples/gpucast.toml loads, and so does what it shows commented out."""
    from api.settings import load_settings

    path = REPOSITORY / "examples" / "gpucast.toml"
    load_settings(path, environment={})
    shown = re.sub(r"^# (?=[a-z_]+ = |\[)", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    tomllib.loads(shown)


def test_every_example_setting_exists(tmp_path: Path) -> None:
    """Every key of the example, taken out of its comment, is a setting."""
    from api.settings import load_settings

    text = (REPOSITORY / "examples" / "gpucast.toml").read_text(encoding="utf-8")
    whole = tmp_path / "gpucast.toml"
    whole.write_text(re.sub(r"^# (?=[a-z_]+ = |\[)", "", text, flags=re.MULTILINE), encoding="utf-8")

    load_settings(whole, environment={})


def test_every_route_is_documented() -> None:
    """Every path and method of the HTTP API stands in docs/api.md."""
    from api.http.app import create_app

    text = _text("docs/api.md")
    # Nothing is asked of the service: the description is made from the routes alone.
    paths = create_app(cast("Reads", object())).openapi()["paths"]
    routes = sorted(f"{method.upper()} {path}" for path, methods in paths.items() for method in methods)

    assert len(routes) >= 8
    assert [route for route in routes if f"`{route}`" not in text] == []


def test_every_own_metric_is_documented() -> None:
    """Every name that starts with gpucast_ in the code stands in docs/metrics.md."""
    named = {
        name
        for room in ROOMS
        for path in (REPOSITORY / room).rglob("*.py")
        for name in OWN_METRIC.findall(path.read_text(encoding="utf-8"))
        if not name.endswith("_")
    }

    text = _text("docs/metrics.md")
    assert [name for name in sorted(named) if f"`{name}" not in text] == []


def test_the_readme_names_every_command() -> None:
    """README.md shows each command once, so that nobody has to guess."""
    from api.cli import COMMANDS

    text = _text("README.md")
    assert [name for name in COMMANDS if f"gpucast {name}" not in text and f"make {name}" not in text] == []


def test_relative_links_lead_somewhere() -> None:
    """A link from one Markdown file to another file of the repository has a target."""
    files = [REPOSITORY / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    files += sorted((REPOSITORY / "docs").rglob("*.md"))
    broken = [
        f"{path.relative_to(REPOSITORY)}: {target}"
        for path in files
        for target in LINK.findall(path.read_text(encoding="utf-8"))
        if not (path.parent / target).exists()
    ]

    assert broken == []


def test_decisions_are_numbered_and_say_why() -> None:
    """Each decision has its own number, a context, a decision and what follows."""
    files = sorted((REPOSITORY / "docs" / "decisions").glob("*.md"))
    numbers = [path.name[:4] for path in files]

    assert numbers == [f"{index + 1:04d}" for index in range(len(files))]
    for path in files:
        headings = set(re.findall(r"^## (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE))
        assert {"Context", "Decision", "What follows"} <= headings, path.name
