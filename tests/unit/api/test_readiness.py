"""What makes the service ready, and what does not."""

from __future__ import annotations

import pytest

from api.readiness import reasons_not_ready
from collectors.status import TargetStatus


def _target(source: str, up: bool, role: str = "telemetry", error: str = "") -> TargetStatus:
    return TargetStatus(source, up, 1.0 if up else None, 1.0, None, None, 0, {}, error, {}, role)


@pytest.mark.parametrize("role", ["scheduler", "collectives", "topology"])
def test_what_is_read_beside_the_telemetry_makes_nothing_ready(role: str) -> None:
    """The sentence names the trouble of the telemetry, and counts only its sources."""
    (reason,) = reasons_not_ready([_target("e", False, error="refused"), _target("x", True, role)], "", "")
    assert reason.startswith("none of 1 sources gives samples: refused")
    assert "other sources beside them are up" in reason


def test_one_exporter_is_enough_whatever_the_scheduler_does() -> None:
    """A scheduler that is down is shown by doctor, and no reason to stop forecasting."""
    assert reasons_not_ready([_target("e", True), _target("slurm", False, "scheduler", "gone")], "", "") == []


def test_the_store_and_the_last_round_are_told_too() -> None:
    """Each in a sentence of its own."""
    assert reasons_not_ready([_target("e", True)], "disk full", "the worker died") == [
        "samples cannot be stored: disk full",
        "the worker died",
    ]
