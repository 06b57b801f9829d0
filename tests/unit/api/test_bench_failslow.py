"""The table of jobs that become slow."""

import numpy as np
import pytest

from api.bench import failslow, failslow_peers
from api.bench.failslow_rivals import persistence_alarms, three_in_a_row_alarms, z_score_alarms


def test_without_data_simulated_jobs_are_scored_and_losers_are_listed():
    """Every rule has a row of each figure, with an interval that holds the value."""
    result = failslow.run(None, quick=True)
    shown = {(row.model, row.metric) for row in result.rows if row.task.startswith("simulated-noise-1")}
    assert {model for model, _ in shown} == set(failslow.RULES)
    assert {"detected_10", "false_per_job_day", "false_per_10k_steps"} <= {metric for _, metric in shown}
    for row in result.rows:
        if row.metric != "delay_steps" and np.isfinite(row.ci_low):
            assert row.ci_low <= row.value <= row.ci_high or row.value == 0.0


def test_recorded_series_that_are_absent_are_named(tmp_path):
    """Nothing is left out in silence."""
    assert "5 of 5" in failslow.run(tmp_path, quick=True).notes[0]


def test_stragglers_are_scored_beside_plainer_rules():
    """Simulated ranks need no data; the served rule finds half more within ten readings, and losers have rows too."""
    rows, files = failslow_peers.score_peers(None, lambda _: None, [], quick=True)
    assert files == []
    assert {row.model for row in rows} == set(failslow_peers.RULES)
    found = [
        row for row in rows if row.model == "served" and row.metric == "detected_10" and row.task.endswith("50pct")
    ]
    assert [row.value >= 0.9 for row in found] == [True] * 4
    assert {"false_per_job_day", "false_per_10k_readings", "delay_readings"} <= {row.metric for row in rows}


@pytest.mark.parametrize("rule", [persistence_alarms, three_in_a_row_alarms, z_score_alarms])
def test_the_plainer_rules_call_a_large_jump_and_keep_the_shape(rule):
    """They lose in the benchmark for what they do, not for a mistake."""
    step_s = 1.5 * np.exp(0.005 * np.random.default_rng(1).normal(size=(8, 300)))
    step_s[:, 200:] *= 1.5
    alarms = rule(step_s)
    assert alarms.shape == step_s.shape
    assert alarms[:, 200:212].any(axis=1).all()
    assert not rule(np.full((2, 300), 1.0)).any()
