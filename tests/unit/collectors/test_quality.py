"""What a printed number is worth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.quality import Limits, judge
from telemetry.catalogue import BY_FIELD, FLOAT_BLANKS, INT32_BLANKS
from telemetry.samples import Reason


def judged(field: str, *printed: float) -> tuple[list[float], list[int]]:
    value, reason = judge(np.array(printed, float), Limits.of([BY_FIELD[field]]))
    return value.tolist(), reason.tolist()


@pytest.mark.parametrize("blank", [2147483632, 2147483635, 9223372036854775792, 9.223372036854776e18])
def test_integer_blanks_are_missing(blank):
    assert judged("DCGM_FI_DEV_GPU_TEMP", blank)[1] == [Reason.BLANK]


def test_the_floating_blank_is_a_real_count_in_an_integer_field():
    assert judged("DCGM_FI_PROF_SM_ACTIVE", 140737488355329.0)[1] == [Reason.BLANK]
    value, reason = judged("DCGM_FI_DEV_NVLINK_COUNT_TX_BYTES", 140737488355328.0, 2147483632.0, 9.223372036854776e18)
    assert reason == [Reason.OK, Reason.OK, Reason.BLANK]
    assert value[:2] == [140737488355328.0, 2147483632.0]


def test_ratios_a_little_above_one_are_clipped_and_others_rejected():
    value, reason = judged("DCGM_FI_PROF_SM_ACTIVE", 1.04, 1.06, -0.1)
    assert value[0] == 1.0
    assert reason == [Reason.OK, Reason.OUT_OF_RANGE, Reason.OUT_OF_RANGE]


def test_percent_has_no_tolerance():
    assert judged("DCGM_FI_DEV_GPU_UTIL", 100, 101)[1] == [Reason.OK, Reason.OUT_OF_RANGE]


def test_nan_and_infinities_are_not_finite_never_out_of_range():
    value, reason = judged("DCGM_FI_DEV_GPU_UTIL", np.nan, np.inf, -np.inf)
    assert reason == [Reason.NOT_FINITE] * 3
    assert np.isnan(value).all()


def test_a_number_too_large_for_its_unit_is_missing():
    assert judged("DCGM_FI_DEV_SM_CLOCK", -1e306)[1] == [Reason.OUT_OF_RANGE]


@given(st.sampled_from(sorted(BY_FIELD)), st.data())
def test_numbers_within_every_rule_are_judged_as_by_the_rules_one_by_one(field, data):
    """Good numbers take a short way; at, just inside and just outside each limit it gives what the long way gives."""
    metric, source = BY_FIELD[field]
    limits = Limits.of([(metric, source)])
    ends = [metric.low / source.scale, metric.high / source.scale, 0.0, 1.0, *FLOAT_BLANKS, *INT32_BLANKS, 9.3e18]
    near = st.sampled_from(ends).flatmap(
        lambda end: st.sampled_from([end, np.nextafter(end, 9e99), np.nextafter(end, -9e99)])
    )
    printed = np.array(data.draw(st.lists(near | st.floats(), min_size=1, max_size=3)))
    long_way = replace(limits, fine_low=np.array([np.inf]), fine_high=np.array([-np.inf]))
    for found, wanted in zip(judge(printed, limits), judge(printed, long_way), strict=True):
        assert found.dtype == wanted.dtype
        assert found.tobytes() == wanted.tobytes()
