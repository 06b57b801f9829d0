"""How often values really change."""

from __future__ import annotations

import math

import numpy as np

from features.transforms.refresh import refresh_step_s


def test_values_held_by_the_exporter_do_not_count(series):
    """A page read each second whose values are renewed every 10 s has a step of 10 s."""
    rng = np.random.default_rng(0)
    fresh = np.repeat(rng.random(30), 10)
    assert refresh_step_s([series(np.arange(300.0), fresh)]) == 10.0


def test_the_fastest_metric_decides(series):
    """One metric renewed at each read sets the step for all."""
    rng = np.random.default_rng(0)
    held = series(np.arange(300.0), np.repeat(rng.random(30), 10), "gpu_util_ratio")
    quick = series(np.arange(300.0), rng.random(300), "gpu_power_watts")
    assert refresh_step_s([held, quick]) == 1.0


def test_a_square_wave_is_a_signal_and_not_a_slow_exporter(series):
    """A job that works and waits by turns changes rarely, but returns to its old values."""
    wave = np.tile(np.repeat([0.1, 0.9], 8), 20)
    assert refresh_step_s([series(np.arange(320.0), wave)]) == 1.0


def test_a_constant_series_falls_back_to_the_reads(series):
    """Where nothing changes, the spacing of the reads is all there is."""
    assert refresh_step_s([series(np.arange(50.0) * 2, np.zeros(50))]) == 2.0


def test_nothing_to_go_by(series):
    """Without two samples there is no step."""
    assert math.isnan(refresh_step_s([]))
    assert math.isnan(refresh_step_s([series([1.0], [1.0])]))
