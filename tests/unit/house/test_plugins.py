"""``forecast.plugins`` is what extensions import, and all they need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import forecast.plugins

REPOSITORY = Path(__file__).resolve().parents[3]
SEAMS = {"Collector", "Forecaster", "Rule", "Backend"}


def test_every_seam_is_there_and_every_name_resolves() -> None:
    """The four seams, and each name that is promised."""
    promised = forecast.plugins.__all__

    assert set(promised) >= SEAMS
    assert [name for name in promised if not hasattr(forecast.plugins, name)] == []


def test_it_costs_numpy_and_no_more() -> None:
    """An extension that imports it loads no model library, database or client."""
    heavy = {"aiohttp", "duckdb", "fastapi", "lightgbm", "pandas", "pydantic", "scipy", "sklearn", "statsmodels"}
    code = f"import sys, forecast.plugins; print(sorted(set(sys.modules) & {heavy!r}))"

    result = subprocess.run(
        [sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False
    )

    assert (result.returncode, result.stdout.strip(), result.stderr) == (0, "[]", "")
