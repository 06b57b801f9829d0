"""Demand from lists: one point a grid step, a reason while history is short, use and free mirror each other."""

from __future__ import annotations

import numpy as np

from forecast.predict.demand import GRID_S, KEPT_POINTS, DemandBook
from forecast.predict.ends_types import DemandForecast
from forecast.predict.types import Absence, Why
from telemetry.roster import NodeGpus, Roster


def listed(step, used, other=0):
    nodes = (NodeGpus("n1", 8, used, partitions=("a",)), NodeGpus("n2", 8, other, partitions=("b",)))
    return Roster(step * GRID_S + 30.0, "slurm", (), nodes)


def test_short_history_is_said():
    """Before there are past errors there is no interval."""
    book = DemandBook()
    for step in range(1, 10):
        book.observe(listed(step, 4))
    said = book.forecast("", 6000.0)
    assert isinstance(said, Absence)
    assert (said.why, said.points_present) == (Why.INSUFFICIENT_HISTORY, 9)
    assert isinstance(book.forecast("elsewhere", 6000.0), Absence)


def test_demand_of_cluster_and_partitions():
    """Sums and partitions are foreseen apart; free GPUs mirror those in use; nothing leaves what there is."""
    book, rng = DemandBook(), np.random.default_rng(0)
    for step in range(1, 400):
        book.observe(listed(step, int(rng.integers(2, 6)), 8))
        book.observe(listed(step, 0, 0))  # the same grid step: the first counts
    assert book.names() == ("", "a", "b")
    whole, part = book.forecast("", 1.0), book.forecast("a", 1.0)
    assert isinstance(whole, DemandForecast)
    assert isinstance(part, DemandForecast)
    assert whole.total_count == 16
    assert part.total_count == 8
    assert whole.used_count[0].min() >= 8
    assert np.allclose(whole.free_count, 16 - whole.used_count[:, ::-1])
    assert (np.diff(whole.free_count, axis=1) >= 0).all()
    assert whole.leads_s[0] == 600.0
    assert set(whole.models) == {"persistence"}


def test_fewer_gpus_in_service_bound_the_forecast():
    """When nodes leave, no more is foreseen in use than is there."""
    book = DemandBook()
    for step in range(1, 200):
        book.observe(listed(step, 8, 8))
    book.observe(Roster(200 * GRID_S, "slurm", (), (NodeGpus("n1", 8, 3, partitions=("a",)),)))
    said = book.forecast("", 1.0)
    assert isinstance(said, DemandForecast)
    assert said.used_count.max() <= 8
    assert said.free_count.min() >= 0


def test_a_pause_longer_than_what_is_kept_begins_anew():
    """Points that lie too far back to be laid out do not count; nothing crashes, and the reason says how many do."""
    book = DemandBook()
    for step in range(1, 200):
        book.observe(listed(step, 4))
    book.observe(listed(200 + KEPT_POINTS, 4))
    said = book.forecast("", 1.0)
    assert isinstance(said, Absence)
    assert said.points_present == 1
