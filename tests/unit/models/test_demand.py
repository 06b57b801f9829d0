"""Demand: persistence unless beaten, from the past only, inside what there is."""

from __future__ import annotations

import numpy as np
import pytest

from models.demand import DemandSeries, walk_demand
from models.demand_moves import CANDIDATES, candidate_moves


def series(used, total=1000.0, per_day=24):
    used = np.asarray(used, float)
    return DemandSeries(0.0, 86400.0 / per_day, used, np.zeros(used.size), np.full(used.size, total))


def daily(days, noise=0.0, seed=0):
    hours = np.arange(24 * days)
    return 500 + 200 * np.sin(2 * np.pi * hours / 24) + noise * np.random.default_rng(seed).standard_normal(hours.size)


def test_a_random_walk_is_served_by_persistence_mostly():
    """Where nothing is to be gained nothing is lost: at most 2 % more error than persistence."""
    walk = 500 + np.cumsum(np.random.default_rng(3).standard_normal(24 * 60))
    got = walk_demand(series(walk), 6)
    truth = np.append(walk[6:], np.full(6, np.nan)) - walk
    known = np.isfinite(truth)
    assert np.abs(truth - got.moves)[known].sum() <= 1.02 * np.abs(truth)[known].sum()


def test_a_daily_rhythm_is_used():
    """A strong day is found: clearly less error than persistence in the later days, by a candidate that is named."""
    used = daily(40, noise=5.0)
    got = walk_demand(series(used), 6)
    truth = (np.append(used[6:], np.full(6, np.nan)) - used)[24 * 20 : -6]
    assert np.abs(truth - got.moves[24 * 20 : -6]).mean() < 0.7 * np.abs(truth).mean()
    assert CANDIDATES[int(got.chosen[-1])] == "fit"


@pytest.mark.parametrize("lead", [1, 6, 24])
def test_only_the_past_counts(lead):
    """What is said at a moment is the same whatever comes after it."""
    one, other = daily(30, 20.0), daily(30, 20.0)
    cut = 24 * 25
    other[cut + 1 :] = np.random.default_rng(9).uniform(0, 1000, other.size - cut - 1)
    a, b = (walk_demand(series(used), lead) for used in (one, other))
    assert np.allclose(a.candidates[: cut + 1], b.candidates[: cut + 1])
    assert np.allclose(a.quantiles[: cut + 1], b.quantiles[: cut + 1])


@pytest.mark.parametrize(
    "used",
    [
        np.full(500, 7.0),
        np.full(500, np.nan),
        np.where(np.arange(500) % 5, 3.0, np.nan),
        np.zeros(1),
        np.r_[np.full(300, 900.0), np.zeros(20), np.full(300, 900.0)],
    ],
    ids=["constant", "nothing known", "gaps", "one point", "outage"],
)
def test_laws(used):
    """Finite, in order, between nothing and what there is."""
    got = walk_demand(series(used), 3)
    assert np.isfinite(got.quantiles).all()
    assert (np.diff(got.quantiles, axis=1) >= 0).all()
    assert got.quantiles.min() >= 0
    assert got.quantiles.max() <= 1000


def test_intervals_hold():
    """Eight of ten truths lie inside the 80 % interval once there is history."""
    walk = np.clip(500 + np.cumsum(np.random.default_rng(5).standard_normal(24 * 80) * 5), 0, 1000)
    got = walk_demand(series(walk), 6)
    truth = walk[6:][24 * 30 :]
    low, high = got.quantiles[24 * 30 : -6, 1], got.quantiles[24 * 30 : -6, 9]
    assert 0.7 < ((truth >= low) & (truth <= high)).mean() < 0.9


def test_what_waits_and_fits_moves_in():
    """The queue's candidate is what waits, as far as it is free."""
    held = DemandSeries(0.0, 3600.0, np.full(48, 6.0), np.full(48, 5.0), np.full(48, 8.0))
    assert candidate_moves(held, 2)[-1, CANDIDATES.index("queue")] == 2.0
