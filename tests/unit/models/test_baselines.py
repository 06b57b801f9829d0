"""Persistence, means and seasonal naive answer what their definitions say."""

from __future__ import annotations

import numpy as np
import pytest

from models.base import LEVELS
from models.checks import context_of
from models.moving_mean import MovingMean, between_anchors, trailing_mean
from models.persistence import Persistence
from models.quantiles import MEDIAN
from models.regime import Regime, quiet_moments
from models.seasonal_naive import SeasonalNaive


def test_persistence_is_the_last_value_plus_differences_of_the_same_lead() -> None:
    """Quantiles at lead h are those of x[t + h] - x[t] over the context, around the last value."""
    values = np.random.default_rng(1).normal(size=(2, 60)).cumsum(axis=1)
    context = context_of(values + 100, high=np.inf)
    cube = Persistence().predict(context, 5)
    want = 100 + values[1, -1] + np.quantile(values[1, 4:] - values[1, :-4], LEVELS)
    np.testing.assert_allclose(cube[1, 3], want)


def test_persistence_over_a_gap_starts_from_the_last_observed_value() -> None:
    """A gap at the end does not move the base."""
    values = np.full((1, 30), 0.4)
    values[0, 10:] = 0.7
    values[0, 25:] = np.nan
    assert Persistence().predict(context_of(values), 3)[0, 0, MEDIAN] == 0.7


def test_leads_longer_than_the_history_keep_the_widest_spread_known() -> None:
    """Beyond what the context can show the spread does not shrink to nothing."""
    values = np.random.default_rng(2).uniform(size=(1, 12))
    cube = Persistence().predict(context_of(values), 40)
    assert cube[0, 39, -1] - cube[0, 39, 0] > 0


def test_trailing_mean_uses_observed_points_of_its_window_only() -> None:
    """Gaps are neither zero nor neighbours."""
    values = np.array([[1.0, np.nan, 3.0, np.nan, np.nan, np.nan]])
    np.testing.assert_allclose(trailing_mean(values, 3)[0], [1, 1, 2, 3, 3, 3])


def test_moving_mean_is_centred_on_the_mean_of_the_last_points() -> None:
    """On noise about a level the median lies near the mean of the window."""
    values = 0.5 + 0.1 * np.random.default_rng(3).normal(size=(1, 300))
    cube = MovingMean(20).predict(context_of(values), 10)
    assert cube[0, 0, MEDIAN] == pytest.approx(values[0, -20:].mean(), abs=0.05)


def test_anchors_are_kept_and_leads_between_lie_between() -> None:
    """Interpolation over leads passes through the anchors."""
    cube = np.array([[[0.0], [10.0]]])
    np.testing.assert_allclose(between_anchors(cube, [1, 5], 5)[0, :, 0], [0, 2.5, 5, 7.5, 10])


def test_seasonal_naive_repeats_the_season_and_refuses_under_two() -> None:
    """With two seasons or more the season repeats; with less persistence answers."""
    season = np.array([0.1, 0.5, 0.9, 0.3])
    model = SeasonalNaive(season_s=4.0)
    cube = model.predict(context_of(np.tile(season, 5)[None]), 6)
    np.testing.assert_allclose(cube[0, :, MEDIAN], [0.1, 0.5, 0.9, 0.3, 0.1, 0.5])
    assert model.points_needed(1.0) == 8
    short = context_of(np.tile(season, 5)[None, :7])
    np.testing.assert_array_equal(model.predict(short, 6), Persistence().predict(short, 6))


def test_quiet_means_equal_for_eight_points() -> None:
    """A point is quiet when it and the seven before it are equal."""
    values = np.array([[0.0] * 8 + [1.0] + [0.0] * 8])
    np.testing.assert_array_equal(np.flatnonzero(quiet_moments(values)[0]), [7, 16])


def test_a_quiet_row_is_forecast_from_quiet_moments() -> None:
    """A pod that was busy long ago and has stood still since is expected to stand still."""
    values = np.concatenate([np.random.default_rng(4).uniform(size=100), np.zeros(100)])[None]
    cube = Regime().predict(context_of(values), 10)
    assert np.abs(cube[0, 0]).max() == 0.0
    assert Persistence().predict(context_of(values), 10)[0, 0, -2] > 0.1
