"""What is built and installed is what the repository says."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import HeaderParser
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
ROOMS = ("telemetry", "collectors", "features", "models", "forecast", "api")
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def _room_files() -> set[str]:
    """Every file of the rooms as it lies in the checkout, byte code left out."""
    return {
        path.relative_to(REPOSITORY).as_posix()
        for room in ROOMS
        for path in (REPOSITORY / room).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc"
    }


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source distribution and the wheel that was built from it."""
    pytest.importorskip("hatchling", reason="the build backend is not installed")
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(REPOSITORY)],
        check=True,
        capture_output=True,
        timeout=300,
    )
    return folder


def _wheel(folder: Path) -> zipfile.ZipFile:
    return zipfile.ZipFile(next(folder.glob("*.whl")))


def test_the_wheel_holds_the_rooms_and_nothing_else(built: Path) -> None:
    """Built through the source distribution, the wheel has every file of every room, static files too, and no tests."""
    with _wheel(built) as wheel:
        held = {name for name in wheel.namelist() if ".dist-info/" not in name}

    assert _room_files() == held
    assert {f"{room}/py.typed" for room in ROOMS} <= held


def test_the_wheel_starts_the_command_and_carries_the_licence(built: Path) -> None:
    """``gpucast`` is its one command; name, version and licence are those of pyproject.toml."""
    with _wheel(built) as wheel:
        info = f"gpucast-{PROJECT['version']}.dist-info"
        headers = HeaderParser().parsestr(wheel.read(f"{info}/METADATA").decode())
        entry_points = wheel.read(f"{info}/entry_points.txt").decode()
        licence = wheel.read(f"{info}/licenses/LICENSE").decode()

    assert ("gpucast", PROJECT["version"], "Apache-2.0") == (
        headers["Name"],
        headers["Version"],
        headers["License-Expression"],
    )
    assert entry_points.split("\n")[:2] == ["[console_scripts]", "gpucast = api.cli:main"]
    assert "Apache License" in licence


def test_the_source_distribution_can_be_tested_and_holds_no_data(built: Path) -> None:
    """It has what a packager needs (tests, docs, lock, licence) and no store, environment or cache."""
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}

    assert {"pyproject.toml", "LICENSE", "README.md", "CHANGELOG.md", "requirements.lock", "Makefile"} <= names
    assert "tests/conftest.py" in names
    tops = {name.split("/")[0] for name in names}
    assert not tops & {".venv", ".git", "data", "dist", "shared"}
    assert not [name for name in names if name.endswith((".duckdb", ".duckdb.wal", ".parquet", ".pyc"))]


def test_no_other_distribution_claims_our_names() -> None:
    """No installed distribution but gpucast ships a top-level package of a room's name."""
    claims = packages_distributions()

    for room in ROOMS:
        assert {"gpucast"} >= set(claims.get(room, [])), f"{room} is also claimed by {claims[room]}"


def test_the_changelog_knows_the_version() -> None:
    """The newest heading of CHANGELOG.md is the version that is built, or what is unreleased."""
    changelog = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")

    assert f"## [{PROJECT['version']}]" in changelog
