"""The benches of durations and demand: same rows as every bench, no leak, and the served model not behind."""

from __future__ import annotations

import numpy as np
import pytest

from api.bench import demand, duration
from api.bench.duration_rules import PLAIN_RULES, Jobs


def value(result, task, model, metric):
    return next(r.value for r in result.rows if (r.task, r.model, r.metric) == (task, model, metric))


@pytest.fixture(scope="module")
def durations():
    """One run on simulated jobs."""
    return duration.run(None, quick=True)


def test_served_beats_the_plain_rules(durations):
    """On simulated sweeps the served model is more often within a factor of two than any rule, and covers."""
    served = value(durations, "simulated-jobs", "served", "within_2x")
    for rule in ("persistence", "rolling_median", "last_10_equal_size", "last_100_of_group"):
        assert served > value(durations, "simulated-jobs", rule, "within_2x")
    assert 0.74 < value(durations, "simulated-jobs", "served", "cov80") < 0.86


def test_every_rule_is_printed(durations):
    """Losers too, with intervals, for the whole list and for the unseen part."""
    tasks = {(row.task, row.model) for row in durations.rows}
    assert {("simulated-jobs-unseen", rule) for rule in ("persistence", "lightgbm", "served")} <= tasks
    row = next(r for r in durations.rows if r.metric == "within_2x" and r.model == "served")
    assert row.ci_low <= row.value <= row.ci_high


@pytest.mark.parametrize("rule", [*PLAIN_RULES, "served"])
def test_rules_do_not_look_ahead(rule):
    """What is said of a job does not change when it and all jobs still running then turn out to last longer."""
    jobs = duration.simulated_jobs(3, 600)
    i = 400
    at_s = jobs.submit_s[i]
    longer = np.where(jobs.submit_s + jobs.duration_s > at_s, jobs.duration_s * 7.0, jobs.duration_s)
    other = Jobs(jobs.submit_s, longer, jobs.gpu_count, jobs.group)
    answer = PLAIN_RULES.get(rule, lambda j: duration.served(j, 100))
    a, b = answer(jobs), answer(other)
    assert np.array_equal(a.point_s[0, : i + 1], b.point_s[0, : i + 1], equal_nan=True)
    assert np.array_equal(a.high_s[0, : i + 1], b.high_s[0, : i + 1], equal_nan=True)


def test_demand_rows():
    """Served is never much worse than persistence; every candidate is listed; persistence is 1."""
    result = demand.run(None, quick=True)
    for lead in demand.QUICK_LEADS:
        task = f"simulated-total-{lead}"
        assert value(result, task, "persistence", "relMAE") == 1.0
        assert value(result, task, "served", "relMAE") <= 1.02
        assert 0.6 < value(result, task, "served", "cov80") < 0.95
    assert {"week", "days", "fit"} <= {row.model for row in result.rows}


@pytest.mark.parametrize("bench", [demand, duration])
def test_missing_data_is_said(bench, tmp_path):
    """A folder without the files gives a note and no rows."""
    result = bench.run(tmp_path)
    assert result.rows == ()
    assert result.notes


@pytest.mark.shared
def test_recorded_demand_is_read(shared_dir):
    """Virtual clusters and nodes come on a grid of ten minutes; the nodes' hole of ten hours is missing, not zero."""
    clusters = demand.read_clusters(shared_dir / "data" / demand.VC_FILE)
    nodes = demand.read_nodes(shared_dir / "data" / demand.NODE_FILE)
    assert all(one.used.size == 4464 for one in clusters)
    assert 40 < np.isnan(nodes.used).sum() < 80


@pytest.mark.shared
def test_recorded_jobs_are_read(shared_dir):
    """Jobs come in the order of submission, none shorter than a second."""
    jobs = duration.read_jobs(shared_dir / "data" / duration.FILE)
    assert jobs.n > 10_000
    assert (np.diff(jobs.submit_s) >= 0).all()
    assert jobs.duration_s.min() >= 1
