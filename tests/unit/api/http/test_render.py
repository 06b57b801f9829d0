"""Domain values as API models."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from api.http import render, schemas
from api.http.render.advice import advice as render_advice
from api.http.render.advice import allowed_verbs
from api.reads import History
from forecast.advisor.types import Mode
from forecast.predict.types import Absence, Skill, Why
from tests.kit.fake_reads import FIXED_NOW_S, HOT, IDLE, RHYTHMS, FakeReads


def test_times_are_rfc_3339_in_utc_with_milliseconds() -> None:
    """The twin of an epoch time."""
    assert render.rfc3339(0.25) == "1970-01-01T00:00:00.250Z"


def test_a_row_keeps_six_significant_digits_and_turns_nan_and_infinity_into_none() -> None:
    """Over many magnitudes, zero and negatives too."""
    row = render.numbers(np.array([0.0, 1.23456789, -41234567890.0, 3.3333333e-9, np.nan, np.inf, -np.inf]))
    assert row[:4] == pytest.approx([0.0, 1.23457, -41234600000.0, 3.33333e-9], rel=1e-12)
    assert row[4:] == [None, None, None]


def test_a_path_is_turned_so_that_each_level_is_a_row() -> None:
    """values[i][h] is the level i at step h."""
    job = FakeReads().job(RHYTHMS[0].job)
    assert job is not None
    path = job.metrics["gpu_power_watts"]
    assert not isinstance(path, Absence)
    shown = render.path(path)
    assert isinstance(shown, schemas.QuantilePathOut)
    assert len(shown.values) == len(path.levels) == len(shown.levels)
    assert len(shown.values[0]) == path.values.shape[0]
    assert shown.values[3][7] == pytest.approx(path.values[7, 3], rel=1e-5)


def test_an_absence_stays_an_absence_with_its_reason_and_counts() -> None:
    """Never NaN, never zero."""
    shown = render.absent(Absence(Why.INSUFFICIENT_HISTORY, "20 of 60 points", 20, 60))
    assert shown.model_dump() == {
        "absent": True,
        "why": "insufficient_history",
        "reason": "20 of 60 points",
        "points_present": 20,
        "points_needed": 60,
    }


def test_a_skill_that_was_never_scored_is_null() -> None:
    """NaN inside, null outside."""
    shown = render.skill(Skill(math.nan, math.nan, 0.9, 0))
    assert (shown.skill, shown.coverage80, shown.coverage95) == (None, None, 0.9)


def test_the_headline_is_a_metric_with_a_forecast_before_one_without() -> None:
    """And None for a job without metrics."""
    job = FakeReads().job(RHYTHMS[0].job)
    assert job is not None
    path = job.metrics["gpu_power_watts"]
    gone = Absence(Why.MISSING_FIELD, "no such field")
    assert render.headline({"gpu_tensor_active_ratio": gone, "gpu_power_watts": path}) == "gpu_power_watts"
    assert render.headline({"gpu_tensor_active_ratio": gone}) == "gpu_tensor_active_ratio"
    assert render.headline({"b": gone, "a": gone}) == "a"
    assert render.headline({}) is None


def test_a_metric_that_the_job_lacks_is_absent_and_the_others_are_named() -> None:
    """A filter never invents and never fails."""
    job = FakeReads().job(IDLE)
    assert job is not None
    shown = render.job_forecast(job, ["gpu_nosuch_ratio"]).metrics["gpu_nosuch_ratio"]
    assert isinstance(shown, schemas.Absent)
    assert shown.why == "missing_field"
    assert "gpu_tensor_active_ratio" in shown.reason


def test_history_leaves_out_the_oldest_points_beyond_the_limit_and_says_so() -> None:
    """The newest stay."""
    values = History("m", "ratio", np.arange(5.0), np.array([0.0, 1.0, np.nan, 3.0, 4.0]))
    cut = render.history("slurm:1", values, 3)
    assert (cut.at_s, cut.value, cut.truncated) == ([2.0, 3.0, 4.0], [None, 3.0, 4.0], True)
    assert render.history("slurm:1", values, 5).truncated is False


def test_a_link_with_missing_numbers_is_null_and_not_zero() -> None:
    """Unknown capacity, use and onset."""
    link = FakeReads().link(HOT)
    assert link is not None
    shown = render.link_summary(
        replace(link, capacity_bytes_per_s=math.nan, use_ratio=None, onset_s=None, overload_s=math.nan)
    )
    assert (shown.capacity_bytes_per_s, shown.use_ratio, shown.onset_s, shown.onset_at) == (None, None, None, None)
    assert shown.overload_s is None


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (Mode.OBSERVE, ["reject"]),
        (Mode.RECOMMEND, ["reject"]),
        (Mode.APPROVE, ["approve", "reject"]),
        (Mode.AUTO, ["approve", "reject"]),
    ],
)
def test_approval_is_offered_only_where_the_mode_lets_the_kind_act(mode: Mode, expected: list[str]) -> None:
    """Nothing acts unless the mode was raised."""
    record = FakeReads(mode=mode).advice()[0]
    assert allowed_verbs(record, FIXED_NOW_S) == expected


def test_nothing_may_be_posted_once_an_advice_has_expired_or_is_closed() -> None:
    """And a hold, which has nothing to do, is never approved."""
    reads = FakeReads(mode=Mode.APPROVE)
    open_, hold, graded = reads.advice()[:3]
    assert allowed_verbs(open_, open_.advice.expires_at_s + 1) == []
    assert allowed_verbs(graded, FIXED_NOW_S) == []
    assert allowed_verbs(replace(hold, mode=Mode.AUTO), FIXED_NOW_S) == ["reject"]
    assert allowed_verbs(replace(open_, status="approved"), FIXED_NOW_S) == ["reject"]


def test_an_advice_keeps_plan_receipt_and_grade() -> None:
    """The whole story in one reply."""
    shown = render_advice(FakeReads().advice()[2], FIXED_NOW_S)
    assert shown.grade is not None
    assert shown.receipt is not None
    assert shown.plan is not None
    assert (shown.grade.verdict, shown.receipt.applied, shown.plan.backend) == ("inside", True, "dry_run")
