"""Past iterations are found against the newest one, and the pace is the newest pace."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forecast.predict.alignment import align


def _bursts(starts, n_points, width=4.0):
    """Share of each sample inside a burst."""
    fine = np.arange(n_points * 20) / 20
    inside = np.zeros(fine.size)
    for start in starts:
        inside[(fine >= start) & (fine < start + width)] = 1.0
    return inside.reshape(n_points, 20).mean(axis=1)


@settings(max_examples=30, deadline=None)
@given(period=st.floats(6.0, 30.0), off=st.floats(-0.08, 0.08), phase=st.floats(0.0, 1.0))
def test_period_is_found_from_a_rough_one(period, off, phase):
    """Whatever the phase and a guess some percent off: the pace within its own stated error."""
    row = _bursts(np.arange(phase * period - period, 400.0, period), 320)
    found = align(row[None], np.array([period * (1 + off)]))
    assert found.period[0] == pytest.approx(period, abs=0.1)
    assert found.count[0] > 4
    assert abs(found.period[0] - period) < 5 * found.period_sd[0]


def test_new_pace_replaces_the_old():
    """Four iterations after a change the old pace no longer takes part."""
    starts = np.concatenate([np.arange(0.0, 120.0, 13.0), 117.0 + np.arange(12.0, 61.0, 12.0)])
    row = _bursts(starts, 180)
    assert align(row[None], np.array([12.6])).period[0] == pytest.approx(12.0, abs=0.15)


def test_uneven_iterations_are_less_sure():
    """The stated error grows with how unevenly a job iterates."""
    random = np.random.default_rng(4)
    even = np.arange(0.0, 200.0, 12.0)
    uneven = even + random.normal(0.0, 0.4, even.size)
    found = align(np.stack([_bursts(even, 200), _bursts(uneven, 200)]), np.full(2, 12.0))
    assert found.period_sd[1] > 1.5 * found.period_sd[0]
    assert found.phase_sd[1] > 1.5 * found.phase_sd[0]


def test_rows_without_a_rhythm():
    """No period, too long a period, a flat row, a short row: no iteration is found and nothing fails."""
    flat = np.ones((4, 30))
    found = align(flat, np.array([np.nan, 20.0, 5.0, 0.5]))
    assert np.isnan(found.period[[0, 1, 3]]).all()
    assert np.isfinite(found.period[2])
    assert (found.count[[0, 1, 3]] == 1).all()
    assert np.isnan(align(np.zeros((1, 1)), np.array([3.0])).period[0])
