"""Fixtures that every test may use."""

from __future__ import annotations

import socket
from collections import Counter
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
HEAVY = ("slow", "prometheus", "browser", "slurm")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group tests for `pytest -n 2 --dist loadgroup`: heavy ones never beside each other, the rest file by file."""
    for item in items:
        heavy = any(item.get_closest_marker(name) for name in HEAVY)
        item.add_marker(pytest.mark.xdist_group("heavy" if heavy else str(item.path.relative_to(REPOSITORY))))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was skipped and why, one line per reason."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(report.longrepr[2] for report in skipped if isinstance(report.longrepr, tuple))
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"{count} skipped: {reason.removeprefix('Skipped: ')}")


@pytest.fixture
def free_port() -> int:
    """A TCP port on 127.0.0.1 that nothing listens on. Prefer port 0 where the code under test can tell what it got."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The folder ``shared`` beside the repository, with public telemetry and field cases; skips where it is absent."""
    folder = REPOSITORY.parent / "shared"
    if not (folder / "data").is_dir():
        pytest.skip(f"no shared data at {folder}: tests on recorded telemetry and field cases are left out")
    return folder
