"""Quantiles of samples and the scores of quantile forecasts."""

from __future__ import annotations

import numpy as np
import pytest

from models.base import LEVELS
from models.metrics import (
    HIGH80,
    LOW80,
    bootstrap_interval,
    geometric_mean,
    inside,
    pinball,
    quantile_loss,
)
from models.quantiles import (
    ahead_at,
    fill_forward,
    keep_laws,
    last_observed,
    lead_blocks,
    sample_quantiles,
    weighted_quantiles,
)


def test_sample_quantiles_equal_numpys_and_leave_gaps_out() -> None:
    """The same numbers as numpy's nanquantile; NaN only where nothing was observed."""
    random = np.random.default_rng(1)
    samples = random.normal(size=(5, 40))
    samples[1, ::3] = np.nan
    samples[4] = np.nan
    found = sample_quantiles(samples)
    want = np.nanquantile(samples[:4], LEVELS, axis=-1).T
    np.testing.assert_allclose(found[:4], want)
    assert np.isnan(found[4]).all()


def test_equal_weights_give_the_midpoint_rule() -> None:
    """Weighted quantiles with equal weights equal numpy's Hazen quantiles, whatever the weights' scale."""
    samples = np.random.default_rng(2).normal(size=(3, 17))
    want = np.quantile(samples, LEVELS, axis=-1, method="hazen").T
    np.testing.assert_allclose(weighted_quantiles(samples, np.full_like(samples, 7.0)), want)


def test_a_sample_without_weight_or_value_says_nothing() -> None:
    """Zero weight and NaN count alike."""
    samples = np.array([[1.0, 2.0, 3.0, np.nan, 100.0]])
    weights = np.array([[1.0, 1.0, 1.0, 5.0, 0.0]])
    assert weighted_quantiles(samples, weights).max() <= 3.0


def test_filling_repeats_the_value_before_and_never_one_from_later() -> None:
    """Gaps take the past; only a gap at the very start takes the first value."""
    values = np.array([[np.nan, 1.0, np.nan, 3.0, np.nan], [np.nan] * 5])
    np.testing.assert_array_equal(fill_forward(values)[0], [1, 1, 1, 3, 3])
    assert np.isnan(fill_forward(values)[1]).all()
    np.testing.assert_array_equal(last_observed(values, -1.0), [3.0, -1.0])


def test_laws_sort_and_clip() -> None:
    """Quantiles come out in order and inside the row's bounds."""
    cube = np.array([[[2.0, -1.0, 0.5]]])
    np.testing.assert_array_equal(keep_laws(cube, np.zeros(1), np.ones(1)), [[[0.0, 0.5, 1.0]]])


def test_pinball_is_least_at_the_right_quantile() -> None:
    """Over many truths the loss of level .9 is least near the .9 quantile of the truths."""
    truth = np.random.default_rng(3).normal(size=4000)
    offers = np.linspace(-3, 3, 121)
    level = np.array([0.9])
    cost = [pinball(np.full((truth.size, 1), offer), truth, level).mean() for offer in offers]
    assert offers[int(np.argmin(cost))] == pytest.approx(np.quantile(truth, 0.9), abs=0.1)


def test_quantile_loss_of_a_point_forecast_is_its_absolute_error() -> None:
    """Equal quantiles cost the absolute error, as the CRPS of a point does."""
    cube = np.full((1, 1, len(LEVELS)), 3.0)
    assert quantile_loss(cube, np.array([[5.0]]))[0, 0] == pytest.approx(2.0)


def test_a_missing_truth_is_neither_hit_nor_miss() -> None:
    """Coverage counts observed truths only."""
    cube = np.tile(np.linspace(0, 1, len(LEVELS)), (1, 3, 1))
    found = inside(cube, np.array([[0.5, 2.0, np.nan]]), LOW80, HIGH80)
    np.testing.assert_array_equal(found, [[1.0, 0.0, np.nan]])


def test_bootstrap_interval_holds_the_value_and_widens_with_blocks() -> None:
    """Series of one block are drawn together, so fewer independent blocks mean a wider interval."""
    random = np.random.default_rng(4)
    blocks = np.repeat(np.arange(6), 20)
    rows = np.exp(random.normal(size=6))[blocks]
    loose = bootstrap_interval(rows, geometric_mean, blocks=blocks)
    tight = bootstrap_interval(rows, geometric_mean)
    assert loose[0] < geometric_mean(rows) < loose[1]
    assert loose[1] - loose[0] > tight[1] - tight[0]
    assert bootstrap_interval(rows, geometric_mean) == tight


def test_rows_seen_later_are_the_rows_shifted() -> None:
    """Each lead shows the row that many points on, and nothing past its end."""
    values = np.arange(10.0)[None] + np.array([[0.0], [100.0]])
    later = ahead_at(values, np.array([2, 3, 7]))
    assert later.shape == (2, 3, 10)
    for place, lead in enumerate((2, 3, 7)):
        np.testing.assert_array_equal(later[:, place, :-lead], values[:, lead:])
        assert np.isnan(later[:, place, -lead:]).all()


@pytest.mark.parametrize(("series", "points", "horizon"), [(1, 1, 1), (16, 120, 60), (1500, 512, 60), (3, 5, 0)])
def test_blocks_of_leads_join_and_end_at_the_horizon(series: int, points: int, horizon: int) -> None:
    """Every lead from 1 to the horizon lies in one block, in order."""
    leads = [lead for first, stop in lead_blocks(series, points, horizon) for lead in range(first, stop)]
    assert leads == list(range(1, horizon + 1))
