"""The demonstration as a user runs it: one command, real HTTP, a report that can be checked."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
SHIFTED = {"kubernetes:vision:vision-a", "kubernetes:nlp:lm-b"}


@pytest.mark.slow
def test_demo_finds_announces_acts_and_grades() -> None:
    """Every job is seen and most periods are right; the overload is announced, the shift applied, and its grade known.

    The machine may be busy with other tests, so what is asked here is what happened, not how fast.
    """
    done = subprocess.run(
        [sys.executable, "-m", "api", "demo", "--exit", "--json"],
        cwd=REPOSITORY,
        env={key: value for key, value in os.environ.items() if not key.startswith("GPUCAST_")},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode in (0, 1), done.stderr[-2000:]
    report = json.loads(done.stdout, parse_constant=lambda token: pytest.fail(f"{token} in the report"))
    assert (done.returncode == 0) == (report["failures"] == [])
    assert len(report["jobs"]) == 6
    assert report["samples"] > 10_000
    assert report["first_forecast_s"] is not None
    near = [
        job
        for job in report["jobs"]
        if job["found_period_s"] is not None and math.isclose(job["found_period_s"], job["true_period_s"], rel_tol=0.05)
    ]
    assert len(near) >= 4
    assert report["announced"] > 0
    assert report["lead_s"] > 0
    assert {cause.rpartition(" ")[0] for cause in report["causes"]} == SHIFTED
    advice = report["advice"]
    assert advice["kind"] == "shift"
    assert advice["job"] in SHIFTED
    assert advice["predicted"]["low"] <= advice["predicted"]["median"] <= advice["predicted"]["high"]
    assert advice["receipt"]["applied"] is True
    assert advice["grade"]["verdict"] in {"inside", "better"}
    # The simulator's own truth, which no forecast saw.
    assert report["overload_after_ratio"] < report["overload_before_ratio"] / 2
