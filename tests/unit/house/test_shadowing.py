"""Foreign folders that carry a room's name are refused in one sentence."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from api import ROOMS

REPOSITORY = Path(__file__).resolve().parents[3]


def _run(code: str, *, cwd: Path, path: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=cwd,
        env={**environment, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("room", ROOMS)
def test_a_foreign_package_before_ours_is_named_with_the_mend(tmp_path: Path, room: str) -> None:
    """``PYTHONPATH=.`` in a folder that has its own package of a room's name gives one sentence, not a riddle."""
    (tmp_path / room).mkdir()
    (tmp_path / room / "__init__.py").write_text("", encoding="utf-8")

    result = _run("import api", cwd=tmp_path, path=f".:{REPOSITORY}")

    assert result.returncode == 1
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: ")
    assert str(tmp_path / room) in last
    assert str(REPOSITORY / room) in last
    assert "-I -m api" in last
    assert "PYTHONPATH" in last


def test_a_foreign_module_file_is_refused_too(tmp_path: Path) -> None:
    """A file ``models.py`` shadows the room as a folder does."""
    (tmp_path / "models.py").write_text("", encoding="utf-8")

    result = _run("import api", cwd=tmp_path, path=f".:{REPOSITORY}")

    assert result.returncode == 1
    assert str(tmp_path / "models.py") in result.stderr.strip().splitlines()[-1]


def test_a_folder_that_is_no_package_does_no_harm(tmp_path: Path) -> None:
    """A folder ``models`` with weights in it, and no ``__init__.py``, never wins against ours."""
    (tmp_path / "models").mkdir()

    result = _run("import api, models; print(models.__file__)", cwd=tmp_path, path=f".:{REPOSITORY}")

    assert (result.returncode, result.stderr) == (0, "")
    assert str(REPOSITORY / "models" / "__init__.py") == result.stdout.strip()


def test_a_missing_room_is_named(tmp_path: Path) -> None:
    """An installation that lost a room says which."""
    code = (
        "import importlib.util as util\n"
        "true_find = util.find_spec\n"
        "util.find_spec = lambda name, package=None: None if name == 'features' else true_find(name, package)\n"
        "import api\n"
    )

    result = _run(code, cwd=tmp_path, path=str(REPOSITORY))

    assert result.returncode == 1
    assert "without its part 'features'" in result.stderr.strip().splitlines()[-1]


def test_the_guard_imports_no_room() -> None:
    """Looking for the rooms does not import them, so that the sentence comes before anything can fail."""
    code = f"import sys, api; print([room for room in {ROOMS!r} if room in sys.modules])"

    result = _run(code, cwd=REPOSITORY, path=str(REPOSITORY))

    assert (result.returncode, result.stdout.strip()) == (0, "[]")


def test_the_isolated_start_cannot_be_shadowed(tmp_path: Path) -> None:
    """``python -I -m api`` sees only what is installed, whatever stands in the current folder."""
    for room in (*ROOMS, "api"):
        (tmp_path / room).mkdir()
        (tmp_path / room / "__init__.py").write_text("raise RuntimeError('foreign')", encoding="utf-8")

    result = subprocess.run(
        [sys.executable, "-I", "-m", "api", "--version"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if "No module named api" in result.stderr:
        pytest.skip("gpucast is not installed in this environment; `make setup` installs it")

    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("gpucast ")
