"""Circles hold what the series did, and lulls lie where the circle is low and never in the past."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecast.predict.duty import at_times, duty_cycle
from forecast.predict.lulls import fabric_circle, next_lull
from forecast.predict.types import Absence, DutyCycle, Lull, Period, Why

PERIOD = Period(4.0, 3.99, 4.01, 0.9, 4, 4)


def circle(frames, *, lag_s=0.0, period_s=4.0, step_s=0.25, width_s=1.0):
    at_s = frames.START_S + step_s * np.arange(400)
    row = 20e9 * frames.burst(at_s, period_s, lag_s, width_s, step_s)
    return duty_cycle(row, step_s, float(at_s[-1]), period_s, frames.FABRIC), at_s, row


def test_circle_repeats_the_series(frames):
    """Read back at the samples' times, the circle is the series."""
    found, at_s, row = circle(frames)
    error = np.abs(at_times(found, found.mean, at_s) - row)
    assert np.median(error) < 0.05 * 20e9
    assert found.mean.sum() / found.mean.size == pytest.approx(row.mean(), rel=0.05)


def test_circle_bounds_hold_the_mean(frames):
    """10 % quantile, mean, 90 % quantile in order where values vary little."""
    found, _, _ = circle(frames)
    assert (found.low <= found.mean + 1e-6).all()
    assert (found.high >= found.mean - 1e-6).all()


def test_circle_needs_two_iterations_and_values():
    """Too short or empty series have none."""
    assert duty_cycle(np.ones(10), 0.5, 0.0, 4.0, "x") is None
    assert duty_cycle(np.full(100, np.nan), 0.5, 0.0, 4.0, "x") is None


def test_circle_bridges_bins_without_samples():
    """A gap that always falls on the same place is filled from its neighbours."""
    row = np.tile([1.0, 2.0, np.nan, 4.0], 25)
    found = duty_cycle(row, 1.0, 99.0, 4.0, "x")
    assert np.isfinite(found.mean).all()


def test_lull_lies_between_bursts(frames):
    """Bursts of 1 s every 4 s leave a lull of about 3 s after each."""
    found, at_s, _ = circle(frames)
    now_s = float(at_s[-1]) + 0.3
    lull = next_lull(found, PERIOD, now_s)
    assert isinstance(lull, Lull)
    assert lull.start_s >= now_s
    assert lull.end_s - lull.start_s == pytest.approx(3.0, abs=0.6)
    # Slots are labelled by their end, so a burst ends a step later in the samples.
    assert (lull.start_s - frames.START_S) % 4.0 == pytest.approx(1.1, abs=0.35)
    assert lull.start_low_s <= lull.start_s <= lull.start_high_s
    assert lull.level < 2e9


@given(offset=st.floats(-30.0, 30.0), low=st.floats(0.0, 0.2))
def test_lull_is_never_in_the_past(offset, low):
    """Whatever the moment of asking, the lull begins then or later, within a period, and its interval does too."""
    mean = np.array([10.0, 10.0, 1.0, 1.0, 1.0, 1.0, 1.0, 10.0])
    found = DutyCycle("job_fabric_tx_bytes_per_s", 4.0, 1000.0, mean, mean, mean)
    period = Period(4.0, 4.0 - low, 4.0 + low, 0.9, 4, 4)
    lull = next_lull(found, period, 1000.0 + offset)
    assert 1000.0 + offset <= lull.start_low_s <= lull.start_s <= 1000.0 + offset + 4.0
    assert lull.start_s <= lull.start_high_s


def test_steady_use_has_no_lull():
    """A circle that hardly varies has none, and says between which values it stays."""
    mean = np.full(8, 5e9)
    part = next_lull(DutyCycle("x", 4.0, 0.0, mean, mean, mean), PERIOD, 10.0)
    assert isinstance(part, Absence)
    assert part.why is Why.NO_TRAFFIC


def test_wider_period_interval_makes_a_less_certain_start(frames):
    """The start's interval grows with the period's."""
    found, at_s, _ = circle(frames)
    narrow = next_lull(found, PERIOD, float(at_s[-1]))
    wide = next_lull(found, Period(4.0, 3.8, 4.2, 0.9, 4, 4), float(at_s[-1]))
    assert wide.start_high_s - wide.start_s > narrow.start_high_s - narrow.start_s


def test_fabric_before_nvlink():
    """The fabric's circle is used where there is one."""
    mean = np.ones(8)
    nvlink = DutyCycle("gpu_nvlink_tx_bytes_per_s", 4.0, 0.0, mean, mean, mean)
    fabric = DutyCycle("job_fabric_tx_bytes_per_s", 4.0, 0.0, mean, mean, mean)
    assert fabric_circle({c.metric: c for c in (nvlink, fabric)}) is fabric
    assert fabric_circle({nvlink.metric: nvlink}) is nvlink
    assert fabric_circle({}) is None
