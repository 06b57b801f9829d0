"""The quick look agrees with what was put in, and leaves alone what does not repeat."""

from __future__ import annotations

import numpy as np
import pytest

from models.period_scan import CHUNK_ROWS, scan_periods


def wave(period, points=512):
    return (np.mod(np.arange(points), period) < 0.4 * period).astype(float)


@pytest.mark.parametrize("period", [6.3, 7.3, 20.0, 61.7, 120.0])
def test_a_period_is_found_between_the_samples(period):
    row = wave(period) + 0.1 * np.random.default_rng(1).standard_normal(512)
    found = scan_periods(row[None, :])
    assert found.points[0] == pytest.approx(period, rel=0.02)
    assert found.score[0] > 0.5


def test_flat_noisy_missing_and_short_series_have_none():
    random = np.random.default_rng(2)
    rows = np.stack([np.full(512, 3e9), np.zeros(512), np.full(512, np.nan), random.standard_normal(512)])
    rows = np.vstack([rows, np.cumsum(random.standard_normal(512))])
    assert np.isnan(scan_periods(rows).points).all()
    assert np.isnan(scan_periods(wave(4.0, 12)[None, :]).points).all()


def test_gaps_are_bridged():
    row = wave(15.0)
    row[100:130] = np.nan
    row[np.random.default_rng(3).random(512) < 0.05] = np.nan
    assert scan_periods(row[None, :]).points[0] == pytest.approx(15.0, rel=0.02)


def test_each_series_is_judged_alone_whatever_lies_around_it():
    """More rows than one chunk, in any order."""
    period = np.random.default_rng(4).uniform(5, 60, CHUNK_ROWS + 40)
    rows = np.stack([wave(p) for p in period])
    rows[::7] = 1.0
    whole = scan_periods(rows).points
    assert np.isnan(whole[::7]).all()
    turned = scan_periods(rows[::-1]).points[::-1]
    assert np.allclose(whole, turned, equal_nan=True, rtol=1e-4)


def test_the_values_are_left_as_they_were():
    rows = np.stack([wave(9.0), wave(11.0)]).astype(np.float32)
    before = rows.copy()
    scan_periods(rows)
    assert np.array_equal(rows, before)
