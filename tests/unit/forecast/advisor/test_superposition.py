"""Circles laid over each other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forecast.advisor.superposition import Member, Superposition, closeness, mean_overload, offsets, overload_scenarios
from forecast.predict.types import DutyCycle, Period

BINS = 32


def member(period_s=4.0, lag_s=0.0, width=0.25, use=0.6, unsure_s=0.0, spread=0.0):
    mean = np.where(np.arange(BINS) < width * BINS, 1.0, 0.0)
    circle = DutyCycle("x", period_s, 1000.0 + lag_s, mean, (1 - spread) * mean, (1 + spread) * mean)
    return Member(None, Period(period_s, period_s - unsure_s, period_s + unsure_s, 0.9, 1, 1), circle, use)


def pair(first, second, window_s=24.0, background=0.0):
    return Superposition(first, second, background, 0.9, 1100.0, window_s)


def test_full_overlap_is_the_bursts_width():
    """Two bursts of a quarter period that meet are above for a quarter of the time, and apart never."""
    both = pair(member(), member())
    found = mean_overload(both, np.array([0.0, 2.0]))
    assert found[0] == pytest.approx(0.25, abs=0.04)
    assert found[1] == 0.0


def test_farthest_apart_is_half_a_period():
    """With equal overload, the offset with most room is in the middle."""
    both = pair(member(), member())
    tried = offsets(4.0, 1.0)
    assert tried[int(np.argmin(closeness(both, tried)))] == pytest.approx(2.0, abs=0.2)


def test_pause_moves_the_burst_later():
    """An offset of a second puts the burst a second later, not earlier."""
    both = pair(member(), member(lag_s=1.0))
    found = mean_overload(both, np.array([1.0, 3.0]))
    assert found[0] > 0.2
    assert found[1] == 0.0


def test_limit_cuts_the_offsets():
    """No offset above the allowed share of a period; none at all at zero."""
    assert offsets(4.0, 0.25).max() <= 1.0
    assert offsets(4.0, 0.0).size == 0


def test_unsure_periods_widen_the_effect():
    """Periods known badly make the future wider, not the answer surer."""
    sure = overload_scenarios(pair(member(use=0.46), member(use=0.46)), 2.0)
    unsure = overload_scenarios(pair(member(use=0.46, unsure_s=0.4), member(use=0.46, unsure_s=0.4)), 2.0)
    assert unsure.mean() > 1.5 * sure.mean()
    assert (unsure > 0).mean() > (sure > 0).mean()


def test_full_link_hides_how_fast_a_job_is_alone():
    """Where both fill the link, a job alone may send faster than seen, so that some futures still pass the threshold."""
    full = overload_scenarios(pair(member(use=0.5), member(use=0.5)), 2.0)
    assert np.median(full) == 0.0
    assert full.max() > 0.0


def test_same_draws_every_time():
    """The futures are the same at each call."""
    both = pair(member(spread=0.2), member(spread=0.2))
    assert (overload_scenarios(both, 1.0) == overload_scenarios(both, 1.0)).all()


@settings(max_examples=30, deadline=None)
@given(
    second_s=st.floats(1.0, 12.0),
    lag_s=st.floats(0.0, 12.0),
    offset_s=st.floats(0.0, 4.0),
    use=st.floats(0.0, 1.5),
    background=st.floats(0.0, 1.0),
)
def test_shares_stay_between_zero_and_one(second_s, lag_s, offset_s, use, background):
    """Whatever the circles, a share of time is one."""
    both = pair(member(use=use), member(second_s, lag_s), background=background)
    for found in (mean_overload(both, np.array([offset_s])), overload_scenarios(both, offset_s)):
        assert (found >= 0).all()
        assert (found <= 1).all()
