"""Checkpoints from a job's own reports."""

from __future__ import annotations

import numpy as np

from features.transforms.checkpoints import begins_and_ends, step_before


def test_begin_and_end_of_several_ranks_are_one_checkpoint() -> None:
    """It begins with the first begin and ends with the last end before the next begin."""
    at_s = np.array([10.0, 11.0, 14.0, 16.0, 50.0, 55.0])
    flag = np.array([1.0, 1.0, 0.0, 0.0, 1.0, 0.0])
    start_s, end_s = begins_and_ends(at_s[::-1], flag[::-1])
    np.testing.assert_array_equal(start_s, [10.0, 50.0])
    np.testing.assert_array_equal(end_s, [16.0, 55.0])


def test_an_end_without_begin_is_left_out_and_an_open_one_has_no_end() -> None:
    """The window may cut the begin off; the newest one may not be over."""
    start_s, end_s = begins_and_ends(np.array([5.0, 20.0, 25.0, 60.0]), np.array([0.0, 1.0, 0.0, 1.0]))
    np.testing.assert_array_equal(start_s, [20.0, 60.0])
    np.testing.assert_array_equal(end_s, [25.0, np.nan])


def test_bad_reports_are_left_out() -> None:
    """Values that are neither begin nor end, and stamps that are not numbers, count for nothing."""
    start_s, end_s = begins_and_ends(np.array([1.0, np.nan, 3.0, 4.0]), np.array([0.5, 1.0, 1.0, 0.0]))
    np.testing.assert_array_equal(start_s, [3.0])
    np.testing.assert_array_equal(end_s, [4.0])
    assert begins_and_ends(np.empty(0), np.empty(0))[0].size == 0


def test_the_step_before_a_checkpoint_is_the_newest_one_reported() -> None:
    """NaN where none was reported before it."""
    step = step_before(np.array([1.0, 5.0, 9.0]), np.array([8.0, 2.0, 5.0]), np.array([12.0, 10.0, 11.0]))
    np.testing.assert_array_equal(step, [np.nan, 11.0, 12.0])
