"""Shift turns bursts apart; hold says why nothing is done."""

from __future__ import annotations

from dataclasses import replace

import pytest

from forecast.advisor.checks import NOW_S, sample_collision
from forecast.advisor.collisions import common_turns
from forecast.advisor.rules.hold import hold
from forecast.advisor.rules.shift import shift
from forecast.advisor.types import Forecasts, Limits
from forecast.predict.types import Absence, Cause, Why
from forecast.predict.worker import predict
from telemetry.ids import JobId, LinkId
from telemetry.topology import ClusterSnapshot, Topology

LIMITS = Limits()


def situation(frames, **kwargs):
    request = frames.two_jobs(**kwargs)
    reply = predict(request)
    snapshot = ClusterSnapshot(request.now_s, tuple(job.job for job in request.jobs), request.topology)
    return snapshot, Forecasts({job.job: job for job in reply.jobs}, {link.link: link for link in reply.links})


def test_two_bursts_that_meet_are_turned_apart(frames):
    """From frames to advice: an offset around half a period, and hardly any overload left."""
    (advice,) = shift(*situation(frames), LIMITS)
    assert advice.link == LinkId("leaf1", "u1", "leaf")
    # A pause of the second job, which comes 0.4 s later already, adds to that lag.
    assert 0.8 <= advice.action["offset_s"] + 0.4 * (advice.job.name == "2") <= 2.8
    assert advice.predicted.baseline > 0.1
    assert advice.predicted.median < 0.02
    assert advice.predicted.low <= advice.predicted.median <= advice.predicted.high < advice.predicted.baseline
    assert advice.inverse["offset_s"] == pytest.approx(4.0 - advice.action["offset_s"], abs=0.05)
    assert "slurm:1" in advice.reason
    assert "slurm:2" in advice.reason
    assert "GPU seconds" in advice.reason
    assert advice.expires_at_s == advice.made_at_s + LIMITS.valid_s


def test_offset_really_parts_the_bursts(frames):
    """Laid out again with the advised offset, the same jobs no longer pass the threshold."""
    (advice,) = shift(*situation(frames), LIMITS)
    sign = 1.0 if advice.job.name == "2" else -1.0
    moved = frames.two_jobs(lag_s=0.4 + sign * advice.action["offset_s"])
    use = moved.links.tx.values[0] / frames.CAPACITY
    assert (use > 0.9).mean() == 0.0


def test_smaller_job_pauses():
    """Of two jobs, the one whose pause costs fewer GPU seconds is moved."""
    (advice,) = shift(*sample_collision(), LIMITS)
    assert advice.job == JobId("slurm", "2")
    assert advice.action["against"] == "slurm:1"
    assert advice.numbers["cost_gpu_s"] == pytest.approx(advice.action["offset_s"], rel=0.01)


def test_double_period_fits_one_circle(frames):
    """Periods of 4 s and 8 s have a common circle; the advice is measured over turns of it."""
    (advice,) = shift(*situation(frames, second_period_s=8.0), LIMITS)
    assert advice.numbers["circle_s"] == pytest.approx(8.0, rel=0.01)
    assert advice.predicted.window_s == pytest.approx(48.0, rel=0.01)


def test_incompatible_periods_hold(frames):
    """4 s and 5.3 s drift through each other whatever the offset: nothing is moved, and the reason says both."""
    args = situation(frames, second_period_s=5.3)
    assert shift(*args, LIMITS) == []
    (advice,) = hold(*args, LIMITS)
    assert advice.action == {}
    assert advice.predicted is None
    assert "5.3" in advice.reason


@pytest.mark.parametrize(
    ("first_s", "second_s", "turns"),
    [
        (4.0, 4.0, (1, 1)),
        (4.0, 4.1, (1, 1)),
        (4.0, 8.1, (2, 1)),
        (9.0, 3.0, (1, 3)),
        (4.0, 6.0, (3, 2)),
        (4.0, 5.3, None),
    ],
)
def test_common_turns(first_s, second_s, turns):
    """Small-integer ratios within 3 % share a circle."""
    assert common_turns(first_s, second_s) == turns


