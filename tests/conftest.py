"""Fixtures that every test may use."""

from __future__ import annotations

from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The folder ``shared`` beside the repository, with public telemetry and field cases; skips where it is absent."""
    folder = REPOSITORY.parent / "shared"
    if not (folder / "data").is_dir():
        pytest.skip(f"no shared data at {folder}: tests on recorded telemetry and field cases are left out")
    return folder
