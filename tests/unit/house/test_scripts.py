"""The commands that a newcomer types exist and are sound."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
SCRIPTS = ("scripts/set-up", "scripts/lock", "scripts/install-debian", ".ci/run")
TARGETS = ("demo", "test", "check", "serve", "lock", "bench", "clean")


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_can_be_run_and_parses(script: str) -> None:
    """Executable, strict from its first lines, and bash accepts it."""
    path = REPOSITORY / script

    assert os.access(path, os.X_OK)
    assert "set -euo pipefail" in path.read_text(encoding="utf-8")
    subprocess.run(["bash", "-n", str(path)], check=True)


@pytest.mark.parametrize("target", TARGETS)
def test_a_make_target_plans_from_nothing(target: str) -> None:
    """Each target is known to make and, but for clean, sets up the environment first."""
    text = (REPOSITORY / "Makefile").read_text(encoding="utf-8")

    rule = re.search(rf"^{target}:(.*?)##", text, re.MULTILINE)
    assert rule is not None
    assert target == "clean" or "$(STAMP)" in rule.group(1)


def test_too_old_a_python_is_a_sentence(tmp_path: Path) -> None:
    """Without Python 3.11 set-up says what is needed and how to name one, and makes nothing."""
    clone = tmp_path / "clone"
    (clone / "scripts").mkdir(parents=True)
    (clone / "scripts" / "set-up").write_bytes((REPOSITORY / "scripts" / "set-up").read_bytes())
    old = tmp_path / "old-python"
    old.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    old.chmod(0o755)

    result = subprocess.run(
        ["bash", str(clone / "scripts" / "set-up")],
        env={**os.environ, "PYTHON": str(old)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert result.returncode == 1
    assert "needs Python 3.11 or newer" in result.stderr
    assert "PYTHON=" in result.stderr
    assert not (clone / ".venv").exists()
