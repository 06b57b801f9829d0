"""GPU memory is a staircase: head-room, leaks, and the chance to run out, with honest absences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.transforms.device_memory import USED
from forecast.predict.jobs import forecast_job
from forecast.predict.memory import memory_outlook, staircase
from forecast.predict.settings import PredictSettings
from forecast.predict.types import Absence, MemoryOutlook, MemoryTrend, Why
from telemetry.ids import SeriesKey

GIB = 2.0**30
USABLE = 80 * GIB
SETTINGS = PredictSettings()


def with_memory(frames, *rows, usable=USABLE, step_s=1.0, **job):
    """A job's frame whose first devices hold these many bytes."""
    rows = np.atleast_2d(np.asarray(rows, np.float64))
    frame = frames.make_job(span_s=rows.shape[1] * step_s, step_s=step_s, **job)
    devices = [str(gpu) for gpu in frame.job.gpus[: rows.shape[0]]]
    return replace(
        frame,
        devices=frames.context(rows, step_s, (USED,) * rows.shape[0]),
        device_keys=tuple(SeriesKey(USED, device) for device in devices),
        usable_memory_bytes={} if usable is None else dict.fromkeys(devices, usable),
    )


def leak(random, points, *, start, mib_a_step, every):
    """A staircase: steps of about so many MiB at random moments, ``every`` seconds apart on average."""
    steps = random.poisson(1.0 / every, points) * mib_a_step * 2**20 * random.uniform(0.5, 1.5, points)
    return np.floor((start + np.cumsum(steps)) / 2**20) * 2**20


def ask(frame, **kwargs):
    found = memory_outlook(frame, PredictSettings(**kwargs))
    assert isinstance(found, MemoryOutlook)
    return found


def test_a_flat_job_hardly_ever_runs_out(frames):
    """Memory that stands still leaves its head-room, with a small chance of something never seen."""
    found = ask(with_memory(frames, np.full(300, 60 * GIB)))
    assert (found.trend, found.slope_bytes_per_s, found.full_in_s) == (MemoryTrend.FLAT, 0.0, None)
    assert found.headroom_bytes == 20 * GIB
    assert 0.0 <= found.out_of_memory_probability < 0.01
    assert found.peak_ahead_bytes[0] == 60 * GIB
    assert "did not rise" in found.reason


def test_a_leak_is_told_with_its_slope_and_its_end(frames):
    """100 MiB every second fill 20 GiB in 205 s: certain within 10 minutes, out of the question within 100 s."""
    used = 60 * GIB + 100 * 2**20 * np.arange(-299, 1)
    found = ask(with_memory(frames, used))
    assert found.trend is MemoryTrend.LEAK
    assert found.slope_bytes_per_s == pytest.approx(100 * 2**20, rel=0.02)
    assert found.full_in_s == pytest.approx(204.8, rel=0.02)
    assert found.out_of_memory_probability > 0.99
    assert ask(with_memory(frames, used), memory_horizon_s=100.0).out_of_memory_probability < 0.05


def test_simulated_leaks_are_foreseen_as_often_as_said(frames):
    """Over many staircases the 80 % interval of the peak holds most truths, and chances agree with what happens."""
    random = np.random.default_rng(5)
    held, chances, ended = [], [], []
    for _ in range(150):
        rate, size = 10 ** random.uniform(0.3, 1.8), 10 ** random.uniform(0.5, 2.5)
        used = leak(random, 900, start=40 * GIB, mib_a_step=size, every=rate)
        usable = used[299] + 10 ** random.uniform(-2, 1) * max(used[-1] - used[299], 64 * 2**20)
        found = ask(with_memory(frames, used[:300], usable=usable))
        low, _, high = found.peak_ahead_bytes
        held.append(low <= used[-1] <= high)
        chances.append(found.out_of_memory_probability)
        ended.append(used[-1] > usable)
    assert 0.7 <= np.mean(held) <= 0.95
    assert np.mean(chances) == pytest.approx(np.mean(ended), abs=0.06)
    brier = np.mean((np.array(chances) - ended) ** 2)
    assert brier < 0.4 * np.mean(ended) * (1 - np.mean(ended))


