"""Recorded H100 jobs that were well show no sickness; one card slowed down in them is found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from features.transforms.health import health_frame
from features.transforms.jobs import job_frame
from forecast.predict.health.review import review
from forecast.predict.health.signs.slow_gpu import ACTIVITY
from forecast.predict.health.types import Evidence, HealthFinding, HealthMemory
from tests.kit.recorded_run import ring_of_run

RUNS = ("b1", "e2", "t2", "t6", "t13")
LOOK_S = 60.0


def _findings(shared_dir: Path, run: str, every: int) -> list[HealthFinding]:
    """Everything that is found in a run, looked at once a minute."""
    ring, view, first_s, last_s = ring_of_run(shared_dir / "data/h100_dcgm_10hz", run, every=every)
    memory, found = HealthMemory(), {}
    for now_s in np.append(np.arange(first_s + LOOK_S, last_s, LOOK_S), last_s):
        frame = job_frame(ring, view, now_s=float(now_s), window_s=600.0)
        health = health_frame(ring, now_s=float(now_s), window_s=600.0)
        report = review(Evidence(health, (frame,), memory=memory))
        assert report.failed == {}
        memory = report.memory
        found |= {one.key: one for one in report.findings}
    return list(found.values())


@pytest.mark.shared
@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("every", [2, 10, 50])
def test_a_well_run_shows_nothing(shared_dir: Path, run: str, every: int) -> None:
    """Idle with a loaded model, half training and half inferring, small DDP, off-loaded FSDP, TP and PP on two hosts: at
    5 Hz, 1 Hz and every 5 s, power caps and phases included, nothing is told as sick."""
    assert _findings(shared_dir, run, every) == []


@pytest.mark.shared
def test_a_card_that_loses_a_third_is_found(shared_dir: Path) -> None:
    """In the data-parallel run every activity of one card is cut by a third from the middle on: that card, and no other."""
    ring, view, first_s, last_s = ring_of_run(shared_dir / "data/h100_dcgm_10hz", "t2", every=10)
    sick = str(view.gpus[2])
    middle_s = first_s + 0.7 * (last_s - first_s)

    class Slowed:
        """The ring with one card's activity cut."""

        def read(self, keys, as_of_s, window_s):
            series = ring.read(keys, as_of_s, window_s)
            for one in series:
                if one.key.entity == sick and one.key.metric in ACTIVITY:
                    one.value[one.at_s >= middle_s] *= 0.67
            return series

        def keys(self, metrics=None):
            return ring.keys(metrics)

        def allocations(self, as_of_s, window_s):
            return ring.allocations(as_of_s, window_s)

    reader, now_s = Slowed(), middle_s + 60.0
    frame = job_frame(reader, view, now_s=now_s, window_s=600.0)
    report = review(Evidence(health_frame(reader, now_s=now_s, window_s=600.0), (frame,)))
    assert {one.entity for one in report.findings} == {sick}
