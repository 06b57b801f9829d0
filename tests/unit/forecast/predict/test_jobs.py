"""What a job's forecast holds, and the reasons it gives where it holds nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forecast.predict.jobs import forecast_job
from forecast.predict.settings import PredictSettings
from forecast.predict.types import Absence, Lull, Period, PhaseNow, QuantilePath, Why

SETTINGS = PredictSettings()


def ask(frame, *, age_s=0.1, **kwargs):
    return forecast_job(frame, now_s=frame.received_s + age_s, settings=PredictSettings(**kwargs))


def test_rhythmic_job_gets_every_part(frames):
    """A job with a 4 s iteration has a period, a phase, a lull and a path per metric."""
    forecast = ask(frames.make_job())
    assert isinstance(forecast.period, Period)
    assert forecast.period.period_s == pytest.approx(4.0, rel=0.01)
    assert forecast.period.low_s <= forecast.period.period_s <= forecast.period.high_s
    assert isinstance(forecast.phase, PhaseNow)
    assert isinstance(forecast.next_lull, Lull)
    assert set(forecast.metrics) == {frames.TENSOR, frames.SM, frames.FABRIC}
    path = forecast.metrics[frames.FABRIC]
    assert isinstance(path, QuantilePath)
    assert path.skill.skill > 0.3
    assert path.model != "persistence"
    assert path.start_s == forecast.data_at_s
    assert (np.diff(path.values, axis=1) >= 0).all()
    assert set(forecast.duty) == set(forecast.metrics)


def test_path_is_as_long_as_asked_but_never_longer_than_half_of_what_was_seen(frames):
    """The horizon is cut by its cap and by the history."""
    long = frames.make_job(span_s=300.0)
    path = ask(long, horizon_s=60.0).metrics[frames.TENSOR]
    assert path.values.shape[0] == 120
    assert ask(long, max_steps=7).metrics[frames.TENSOR].values.shape[0] == 7
    short = frames.make_job(span_s=20.0)
    assert ask(short, horizon_s=60.0).metrics[frames.TENSOR].values.shape[0] == 20


def test_old_data_makes_every_part_stale(frames):
    """Above the age limit nothing is forecast, and every part says so."""
    frame = frames.make_job(missing={"gpu_power_watts": "not exported"})
    forecast = ask(frame, age_s=31.0)
    parts = (forecast.period, forecast.phase, forecast.next_lull, *forecast.metrics.values())
    assert all(isinstance(part, Absence) and part.why is Why.STALE for part in parts)
    assert "31 s" in forecast.period.reason
    assert "gpu_power_watts" in forecast.metrics
    assert forecast.age_s == pytest.approx(31.0)


def test_age_is_never_negative(frames):
    """A clock that stepped back gives age 0, not a negative age."""
    assert ask(frames.make_job(), age_s=-5.0).age_s == 0.0


def test_idle_job_says_idle(frames):
    """A job that holds memory and does nothing has no period, and is not called rhythmless."""
    forecast = ask(frames.flat_job(0.0))
    assert isinstance(forecast.period, Absence)
    assert forecast.period.why is Why.IDLE
    assert "%" in forecast.period.reason
    assert forecast.next_lull.why is Why.IDLE


def test_job_without_samples_says_no_data(frames):
    """A job that was seen but never measured is no crash and no stale clock of 1970."""
    frame = frames.make_job()
    empty = frames.context(np.empty((0, 0)), 1.0, ())
    empty = replace(empty, values=np.empty((0, 0)), group=np.zeros(0, np.int32), low=np.zeros(0), high=np.zeros(0))
    nothing = replace(frame, devices=empty, totals=empty, device_keys=(), data_at_s=0.0, received_s=0.0)
    forecast = forecast_job(nothing, now_s=frame.received_s, settings=SETTINGS)
    assert forecast.period.why is Why.NO_DATA
    assert forecast.phase.why is Why.NO_DATA


def test_short_history_says_how_much_is_needed(frames):
    """Too few points for a period: present and needed are both named."""
    forecast = ask(frames.make_job(span_s=3.0))
    assert forecast.period.why is Why.INSUFFICIENT_HISTORY
    assert forecast.period.points_present == 6
    assert forecast.period.points_needed > 6
    assert all(part.why is Why.INSUFFICIENT_HISTORY for part in forecast.metrics.values())


def test_sampling_that_is_too_coarse_is_named(frames):
    """A period of three samples is not reported as one."""
    forecast = ask(frames.make_job(step_s=1.3, span_s=260.0))
    assert isinstance(forecast.period, Absence)
    assert forecast.period.why is Why.SAMPLING_TOO_COARSE


def test_noise_has_no_rhythm(frames):
    """Random activity gets a reasoned absence, and its paths are still there."""
    frame = frames.make_job()
    random = np.random.default_rng(5)
    devices = replace(frame.devices, values=random.uniform(0.2, 0.9, frame.devices.values.shape))
    totals = replace(frame.totals, values=random.uniform(0.2, 0.9, frame.totals.values.shape))
    forecast = ask(replace(frame, devices=devices, totals=totals))
    assert forecast.period.why is Why.NO_RHYTHM
    assert forecast.duty == {}
    assert all(isinstance(part, QuantilePath) for part in forecast.metrics.values())


def test_missing_metric_says_what_it_costs(frames):
    """A field that the exporter does not give is an absence with the frame's sentence."""
    sentence = "NVLink is not exported, so traffic inside the host is unseen"
    forecast = ask(frames.make_job(missing={"gpu_nvlink_tx_bytes_per_s": sentence}))
    part = forecast.metrics["gpu_nvlink_tx_bytes_per_s"]
    assert part.why is Why.MISSING_FIELD
    assert part.reason == sentence


