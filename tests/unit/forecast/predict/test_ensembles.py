"""Scenarios repeat the past and never look ahead."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forecast.predict.ensembles import bridged, continued, crossing, cycles_of
from forecast.predict.outlooks import persistence_scenarios, score, usual_by, usual_ever


def test_periodic_row_continues():
    """Every scenario of a clean rhythm is its continuation, also for a fractional period."""
    for period in (8.0, 7.3):
        t = np.arange(200)
        row = np.sin(2 * np.pi * t / period)
        truth = np.sin(2 * np.pi * np.arange(200, 230) / period)
        found = cycles_of(row[None], np.array([period]), 30)
        assert np.abs(np.median(found[0], axis=0) - truth).max() < 0.45
        assert found.shape[0] == 1


def test_row_without_a_period_gives_its_spread():
    """Scenarios are quantiles of the past, constant over the steps."""
    row = np.arange(101.0)[None]
    found = cycles_of(row, np.array([np.nan]), 5)
    assert (np.diff(found[0], axis=1) == 0).all()
    assert (np.diff(found[0, :, 0]) > 0).all()
    assert found.min() >= 0.0
    assert found.max() <= 100.0


@settings(max_examples=50, deadline=None)
@given(n=st.integers(2, 60), period=st.floats(1.0, 70.0), horizon=st.integers(1, 80))
def test_scenarios_hold_only_past_values(n, period, horizon):
    """Whatever period and horizon: each scenario value was seen before, or lies between seen ones."""
    row = np.random.default_rng(n).uniform(5, 6, (1, n))
    for way in (cycles_of, continued):
        found = way(row, np.array([period]), horizon)
        assert np.isfinite(found).all()
        assert found.min() >= row.min() - 1e-12
        assert found.max() <= row.max() + 1e-12


def test_bridging_fills_gaps_only():
    """Present values stay; gaps are linear; an empty row becomes 0; the input is untouched."""
    values = np.array([[1.0, np.nan, 3.0], [np.nan] * 3])
    out = bridged(values)
    assert out.tolist() == [[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]]
    assert np.isnan(values[0, 1])


def test_rows_go_on_with_their_own_rhythm():
    """Each row keeps its own period and newest phase, the middle scenario is the continuation, and it is repeatable."""
    t = np.arange(200)
    rows = np.stack([np.sin(2 * np.pi * t / 11.6), np.sin(2 * np.pi * t / 12.4)])
    ahead = np.arange(200, 240)
    truth = np.stack([np.sin(2 * np.pi * ahead / 11.6), np.sin(2 * np.pi * ahead / 12.4)])
    # The periods asked about are a little off, as a detector's are.
    found = continued(rows, np.array([11.8, 12.2]), 40)
    assert np.abs(np.median(found, axis=1) - truth).max() < 0.15
    assert (found == continued(rows, np.array([11.8, 12.2]), 40)).all()


def test_unsureness_grows_with_the_horizon():
    """Scenarios of a rhythm spread more the further ahead they look."""
    random = np.random.default_rng(5)
    starts = np.cumsum(12.0 + 0.3 * random.normal(size=20))
    t = np.arange(200.0)
    row = sum(((t >= s) & (t < s + 4)).astype(float) for s in starts)[None]
    found = continued(row, np.array([12.0]), 96)
    spread = found[0].std(axis=0)
    assert spread[72:].mean() > 1.5 * spread[:24].mean()


def test_crossing_counts_scenarios():
    """Share per step, share that ever cross, and the middle first step."""
    scenarios = np.array([[[0.0, 1.0, 1.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    above, ever, onset = crossing(scenarios, 0.5)
    assert above[0] == pytest.approx([0.0, 0.5, 0.5])
    assert ever[0] == pytest.approx(0.75)
    assert onset[0] == pytest.approx(1.0)
    assert np.isnan(crossing(scenarios * 0, 0.5)[2][0])


def test_score_of_the_truth_is_near_one_and_of_persistence_low():
    """Skill tells a clean rhythm from the last value."""
    t = np.arange(240)
    use = (np.mod(t, 10) < 3).astype(float)[None]
    ways = [lambda c, h: cycles_of(use[:, :c], np.array([10.0]), h), lambda c, h: persistence_scenarios(use, c, h)]
    rhythm, naive = score(use, use, ways, 0.5, 20)
    assert rhythm.skill[0] > 0.9
    assert naive.skill[0] < rhythm.skill[0]
    assert not rhythm.on_use[0]


def test_score_rests_on_the_past_alone():
    """Scenarios are asked for columns before the truth only: changing the future changes no scenario."""
    asked = []

    def way(column, horizon):
        asked.append((column, horizon))
        return np.zeros((1, 2, horizon))

    score(np.zeros((1, 90)), np.zeros((1, 90)), [way], 0.5, 10)
    assert asked
    assert all(column < 90 for column, _ in asked)


def test_wait_for_a_crossing_is_counted():
    """Climatology of a burst every ten samples: the chance of one within h steps is h tenths, certain from ten on."""
    use = (np.arange(400) % 10 == 0).astype(float)[None]
    found = usual_by(use, 0.5, 15)[0]
    assert found[:10] == pytest.approx(np.arange(1, 11) / 10, abs=0.03)
    assert found[10:] == pytest.approx(np.ones(5), abs=0.04)


@pytest.mark.parametrize("count", [0, 2, 3])
def test_few_crossings_are_scored_on_use(count):
    """Two crossings prove no way; three do."""
    use = np.full((1, 120), 0.2)
    use[0, 80 : 80 + 10 * count : 10] = 1.0
    found = score(use, use, [lambda c, h: persistence_scenarios(use, c, h)], 0.9, 20)[0]
    assert found.crossings[0] == count
    assert found.on_use[0] == (count < 3)


def test_staying_as_it_is_foretells_nothing_unseen():
    """Persistence never goes beyond what the link has shown."""
    use = np.random.default_rng(2).uniform(0.0, 0.7, (1, 90))
    assert persistence_scenarios(use, 90, 30).max() <= use.max()


def test_never_and_always_stay_inside_the_unit_interval():
    """A chance from counts is neither 0 nor 1 by luck."""
    for level, low, high in ((0.0, 0.0, 0.2), (1.0, 0.8, 1.0)):
        ever, count = usual_ever(np.full((1, 60), level), 0.5, 10)
        assert low <= ever[0] <= high
        assert count[0] == pytest.approx(10 * level)
