"""Bytes are given to those who sent them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forecast.predict.attribution import JobRows, candidates, mixture, shares_by_job
from telemetry.ids import JobId, LinkId
from telemetry.topology import Topology

TOPOLOGY = Topology({"n1": "leaf1", "n2": "leaf2", "n3": "leaf1"})


def rows(values, *, leaf=None, nodes=None):
    values = np.asarray(values, np.float64)
    n = values.shape[0]
    jobs = tuple(JobId("slurm", str(i)) for i in range(n))
    return JobRows(jobs, leaf or ("",) * n, nodes or (("n1", "n2"),) * n, values)


def test_mixture_finds_the_weights():
    """A link made of two rows and a constant is taken apart again."""
    random = np.random.default_rng(0)
    table = random.uniform(0, 10, (2, 200))
    link = 0.5 * table[0] + 0.25 * table[1] + 2.0
    found = mixture(link[None], rows(table), np.ones((1, 2), np.bool_))
    assert found.weight[0] == pytest.approx([0.5, 0.25], abs=0.05)
    assert found.background[0] == pytest.approx(2.0, abs=0.5)


def test_equal_rows_share_equally():
    """Two jobs that cannot be told apart get the same share, not all or nothing."""
    row = np.tile([0.0, 1.0, 5.0, 1.0], 40)
    found = mixture(2 * row[None], rows([row, row]), np.ones((1, 2), np.bool_))
    assert found.share[0] == pytest.approx([0.5, 0.5], abs=0.02)


def test_barred_and_silent_rows_get_nothing():
    """A row that may not cross the link, or never sends, has no share."""
    row = np.tile([0.0, 1.0, 5.0, 1.0], 40)
    found = mixture(row[None], rows([row, row, np.zeros(160)]), np.array([[True, False, True]]))
    assert found.share[0, 1] == 0.0
    assert found.share[0, 2] == 0.0
    assert found.share[0, 0] > 0.9


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), n_rows=st.integers(1, 6))
def test_shares_are_shares(seed, n_rows):
    """Weights are not negative and shares lie between 0 and 1, whatever the rows."""
    random = np.random.default_rng(seed)
    table = random.exponential(1e9, (n_rows, 50)) * (random.uniform(size=(n_rows, 50)) < 0.6)
    link = random.exponential(1e10, (2, 50))
    found = mixture(link, rows(table), np.ones((2, n_rows), np.bool_))
    assert (found.weight >= 0).all()
    assert (found.share >= 0).all()
    assert (found.share <= 1).all()
    assert np.isfinite(found.background).all()


def test_candidates_follow_the_wiring():
    """A NIC carries its host's jobs, an uplink those that leave its leaf, an unknown link anybody's."""
    table = rows(np.ones((3, 4)), nodes=(("n1", "n2"), ("n1", "n3"), ("n2",)))
    assert candidates(LinkId("n1:mlx5_0", "1"), table, TOPOLOGY, {}).tolist() == [True, True, False]
    assert candidates(LinkId("leaf1", "u1"), table, TOPOLOGY, {}).tolist() == [True, False, False]
    ends = {"spine1:2": ("spine1", "leaf2")}
    assert candidates(LinkId("spine1", "2"), table, TOPOLOGY, ends).tolist() == [True, False, False]
    assert candidates(LinkId("sw9", "3"), table, TOPOLOGY, {}).tolist() == [True, True, True]


def test_rows_of_one_job_are_summed():
    """A job with rows on two leaves is named once, largest first."""
    one, two = JobId("slurm", "1"), JobId("slurm", "2")
    named = shares_by_job(np.array([0.2, 0.3, 0.4, 0.001]), (one, two, one, two))
    assert [job for job, _ in named] == [one, two]
    assert named[0][1] == pytest.approx(0.6)
