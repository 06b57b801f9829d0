"""A job's bytes on the links' grid: from its own hosts' ports where they are all there, else from its own row."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from forecast.predict.traffic import fabric_on_grid

PORTS = ("n1:mlx5_0:1", "n1:mlx5_1:1", "n2:mlx5_0:1", "n2:mlx5_1:1", "n9:mlx5_0:1", "leaf1:u1")


def _frame(frames, names=PORTS, *, n=40):
    tx = np.arange(1.0, len(names) + 1)[:, None] * 1e9 + np.arange(n)[None, :] * 1e6
    return frames.make_links(tx, 0.25, [frames.CAPACITY] * len(names), names)


def test_ports_of_the_hosts_are_summed(frames):
    """All ports of all hosts of the job, and nobody else's."""
    links = _frame(frames)
    assert fabric_on_grid(frames.make_job(), links)[""] == pytest.approx(links.tx.values[:4].sum(axis=0))


def test_a_port_that_was_not_read_leaves_a_gap(frames):
    """One of four ports missing is a quarter of the bytes unknown: no figure, not a smaller one."""
    links = _frame(frames)
    links.tx.values[0, 7] = np.nan
    row = fabric_on_grid(frames.make_job(), links)[""]
    assert np.flatnonzero(np.isnan(row)).tolist() == [7]


def test_nothing_from_before_the_job(frames):
    """What its hosts sent before it had them is another job's."""
    row = fabric_on_grid(frames.make_job(first_seen_s=frames.START_S + 5.0), _frame(frames))[""]
    assert np.isnan(row[:20]).all()
    assert np.isfinite(row[20:]).all()


def test_own_row_where_ports_do_not_tell(frames):
    """A host without a port in the frame, or one shared with another job: the job's own row is taken."""
    job = frames.make_job(span_s=10.0)
    own = job.totals.values[job.totals.metric.index(frames.FABRIC)]
    shared = replace(job, job=replace(job.job, shared=True))
    for one, names in ((job, PORTS[:2]), (shared, PORTS)):
        row = fabric_on_grid(one, _frame(frames, names))[""]
        assert np.isin(row[np.isfinite(row)], own).all()