def test_row_of_nothing_is_no_data_and_others_go_on(frames):
    """One metric without a sample does not silence the others."""
    frame = frames.make_job()
    values = frame.totals.values.copy()
    values[2] = np.nan
    forecast = ask(replace(frame, totals=replace(frame.totals, values=values)))
    assert forecast.metrics[frames.FABRIC].why is Why.NO_DATA
    assert isinstance(forecast.metrics[frames.TENSOR], QuantilePath)
    assert forecast.next_lull.why is Why.MISSING_FIELD


def test_job_that_changed_its_pace_has_the_new_period(frames):
    """Once the newest half holds the new pace, the blend of both is not served."""
    old, new = frames.make_job(period_s=4.6, span_s=60.0), frames.make_job(period_s=4.0, span_s=60.0)
    devices = replace(new.devices, values=np.hstack([old.devices.values, new.devices.values]))
    totals = replace(new.totals, values=np.hstack([old.totals.values, new.totals.values]))
    forecast = ask(replace(new, devices=devices, totals=totals))
    assert isinstance(forecast.period, Period)
    assert forecast.period.period_s == pytest.approx(4.0, rel=0.015)


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    n_points=st.integers(1, 90),
    gap=st.floats(0.0, 1.0),
    level=st.sampled_from([0.0, 0.01, 0.5, 1.0]),
)
def test_any_frame_gets_finite_answers_twice_the_same(frames, seed, n_points, gap, level):
    """Gaps, noise and flat rows: no crash, nothing that is not a number, and the same answer again."""
    random = np.random.default_rng(seed)
    frame = frames.flat_job(level, n=n_points)
    values = np.clip(frame.totals.values + 0.2 * random.normal(size=frame.totals.values.shape) * (level > 0), 0, 1)
    values[random.uniform(size=values.shape) < gap] = np.nan
    holed = replace(frame.totals, values=values)
    frame = replace(frame, devices=holed, totals=holed)
    before = values.copy()
    first, second = ask(frame), ask(frame)
    np.testing.assert_array_equal(before, values)
    assert str(first) == str(second)
    for part in first.metrics.values():
        if isinstance(part, QuantilePath):
            assert np.isfinite(part.values).all()
            assert (part.values >= 0).all()
            assert (part.values <= 1).all()
            assert np.isfinite(part.skill.skill)
        else:
            assert part.reason
    if isinstance(first.phase, PhaseNow):
        assert sum(first.phase.probabilities.values()) == pytest.approx(1.0)
