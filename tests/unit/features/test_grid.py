"""Grids keep gaps as gaps."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest

from features.transforms.grid import (
    difference,
    drop_stale_runs,
    gaps,
    grid_times,
    infer_step_s,
    lag,
    rolling_mean,
    to_grid,
)
from telemetry.samples import Reason

START_S = 1_767_225_600.0


def test_step_is_the_usual_spacing_despite_gaps_and_jitter():
    """Jitter averages away, gaps are ignored, and a nearly round step is round."""
    rng = np.random.default_rng(1)
    at_s = START_S + np.arange(200) + rng.normal(0, 0.02, 200)
    at_s = np.delete(at_s, slice(50, 90))
    assert infer_step_s(at_s) == 1.0
    assert infer_step_s(START_S + 0.1 * np.arange(50)) == 0.1
    assert infer_step_s(START_S + 57.0 * np.arange(50)) == 57.0
    assert infer_step_s(START_S + 1.26 * np.arange(50)) == pytest.approx(1.26)
    assert infer_step_s(np.array([2.0, 1.0, 2.0, 3.0])) == 1.0


def test_step_needs_two_observations():
    """One observation has no spacing."""
    assert math.isnan(infer_step_s(np.array([START_S])))
    assert math.isnan(infer_step_s(np.empty(0)))
    assert math.isnan(infer_step_s(np.array([5.0, 5.0])))


def test_last_reading_of_each_slot_counts(series):
    """Two readings in one slot leave the later one, and a missing one never hides a good one."""
    one = series([0.0, 0.5, 0.9, 2.0], [1.0, 2.0, np.nan, 4.0])
    values, reason = to_grid([one], 1.0, 2.0, 3, max_fill_s=0.0)
    np.testing.assert_array_equal(values, [[1.0, 2.0, 4.0]])
    assert not reason.any()


def test_a_reading_a_little_late_still_belongs_to_its_slot(series):
    """Jitter of a fifth of a step leaves no slot empty or doubled."""
    at_s = np.arange(10) + np.array([0.2, -0.2] * 5)
    one = series(at_s, np.arange(10.0))
    values, _ = to_grid([one], 1.0, 9.0, 10, max_fill_s=0.0)
    np.testing.assert_array_equal(values[0], np.arange(10.0))


def test_nothing_after_the_end_is_used(series):
    """Readings later than the grid's end do not enter its last slot."""
    values, _ = to_grid([series([0.0, 1.0, 1.1], [1.0, 2.0, 3.0])], 1.0, 1.0, 2)
    np.testing.assert_array_equal(values, [[1.0, 2.0]])


def test_one_empty_slot_is_held_and_a_gap_is_not(series):
    """A single empty slot takes the value before it; of a longer gap only the first slot may."""
    values, reason = to_grid([series([0, 1, 3, 7], [0.0, 1.0, 3.0, 7.0])], 1.0, 7.0, 8)
    np.testing.assert_array_equal(values, [[0, 1, 1, 3, 3, np.nan, np.nan, 7]])
    assert reason[0].tolist() == [0, 0, 0, 0, 0, Reason.NOT_OBSERVED, Reason.NOT_OBSERVED, 0]


def test_a_missing_reading_is_not_filled(series):
    """A slot in which the source said 'no value' stays missing with its reason, and is not carried on."""
    values, reason = to_grid([series([0, 1, 3], [5.0, np.nan, 7.0])], 1.0, 3.0, 4)
    np.testing.assert_array_equal(values, [[5.0, np.nan, np.nan, 7.0]])
    assert reason[0].tolist() == [0, Reason.NOT_FINITE, Reason.NOT_OBSERVED, 0]


def test_rows_with_other_times_do_not_mix(series):
    """Series with equal, other and no times each land in their own row."""
    shared = np.arange(4.0)
    rows = [series(shared, [1, 2, 3, 4]), series([], []), series(shared, [5, 6, 7, 8]), series([0, 3], [9, 9])]
    values, _ = to_grid(rows, 1.0, 3.0, 4, max_fill_s=0.0)
    expected = [[1, 2, 3, 4], [np.nan] * 4, [5, 6, 7, 8], [9, np.nan, np.nan, 9]]
    np.testing.assert_array_equal(values, expected)


