"""The benchmark of phases."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from api.bench.phase import run
from api.bench.phase_ahead import after_each, rows
from api.bench.phase_data import MLPERF_FILE, PROGRESS_FILE, evaluations, long_steps
from api.bench.phase_jobs import simulated
from api.bench.phase_now import Said, f1_rows
from forecast.predict.types import PhaseName
from models.phase_occurrences import Occurrences


def test_rows_name_served_and_losers() -> None:
    """The same statements are scored for every rule, and what is answered is counted."""
    result = run(None, quick=True, seed=101)
    models = {row.model for row in result.rows if row.task == "checkpoint-steps" and "error" in row.metric}
    assert models == {"served", "persistence", "mean", "median"}
    assert {row.task for row in result.rows} >= {"now-sim", "checkpoint-steps", "checkpoint-telemetry"}
    share = [row.value for row in result.rows if row.metric.endswith("cov80") or row.metric == "answered"]
    assert all(0.0 <= value <= 1.0 for value in share)


def test_a_simulated_job_is_the_same_each_time_and_shows_nothing_to_come() -> None:
    """A frame holds the slots up to its column and no stamp after it."""
    job, again = simulated(101, 3), simulated(101, 3)
    np.testing.assert_array_equal(job.values, again.values)
    frame = job.frame(900, stamped=True)
    assert frame.totals.n_points == 600
    assert frame.steps is not None
    assert frame.steps.at_s[-1] <= frame.data_at_s
    if frame.checkpoints is not None:
        assert np.nanmax(frame.checkpoints.end_s) <= frame.data_at_s
    starts = job.start_s[PhaseName.CHECKPOINT]
    inside = (starts > 0) & (starts < job.step_s * job.truth.size)
    slot = (starts[inside] / job.step_s + 1.0).astype(int)
    slot = slot[slot < job.truth.size]
    assert np.mean(job.truth[slot] == list(PhaseName).index(PhaseName.CHECKPOINT)) > 0.7


def test_f1_of_a_known_confusion() -> None:
    """Two classes, three of four right each way: F1 by hand."""
    truth = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    answer = np.array([0, 0, 0, 1, 1, 1, -1, 0])
    found = {row.metric: row.value for row in f1_rows("t", Said(np.arange(8), truth, {"m": answer}), ("a", "b"))}
    assert found["f1_a"] == pytest.approx(2 * 3 / (4 + 4))
    assert found["f1_b"] == pytest.approx(2 * 2 / (4 + 3))
    assert found["macro_f1"] == pytest.approx((0.75 + 4 / 7) / 2)
    assert found["confusion_b_as_unknown"] == pytest.approx(0.25)


def test_exact_clockwork_leaves_no_error() -> None:
    """What comes at constant intervals is foreseen to the second, by us and by every rival."""
    start_s = 60.0 * np.arange(1, 12)
    events = Occurrences(start_s, start_s + 5.0, np.full(11, np.nan))
    found = rows(list(after_each("one", ("clock",), events)))
    errors = [row.value for row in found if row.metric == "start_error_mean_s"]
    assert len(errors) == 4
    assert max(errors) < 0.01


@pytest.mark.shared
def test_recorded_events_are_read(shared_dir: Path) -> None:
    """Evaluations lie one after another; the saves of the logged run follow every 500 steps."""
    data = shared_dir / "data"
    runs = evaluations(data / MLPERF_FILE)
    assert len(runs) > 100
    assert all((one.events.start_s[1:] >= one.events.end_s[:-1]).all() for one in runs)
    saves, at_s, _ = long_steps(data / PROGRESS_FILE)
    assert at_s.size == 2436
    np.testing.assert_array_equal(saves.events.step, [500, 1000, 1500, 2000])
