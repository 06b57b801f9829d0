"""Durations: the histogram's laws, what ended and running siblings teach, and that nothing is learnt too early."""

from __future__ import annotations

import numpy as np
import pytest

from models.duration_bins import (
    N_BINS,
    bell_at,
    bin_of,
    chance_below,
    cumulated,
    cut_at,
    durations_at,
    likeliest_remaining,
    remaining_at,
)
from models.duration_levels import AgeLevels, LevelKeeper
from models.duration_mixture import DurationMixture


def told(durations):
    """A mixture that saw jobs of one kind end, one after another."""
    model = DurationMixture(2, (1,), 1)
    at_s = 0.0
    for k, duration in enumerate(durations):
        model.learn_start(k, at_s, ((), "a"))
        at_s += duration
        model.learn_end(k, at_s)
    return model, at_s


@pytest.mark.parametrize("duration_s", [0.0, 1.0, 59.0, 3600.0, 1e9])
def test_every_duration_has_a_bin(duration_s):
    """From nothing to beyond the last edge."""
    assert 0 <= int(bin_of(duration_s)) < N_BINS


def test_levels_and_chances_are_inverse():
    """The duration at a level is passed with just that chance."""
    cdf = cumulated(bell_at(4000.0, 0.5) + 0.3 * bell_at(60.0, 0.2))
    levels = np.array([0.05, 0.3, 0.5, 0.9])
    assert np.allclose(chance_below(cdf, durations_at(cdf, levels)), levels, atol=1e-9)


def test_remaining_time_knows_the_age():
    """A job that passed the short mode has the long one before it; one older than all history still has a future."""
    cdf = cumulated(0.9 * bell_at(60.0, 0.2) + 0.1 * bell_at(40000.0, 0.2))
    assert remaining_at(cdf, 0.0, 0.5) < 100
    assert 20000 < remaining_at(cdf, 3600.0, 0.5) < 50000
    assert remaining_at(cdf, 1e6, 0.5) > 1e5


def test_likeliest_is_where_most_mass_lies_within_a_factor_of_two():
    """With 45 % about a minute and 55 % spread wide above, the median would be wrong most of the time."""
    wide = sum(bell_at(600.0 * 2.0**k, 0.3) for k in range(8)) / 8
    cdf = cumulated(0.45 * bell_at(60.0, 0.2) + 0.55 * wide)
    assert 40 < likeliest_remaining(cdf) < 90
    assert durations_at(cdf, 0.5) > 300


def test_nothing_outlasts_its_limit():
    """What would last longer ends at the limit, and no mass is lost; infinity and None are no limits."""
    bell = bell_at(40000.0, 1.0)
    cut = cut_at(bell, 3600.0)
    assert cut.sum() == pytest.approx(bell.sum())
    assert cut[int(bin_of(3600.0)) + 1 :].sum() == 0
    assert np.array_equal(cut_at(bell, float("inf")), bell)
    assert np.array_equal(cut_at(bell, None), bell)


def test_ended_jobs_of_a_kind_are_learnt():
    """After thirty hour-long jobs an hour is expected, and another kind is drawn towards it less."""
    model, at_s = told([3600.0] * 30)
    assert likeliest_remaining(cumulated(model.histogram(((), "a"), at_s))) == pytest.approx(3600, rel=0.3)
    own, other = (cumulated(model.histogram(((), kind), at_s)) for kind in ("a", "b"))
    assert chance_below(own, 7200) - chance_below(own, 1800) > chance_below(other, 7200) - chance_below(other, 1800)


def test_running_siblings_say_that_they_last():
    """Short jobs ended before; forty that started an hour ago all still run: the next one is not thought short."""
    model, at_s = told([60.0] * 40)
    before = chance_below(cumulated(model.histogram(((), "a"), at_s)), 3000.0)
    for k in range(40):
        model.learn_start(("later", k), at_s + k, ((), "a"))
    after = chance_below(cumulated(model.histogram(((), "a"), at_s + 3600.0)), 3000.0)
    assert after < before - 0.1


def test_a_job_is_not_its_own_sibling():
    """What is said of a running job does not count its own survival twice."""
    model, at_s = told([60.0] * 40)
    model.learn_start("me", at_s, ((), "a"))
    mine = model.histogram(((), "a"), at_s + 3600.0, "me")
    stranger = model.histogram(((), "a"), at_s + 3600.0)
    assert chance_below(cumulated(mine), 600.0) > chance_below(cumulated(stranger), 600.0)


def test_the_future_changes_nothing():
    """A forecast made at a start is the same whatever the running jobs turn out to last (no leak)."""
    said = []
    for lasting in (100.0, 1e5):
        model, at_s = told([600.0] * 30)
        model.learn_start("x", at_s, ((), "a"))
        said.append(model.learn_start("y", at_s + 50.0, ((), "a")).copy())
        model.learn_end("x", at_s + lasting)
    assert np.array_equal(said[0], said[1])


def test_forgotten_jobs_teach_nothing():
    """A job whose end is unknown leaves the forecast as if it had never been started."""
    model, at_s = told([600.0] * 30)
    plain = model.histogram(((), "a"), at_s + 10.0)
    model.learn_start("x", at_s, ((), "a"))
    model.forget("x")
    model.learn_end("x", at_s + 5.0)
    model.learn_end("never seen", at_s)
    assert model.ended_count == 30
    # Its place in the ring of siblings stays, empty, so that the older ones count a little less.
    assert np.abs(model.histogram(((), "a"), at_s + 10.0) - plain).max() < 0.05


def test_levels_follow_what_was_covered():
    """If the truth always falls in the middle half, a narrower interval is served; with nothing known, as asked."""
    keeper = LevelKeeper()
    assert np.array_equal(keeper.served((0.1, 0.9)), [0.1, 0.9])
    for place in np.random.default_rng(0).uniform(0.25, 0.75, 6000):
        keeper.learn(float(place))
    low, high = keeper.served((0.1, 0.9))
    assert 0.2 < low < 0.3
    assert 0.7 < high < 0.8


def test_levels_of_an_age_rest_on_jobs_that_reached_it():
    """Jobs that ended within a minute say nothing about those that are an hour old."""
    levels = AgeLevels()
    cdf = cumulated(bell_at(60.0, 0.5))
    for _ in range(50):
        levels.learn(cdf, 30.0)
    assert np.array_equal(levels.served((0.1, 0.9), 4000.0), [0.1, 0.9])
    assert levels.served((0.1, 0.9), 0.0)[1] < 0.9
    assert levels.coverage80() is not None