def test_no_series_and_no_points(series):
    """Empty in, empty out."""
    assert to_grid([], 1.0, 0.0, 5)[0].shape == (0, 5)
    assert to_grid([series([0], [1])], 1.0, 0.0, 0)[0].shape == (1, 0)


def test_repeats_before_a_gap_are_stale_and_other_repeats_are_not():
    """Only a run of equal values right before a gap is taken out, and its first reading stays."""
    nan = np.nan
    values = np.array([[1.0, 1.0, 2.0, 3.0, 3.0, 3.0, nan, nan, nan, 4.0, 4.0]])
    reason = np.where(np.isnan(values), Reason.NOT_OBSERVED, Reason.OK).astype(np.uint8)
    fresh, why = drop_stale_runs(values, reason, 60.0)
    np.testing.assert_array_equal(fresh, [[1, 1, 2, 3, nan, nan, nan, nan, nan, 4, 4]])
    assert why[0, 4:6].tolist() == [Reason.STALE, Reason.STALE]
    assert values[0, 4] == 3.0, "the input was changed"


def test_a_source_repeats_no_longer_than_its_lookback():
    """A constant signal before a gap loses at most the lookback."""
    values = np.array([[5.0] * 20 + [np.nan] * 3])
    fresh, _ = drop_stale_runs(values, np.zeros(values.shape, np.uint8), 60.0)
    assert int(np.isnan(fresh).sum()) == 3 + 5


def test_lags_and_windows_do_not_change_outside_what_touches_the_gap():
    """Taking rows out changes no feature whose window holds none of them."""
    rng = np.random.default_rng(3)
    whole = rng.random((2, 100))
    holed = whole.copy()
    holed[:, 40:50] = np.nan
    mean, _ = rolling_mean(whole, 7)
    holed_mean, _ = rolling_mean(holed, 7)
    apart = np.r_[0:40, 56:100]
    np.testing.assert_allclose(holed_mean[:, apart], mean[:, apart], atol=1e-12)
    far = np.r_[0:40, 55:100]
    np.testing.assert_array_equal(lag(holed, 5)[:, far], lag(whole, 5)[:, far])
    near = np.r_[0:40, 51:100]
    np.testing.assert_array_equal(difference(holed)[:, near], difference(whole)[:, near])


@pytest.mark.shared
def test_field_case_of_lags_over_a_gap(series, shared_dir: Path):
    """Forty absent minutes: lags, means and differences over the gap are missing or rest on what was seen."""
    with (shared_dir / "cases/17-forecast-gap-lags/series.csv").open() as file:
        rows = [(float(row["timestamp"]), float(row["gpu_util_index"])) for row in csv.DictReader(file)]
    at_s, value = zip(*rows, strict=True)
    assert infer_step_s(np.array(at_s)) == 60.0
    values, _ = to_grid([series(at_s, value)], 60.0, at_s[-1], 120, max_fill_s=0.0)
    row = values[0]
    assert (row.shape[0], int((~np.isnan(row)).sum())) == (120, 80)
    (gap,) = gaps(row, 60.0, at_s[-1])
    assert (gap.start_s, gap.end_s, gap.count) == (1_767_228_000.0, 1_767_230_340.0, 40)
    assert math.isnan(lag(row, 10)[80])
    assert lag(row, 10)[90] == 80
    assert lag(row, 45)[84] == 39
    mean, count = rolling_mean(row, 15)
    assert (mean[85], count[85]) == (82.5, 6)
    assert math.isnan(mean[79])
    assert count[79] == 0
    assert math.isnan(difference(row)[80])
    minute_60 = grid_times(60.0, at_s[-1], 120)[60]
    known = np.array(at_s) <= minute_60
    assert minute_60 - np.array(at_s)[known][-1] == 1260.0
    assert np.array(value)[known][-1] == 39


def test_two_spacings_far_apart_have_their_median_as_step() -> None:
    """Nothing lies near the median of two very different gaps; the answer is still finite and raises no warning."""
    assert infer_step_s(np.array([0.0, 1.0, 101.0])) == pytest.approx(50.0, rel=0.02)
