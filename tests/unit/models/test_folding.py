"""Folding: what was seen at a phase is what is expected at that phase."""

from __future__ import annotations

import numpy as np
import pytest

from models.folding import duty_cycle, fold_quantiles, lead_blocks


def test_a_clean_cycle_is_continued():
    """A noiseless rhythm with a fractional period is continued to within a point's change."""
    t = np.arange(400 + 60)
    wave = np.sin(2 * np.pi * t / 17.3)[None]
    cube = fold_quantiles(wave[:, :400], 17.3, 60)
    assert cube.shape == (1, 60, 11)
    assert np.abs(cube[0, :, 5] - wave[0, 400:]).max() < 0.2
    assert np.abs(cube[0, :, 5] - wave[0, 400:]).mean() < 0.08


def test_errors_of_the_period_do_not_add_up():
    """A period that is 1 % wrong still lands on the bursts, since every cycle is aligned anew."""
    t = np.arange(560)
    wave = ((t % 40) < 6).astype(float)[None]
    cube = fold_quantiles(wave[:, :500], 40.4, 60)
    assert np.abs(cube[0, :, 5] - wave[0, 500:]).mean() < 0.05


def test_gaps_and_short_pasts():
    """Missing values are bridged; a past too short to fold is NaN, not an error."""
    wave = ((np.arange(200) % 20) < 5).astype(float)[None].repeat(2, axis=0)
    wave[0, 50:70] = np.nan
    wave[1] = np.nan
    cube = fold_quantiles(wave, 20.0, 10)
    assert np.isfinite(cube[0]).all()
    assert np.isnan(cube[1]).all()
    assert np.isnan(fold_quantiles(np.ones((1, 5)), 3.0, 4)).all()


def test_lead_blocks_cover_every_lead_once():
    """The blocks are the leads, in order."""
    for horizon in (1, 2, 5, 48, 300):
        assert [k for a, b in lead_blocks(horizon) for k in range(a, b)] == list(range(horizon))


def test_duty_cycle_begins_at_the_cutoff():
    """Bin 0 holds what follows the cutoff first."""
    values = ((np.arange(200) % 20) < 5).astype(float)[None]
    mean, low, high = duty_cycle(values, 20.0, 4)
    assert mean[0] == pytest.approx([1.0, 0.0, 0.0, 0.0])
    assert (low <= mean).all()
    assert (mean <= high).all()


def test_duty_cycle_without_values_is_nan():
    """A row without values has no duty cycle."""
    mean, low, high = duty_cycle(np.full((1, 30), np.nan), 6.0, 3)
    assert np.isnan(mean).all()
    assert np.isnan(low).all()
    assert np.isnan(high).all()
