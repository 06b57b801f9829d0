"""An overload that was never seen before is foreseen from the jobs alone, and one that is over is soon forgotten."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from forecast.predict.settings import PredictSettings
from forecast.predict.worker import predict

MEETING_S = 56.4
"""With the jobs below, the first sample above 0.9 of the uplink."""


def _drift(frames, span_s):
    """Bursts of 0.7 s every 4.0 s and every 3.8 s that first overlap by more than half a sample at ``MEETING_S``.

    The second link carries the first job alone.
    """
    request = frames.two_jobs(second_period_s=3.8, lag_s=3.2, width_s=0.7, step_s=0.25, span_s=span_s)
    both = request.links.tx.values[0]
    alone = request.jobs[0].totals.values[request.jobs[0].totals.metric.index(frames.FABRIC)]
    links = frames.make_links([both, alone], 0.25, [frames.CAPACITY] * 2, ["leaf1:u1", "leaf1:u2"])
    return replace(request, links=links, settings=PredictSettings(link_horizon_s=15.0))


def _parted(frames, span_s, *, at_s=80.0):
    """Bursts that fall together until ``at_s``, when the second job pauses for 2 s."""
    request = frames.two_jobs(span_s=span_s)
    later = frames.two_jobs(span_s=span_s, lag_s=2.4)
    first, second = request.jobs
    row = second.totals.metric.index(frames.FABRIC)
    time_s = 0.5 * np.arange(second.totals.n_points)
    values = second.totals.values.copy()
    values[row] = np.where(time_s < at_s, values[row], later.jobs[1].totals.values[row])
    second = replace(second, totals=replace(second.totals, values=values))
    both = np.minimum(first.totals.values[first.totals.metric.index(frames.FABRIC)] + values[row], frames.CAPACITY)
    links = frames.make_links([both], 0.5, [frames.CAPACITY], ["leaf1:u1"])
    return replace(request, jobs=(first, second), links=links)


@pytest.mark.parametrize("ahead_s", [5.0, 8.0, 10.0])
def test_first_overload_is_foreseen(frames, ahead_s):
    """Bursts that have never met: high chance and the right time before the first sample passes the threshold."""
    uplink = predict(_drift(frames, MEETING_S - ahead_s)).links[0]
    assert uplink.above_ratio == 0.0
    assert uplink.model == "jobs"
    assert uplink.probability > 0.6
    assert uplink.onset_s == pytest.approx(frames.START_S + MEETING_S, abs=4.2)


def test_no_warning_long_before(frames):
    """While the bursts cannot meet within the horizon, the chance stays low."""
    uplink = predict(_drift(frames, MEETING_S - 24.0)).links[0]
    assert uplink.probability < 0.3
    assert uplink.onset_s is None


def test_link_of_one_job_stays_calm(frames):
    """What the two jobs would do together is no matter of a link that carries one of them."""
    for ahead_s in (5.0, 10.0, 24.0):
        assert predict(_drift(frames, MEETING_S - ahead_s)).links[1].probability < 0.05


def test_reason_says_what_was_scored(frames):
    """Without a crossing the choice rests on the use, and the sentence and the skill say so."""
    uplink = predict(_drift(frames, MEETING_S - 8.0)).links[0]
    assert "no sample passed 0.90 in the window, so it is scored on use" in uplink.reason
    assert uplink.skill.skill > 0.1
    assert uplink.skill.scored > 100


def test_noise_is_not_believed_about_the_unseen(frames):
    """Jobs whose traffic follows nothing foresee nothing: climatology is served, and says that nothing beat it."""
    request = _drift(frames, MEETING_S - 8.0)
    random = np.random.default_rng(11)
    jobs, total = [], 0.0
    for job in request.jobs:
        values = job.totals.values.copy()
        row = job.totals.metric.index(frames.FABRIC)
        values[row] = random.uniform(0.0, 20e9, values.shape[1])
        total = total + values[row]
        devices = replace(job.devices, values=random.uniform(0.0, 1.0, job.devices.values.shape))
        jobs.append(replace(job, devices=devices, totals=replace(job.totals, values=values)))
    links = frames.make_links([total], 0.25, [frames.CAPACITY], ["leaf1:u1"])
    uplink = predict(replace(request, jobs=tuple(jobs), links=links)).links[0]
    assert uplink.model == "climatology"
    assert uplink.skill.skill == 0.0
    assert uplink.probability < 0.1
    assert "nothing beat climatology" in uplink.reason


def test_relieved_link_is_soon_called_calm(frames):
    """After the jobs part their own rhythms are served again, and the chance falls though the past was full."""
    assert predict(_parted(frames, 80.0)).links[0].probability > 0.9
    after = predict(_parted(frames, 100.0)).links[0]
    assert after.above_ratio > 0.05
    assert after.model == "jobs"
    assert after.skill.skill > 0.2
    assert after.probability < 0.2