def test_use_that_comes_and_goes_below_its_peak_is_no_rise(frames):
    """An iteration that takes and frees 10 GiB survives at its peak: head-room counts from there."""
    used = 60 * GIB + 10 * GIB * (np.arange(300) % 7 < 3)
    found = ask(with_memory(frames, used))
    assert found.trend is MemoryTrend.FLAT
    assert found.headroom_bytes == 10 * GIB
    assert found.out_of_memory_probability < 0.02


def test_what_a_job_loads_at_its_start_is_no_leak(frames):
    """A young job's ramp is not counted; while it is loading, and for a while after, there is an absence."""
    ramp = np.minimum(np.arange(300) * 1.0, 60.0) * GIB
    young = {"first_seen_s": frames.START_S, "width_s": 1.2}
    found = ask(with_memory(frames, ramp, **young))
    assert found.trend is MemoryTrend.FLAT
    assert found.out_of_memory_probability < 0.01
    loading = memory_outlook(with_memory(frames, ramp[:45], **young), SETTINGS)
    assert isinstance(loading, Absence)
    assert loading.why is Why.INSUFFICIENT_HISTORY
    assert "looks like a leak" in loading.reason


def test_a_restarted_process_begins_a_new_peak(frames):
    """After memory was set free the old peak hides no leak."""
    used = np.concatenate([np.full(100, 70 * GIB), 10 * GIB + 50 * 2**20 * np.arange(200)])
    stairs = staircase(used, 1.0)
    assert stairs is not None
    assert stairs.trend is MemoryTrend.LEAK
    assert stairs.peak_bytes == used[-1]


def test_the_device_nearest_to_its_end_speaks(frames):
    """One device of several leaks: the job's outlook is that device's."""
    flat, leaks = np.full(300, 60 * GIB), 40 * GIB + 60 * 2**20 * np.arange(300)
    frame = with_memory(frames, flat, leaks, flat)
    assert ask(frame).device == frame.device_keys[1].entity


@pytest.mark.parametrize(
    ("change", "why", "words"),
    [
        ({"device_keys": ()}, Why.MISSING_FIELD, "gpu_memory_used_bytes"),
        ({"usable_memory_bytes": {}}, Why.NO_CAPACITY, "not how much they have"),
    ],
)
def test_absences_are_honest(frames, change, why, words):
    """Without readings, or without a total, nothing is made up."""
    found = memory_outlook(replace(with_memory(frames, np.full(300, 60 * GIB)), **change), SETTINGS)
    assert isinstance(found, Absence)
    assert found.why is why
    assert words in found.reason


def test_readings_that_are_all_missing_are_an_absence(frames):
    """A column of gaps is no data."""
    found = memory_outlook(with_memory(frames, np.full(300, np.nan)), SETTINGS)
    assert isinstance(found, Absence)
    assert found.why is Why.NO_DATA


def test_a_job_forecast_holds_its_memory(frames):
    """The outlook is part of the job's forecast; data too old takes it away as everything else."""
    frame = with_memory(frames, np.full(300, 60 * GIB))
    assert isinstance(forecast_job(frame, now_s=frame.received_s, settings=SETTINGS).memory, MemoryOutlook)
    stale = forecast_job(frame, now_s=frame.received_s + 99, settings=SETTINGS).memory
    assert isinstance(stale, Absence)
    assert stale.why is Why.STALE


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.one_of(st.just(np.nan), st.floats(0, 2e12)), min_size=30, max_size=120),
    st.floats(1.0, 1e12),
    st.floats(0.1, 60.0),
)
def test_any_readings_are_answered(frames, used, usable, step_s):
    """Whatever was read: an absence, or finite figures in order and a chance between 0 and 1."""
    found = memory_outlook(with_memory(frames, np.array(used), usable=usable, step_s=step_s), SETTINGS)
    if isinstance(found, Absence):
        return
    low, middle, high = found.peak_ahead_bytes
    assert found.peak_bytes <= low <= middle <= high < np.inf
    assert 0.0 <= found.out_of_memory_probability <= 1.0
    assert found.full_in_s is None or found.full_in_s >= 0.0


def test_memory_freed_in_every_iteration_keeps_its_peak():
    """A trough that the job always comes back from is no restart."""
    used = np.where(np.arange(300) % 20 < 9, 20 * GIB, 60 * GIB)
    stairs = staircase(used[:285], 1.0)
    assert stairs is not None
    assert stairs.used_bytes == 20 * GIB
    assert stairs.peak_bytes == 60 * GIB
