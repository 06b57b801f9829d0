"""The laws that no type checker sees: who imports whom, who names a field, what loads at start."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
ROOMS = ("telemetry", "collectors", "features", "models", "forecast", "api")
HEAVY = ("duckdb", "pandas", "sklearn", "lightgbm", "statsmodels", "scipy")
# GPU and port counters of dcgm-exporter, node_exporter and infiniband_exporter. Label names such as
# DCGM_FI_DRIVER_VERSION are no fields: the page carries them beside the value.
FIELD = re.compile(r"\b(?:DCGM_FI_(?:DEV|PROF)_\w+|dcgm_fi_prof_\w+|node_infiniband_\w+)")
MAY_NAME_FIELDS = ("telemetry/catalogue", "forecast/simulator/")
VAGUE = {"utils", "util", "helpers", "helper", "common", "manager", "misc", "base_impl"}


def _sources() -> list[Path]:
    return sorted(path for room in ROOMS for path in (REPOSITORY / room).rglob("*.py"))


def test_rooms_import_only_upstream() -> None:
    """import-linter's contracts in pyproject.toml hold."""
    script = Path(sys.executable).parent / "lint-imports"
    if not script.exists():
        pytest.skip("import-linter is not installed; `make setup` installs it")

    result = subprocess.run(
        [str(script), "--no-cache"], cwd=REPOSITORY, capture_output=True, text=True, timeout=120, check=False
    )

    assert result.returncode == 0, result.stdout[result.stdout.find("Contracts") :]


def test_only_the_catalogue_names_source_fields() -> None:
    """A field that an exporter renames is mended in one file."""
    named = {
        f"{path.relative_to(REPOSITORY).as_posix()}: {found}"
        for path in _sources()
        if not path.relative_to(REPOSITORY).as_posix().startswith(MAY_NAME_FIELDS)
        for found in FIELD.findall(path.read_text(encoding="utf-8"))
    }

    assert set() == named


def test_no_module_has_a_vague_name() -> None:
    """A name says what is inside; utils and helpers do not."""
    assert [str(path.relative_to(REPOSITORY)) for path in _sources() if path.stem in VAGUE] == []


def test_every_room_and_subroom_says_what_it_is() -> None:
    """Each ``__init__.py`` opens with a docstring, and each room is typed."""
    silent = [
        str(path.relative_to(REPOSITORY))
        for path in _sources()
        if path.name == "__init__.py" and not path.read_text(encoding="utf-8").startswith('"""')
    ]

    assert silent == []
    assert [room for room in ROOMS if not (REPOSITORY / room / "py.typed").exists()] == []


@pytest.mark.parametrize("module", ["api.cli", "api.http.app"])
def test_start_up_loads_nothing_heavy(module: str) -> None:
    """The command line answers at once, and the API serves before any model library is loaded."""
    code = f"import sys, {module}; print(sorted(set(sys.modules) & {set(HEAVY)!r}))"

    result = subprocess.run(
        [sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False
    )

    assert (result.returncode, result.stdout.strip(), result.stderr) == (0, "[]", "")


def test_every_help_loads_nothing_heavy() -> None:
    """``gpucast --help`` builds every command's parser from the standard library and our words alone."""
    code = (
        "import sys, api.cli; parser = api.cli.build_parser(); parser.format_help();"
        f"print(sorted(set(sys.modules) & {set(HEAVY) | {'fastapi', 'aiohttp', 'pydantic'}!r}))"
    )

    result = subprocess.run(
        [sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False
    )

    assert (result.returncode, result.stdout.strip(), result.stderr) == (0, "[]", "")
