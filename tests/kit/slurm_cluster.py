"""A real Slurm of pretend nodes, for as long as a test module needs it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "slurm-cluster"


@dataclass(frozen=True, slots=True)
class SlurmCluster:
    """A running cluster.

    Args:
        environment: of programs that are to talk to it.
        rest_url: address of its slurmrestd.
        folder: where it lives.
    """

    environment: Mapping[str, str]
    rest_url: str
    folder: Path

    def run(self, *command: str) -> str:
        """What a program prints."""
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=30, check=False)
        assert done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    def submit(self, *flags: str, sleep_s: int = 600) -> str:
        """Queue a job that sleeps; gives its number."""
        script = ("--output=/dev/null", f"--wrap=sleep {sleep_s}")
        return self.run("sbatch", "--parsable", *flags, *script)

    def token(self) -> str:
        """A token for slurmrestd."""
        return self.run(sys.executable, str(SCRIPT), "token", "--dir", str(self.folder))


@contextmanager
def slurm_cluster(folder: Path, *flags: str) -> Iterator[SlurmCluster]:
    """A cluster in ``folder``; skips where Slurm is not installed, and ends what it started."""
    started = subprocess.run(
        [sys.executable, str(SCRIPT), "start", "--dir", str(folder), *flags],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    if "not installed" in started.stderr:
        pytest.skip(f"no Slurm here ({started.stderr.strip()})")
    assert started.returncode == 0, started.stderr
    try:
        exports = subprocess.run(
            [sys.executable, str(SCRIPT), "env", "--dir", str(folder)],
            capture_output=True, text=True, timeout=30, check=True,
        )  # fmt: skip
        told = dict(line.removeprefix("export ").split("=", 1) for line in exports.stdout.splitlines())
        path = f"{os.environ.get('PATH', '')}:/usr/sbin"
        yield SlurmCluster({**os.environ, **told, "PATH": path}, told.get("SLURM_REST_URL", ""), folder)
    finally:
        subprocess.run([sys.executable, str(SCRIPT), "stop", "--dir", str(folder)], timeout=120, check=False)
