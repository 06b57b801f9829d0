"""A job that says when its steps ended has their pace for its period, whatever its telemetry can show."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from features.frame import CollectiveStamps, StepStamps
from forecast.predict.jobs import forecast_job
from forecast.predict.rhythm import job_rhythm
from forecast.predict.room_models import default_models
from forecast.predict.settings import PredictSettings
from forecast.predict.stamped import foldable, most_exact
from forecast.predict.types import Absence, Period, PhaseNow, Why


def stamped(frame, period_s, *, jitter=0.002, ends_before_s=0.0, count=60, seed=3):
    """The frame with stamps of steps up to shortly before its newest sample."""
    took_s = period_s * (1 + jitter * np.random.default_rng(seed).normal(size=count))
    at_s = frame.data_at_s - ends_before_s - np.cumsum(took_s[::-1])[::-1] + took_s[-1]
    return replace(frame, steps=StepStamps(at_s, np.arange(100.0, 100.0 + count)))


def rhythm(frame):
    return job_rhythm(frame, default_models(), 64).period


def test_stamps_speak_and_telemetry_is_shown_beside_them(frames):
    found = rhythm(stamped(frames.make_job(period_s=4.0, step_s=0.5), 4.02))
    assert isinstance(found, Period)
    assert (found.source, found.period_s) == ("steps", pytest.approx(4.02, rel=0.002))
    assert [one.source for one in found.others] == ["telemetry"]
    assert found.others[0].period_s == pytest.approx(4.0, rel=0.01)


def test_a_step_faster_than_the_sampling_is_known_but_nothing_is_folded_on_it(frames):
    """The period is the job's own; duty, lull and phase do not pretend to see inside it."""
    frame = stamped(frames.make_job(period_s=0.31, width_s=0.1, step_s=0.5), 0.31)
    made = forecast_job(frame, now_s=frame.received_s, settings=PredictSettings())
    assert isinstance(made.period, Period)
    assert made.period.period_s == pytest.approx(0.31, rel=0.002)
    assert made.duty == {}
    assert isinstance(made.next_lull, Absence)
    assert made.next_lull.why is Why.SAMPLING_TOO_COARSE
    assert "0.6 samples" in made.next_lull.reason
    assert isinstance(made.phase, PhaseNow)


def test_reports_that_stopped_no_longer_count(frames):
    frame = frames.make_job(period_s=4.0, step_s=0.5)
    assert rhythm(stamped(frame, 3.0, ends_before_s=20.0)).source == "steps"
    assert rhythm(stamped(frame, 3.0, ends_before_s=45.0)).source == "telemetry"


def test_too_few_steps_leave_it_to_telemetry(frames):
    assert rhythm(stamped(frames.make_job(period_s=4.0), 4.0, count=4)).source == "telemetry"


def test_an_idle_job_has_no_period_whatever_it_reported(frames):
    found = rhythm(stamped(frames.flat_job(0.0), 4.0))
    assert isinstance(found, Absence)
    assert found.why is Why.IDLE


def test_collectives_tell_the_pace_where_telemetry_is_too_coarse(frames):
    """Ten buckets of gradients at the end of every step of 0.31 s."""
    frame = frames.make_job(period_s=0.31, width_s=0.1, step_s=0.5)
    step_s = frame.data_at_s - 0.31 * np.arange(380)[::-1]
    at_s = np.sort((step_s[:, None] - 0.004 * np.arange(10)).ravel())
    found = rhythm(replace(frame, collectives=CollectiveStamps(at_s, np.full(at_s.size, 5e7))))
    assert isinstance(found, Period)
    assert (found.source, found.period_s) == ("collectives", pytest.approx(0.31, rel=0.01))


def test_stamps_without_rhythm_leave_it_to_telemetry(frames):
    frame = frames.make_job(period_s=4.0, step_s=0.5)
    random = np.random.default_rng(1)
    at_s = np.sort(frame.data_at_s - 120 * random.random(600))
    found = rhythm(replace(frame, collectives=CollectiveStamps(at_s, random.uniform(1e6, 1e8, 600))))
    assert found.source == "telemetry"


def test_the_more_exact_of_two_stamped_sources_wins():
    narrow = Period(2.0, 1.99, 2.01, 1.0, 60, 60, source="collectives")
    wide = Period(2.02, 1.97, 2.05, 1.0, 5, 5, source="steps")
    sharp = Period(4.0, 4.0, 4.0, 0.9, 8, 8)
    best = most_exact([wide, narrow], sharp)
    assert (best.source, [one.source for one in best.others]) == ("collectives", ["steps", "telemetry"])


def test_a_loose_pace_of_few_steps_yields_to_telemetry():
    loose = Period(2.3, 1.9, 2.7, 1.0, 5, 5, source="steps")
    assert most_exact([loose], Period(2.0, 1.98, 2.02, 0.9, 8, 8)).source == "telemetry"


def test_a_period_of_four_samples_can_be_folded_on():
    period = Period(2.0, 1.99, 2.01, 1.0, 9, 9)
    assert foldable(period, 0.5) is period
    assert isinstance(foldable(period, 0.51), Absence)
