"""A grade compares what was measured with what was predicted, or says that it cannot."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from forecast.advisor.grade import effect_window_s, grade
from forecast.advisor.types import Advice, Effect
from telemetry.ids import JobId, LinkId

AT_S = np.arange(0.0, 100.0, 0.5)


def make(low=0.0, high=0.1, predicted=True):
    effect = Effect("link_overload_ratio", 0.4, low, (low + high) / 2, high, 24.0) if predicted else None
    return Advice(
        "a", "shift", JobId("slurm", "1"), LinkId("leaf1", "u1"), {"offset_s": 2.0}, "r", {}, effect, 0.0, 60.0
    )


def use(share, seed=0):
    """Use above the threshold in exactly this share of any stretch of 20 samples."""
    hot = np.arange(AT_S.size) % 20 < round(20 * share)
    return np.where(hot, 0.97, 0.3)


def ask(advice, values, *, now_s=99.0, applied_at_s=10.0):
    return grade(advice, AT_S, values, threshold_ratio=0.9, applied_at_s=applied_at_s, now_s=now_s)


@pytest.mark.parametrize(
    ("share", "low", "high", "verdict"),
    [
        (0.05, 0.0, 0.1, "inside"),
        (0.4, 0.0, 0.1, "worse"),
        (0.0, 0.2, 0.3, "better"),
        (0.1, 0.05, 0.15, "inside"),
    ],
)
def test_verdict(share, low, high, verdict):
    """Inside, worse or better than the interval, with the measured share."""
    found = ask(make(low, high), use(share))
    assert found.verdict == verdict
    assert found.measured == pytest.approx(share, abs=0.07)
    assert verdict in found.reason
    assert "before 40.0%" in found.reason


def test_window_begins_after_the_pause():
    """What happened before and during the pause does not count, nor what came after the window."""
    waiting = replace(make(), numbers={"period_moved_s": 4.0})
    assert effect_window_s(waiting, 10.0) == (16.0, 40.0)
    assert effect_window_s(make(), 10.0) == (12.0, 36.0)
    values = np.where((AT_S > 12.0) & (AT_S <= 36.0), 0.1, 0.99)
    assert ask(make(), values).measured == 0.0


def test_too_early_is_no_grade_yet():
    """Before the window has passed there is no verdict."""
    assert ask(make(), use(0.0), now_s=35.0) is None


def test_missing_samples_are_inconclusive():
    """A gap in the window is no success."""
    values = np.where((AT_S > 15.0) & (AT_S < 60.0), np.nan, 0.1)
    found = ask(make(), values)
    assert found.verdict == "inconclusive"
    assert found.measured is None
    assert "samples" in found.reason


def test_hold_is_inconclusive():
    """A hold predicts nothing."""
    assert ask(make(predicted=False), use(0.0)).verdict == "inconclusive"


def test_no_samples_at_all():
    """An empty history is inconclusive, not a crash."""
    found = grade(make(), np.empty(0), np.empty(0), threshold_ratio=0.9, applied_at_s=0.0, now_s=99.0)
    assert found.verdict == "inconclusive"
