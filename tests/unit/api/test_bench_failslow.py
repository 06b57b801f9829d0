"""The table of jobs that become slow."""

import numpy as np

from api.bench import failslow, failslow_peers


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
