"""What a printed number is worth."""

from __future__ import annotations

import numpy as np
import pytest

from collectors.quality import Limits, judge
from telemetry.catalogue import BY_FIELD
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