def test_drifting_pair_expires_sooner(frames):
    """Where the periods really differ, the offset is right for a while only."""
    (advice,) = shift(*situation(frames, second_period_s=4.08, lag_s=-2.0), LIMITS)
    assert advice.expires_at_s - advice.made_at_s < LIMITS.valid_s
    assert advice.numbers["drift_s_per_turn"] == pytest.approx(0.08, abs=0.02)


def test_calm_cluster_holds_once(frames):
    """Nothing congested: one hold for the whole cluster with the highest chance seen."""
    args = situation(frames, lag_s=2.0)
    assert shift(*args, LIMITS) == []
    (advice,) = hold(*args, LIMITS)
    assert advice.link is None
    assert "no link is likely" in advice.reason


def changed(**changes):
    snapshot, forecasts = sample_collision()
    key, link = next(iter(forecasts.links.items()))
    return snapshot, Forecasts(forecasts.jobs, {key: replace(link, **changes)})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"skill": None}, "could not be scored"),
        ({"causes": (Cause(JobId("slurm", "1"), 0.9),)}, "no second job"),
        ({"causes": ()}, "no known job"),
        ({"causes": (Cause(JobId("slurm", "1"), 0.5), Cause(JobId("slurm", "9"), 0.5))}, "no forecast of slurm:9"),
        ({"mean_use_ratio": None}, "unknown"),
        ({"mean_use_ratio": 0.02}, "explain"),
        ({"age_s": 500.0}, "500 s old"),
    ],
)
def test_obstacles_hold_with_their_reason(changes, words):
    """Each thing that stands in the way of a shift is said, and nothing moves."""
    args = changed(**changes)
    assert shift(*args, LIMITS) == []
    (advice,) = hold(*args, LIMITS)
    assert words in advice.reason


@pytest.mark.parametrize("why", [Why.STALE, Why.PARTIAL, Why.NO_CAPACITY, Why.MODEL_ERROR])
def test_absent_forecasts_hold_with_their_reason(why):
    """No forecast of the links: the hold repeats why."""
    (advice,) = hold(*changed(probability=Absence(why, "the words of the absence")), LIMITS)
    assert "the words of the absence" in advice.reason


def test_jobs_without_links_hold():
    """Without port counters nothing can be foreseen, and that is said."""
    snapshot, forecasts = sample_collision()
    (advice,) = hold(snapshot, Forecasts(forecasts.jobs, {}), LIMITS)
    assert "no port counters" in advice.reason


def test_ids_are_stable_while_numbers_move():
    """A little later, with slightly other numbers, the same advice has the same id."""
    snapshot, forecasts = sample_collision()
    (first,) = shift(snapshot, forecasts, LIMITS)
    key, link = next(iter(forecasts.links.items()))
    later = Forecasts(forecasts.jobs, {key: replace(link, probability=0.9, above_ratio=0.24)})
    (second,) = shift(replace(snapshot, at_s=NOW_S + 5.0), later, LIMITS)
    assert first.id == second.id
    assert first.made_at_s != second.made_at_s


def test_bursts_that_fill_the_circle_cannot_be_parted():
    """Two jobs that each use the link most of the time: the best offset is named as not worth it."""
    snapshot, forecasts = sample_collision()
    jobs = {}
    for key, job in forecasts.jobs.items():
        (metric, circle), *_ = job.duty.items()
        mean = circle.mean.copy()
        mean[: round(0.85 * mean.size)] = 24e9
        jobs[key] = replace(job, duty={metric: replace(circle, mean=mean, low=0.95 * mean, high=1.05 * mean)})
    key, link = next(iter(forecasts.links.items()))
    full = Forecasts(jobs, {key: replace(link, mean_use_ratio=0.82, above_ratio=0.8)})
    assert shift(snapshot, full, LIMITS) == []
    (advice,) = hold(snapshot, full, LIMITS)
    assert "would still leave" in advice.reason


def test_nothing_in_nothing_out():
    """No jobs and no links: silence."""
    empty = ClusterSnapshot(NOW_S, (), Topology())
    assert shift(empty, Forecasts(), LIMITS) == []
    assert hold(empty, Forecasts(), LIMITS) == []
