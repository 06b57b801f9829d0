"""Links: chance, onset, causes, and reasons."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from forecast.predict.links import forecast_links
from forecast.predict.settings import PredictSettings
from forecast.predict.types import Absence, QuantilePath, Why
from forecast.predict.worker import predict
from telemetry.topology import Topology


@pytest.fixture(scope="module")
def collision(frames):
    return predict(frames.two_jobs())


def test_collision_is_foreseen_with_causes(frames, collision):
    """Two bursts that meet on an uplink: high chance, skill, the right jobs, and an onset in time."""
    link = collision.links[0]
    assert link.probability > 0.9
    assert link.skill.skill > 0.5
    assert [cause.job.name for cause in link.causes[:2]] == ["1", "2"]
    assert link.causes[0].share_ratio == pytest.approx(30 / 58, abs=0.06)
    assert sum(cause.share_ratio for cause in link.causes) <= 1.01
    assert link.data_at_s < link.onset_s <= link.data_at_s + 5.0
    assert 0.5 <= link.overload_s <= 5.0
    assert isinstance(link.path, QuantilePath)
    assert link.path.skill.skill > 0.3
    assert "scored on when it next crosses" in link.reason


def test_onset_is_when_the_overload_really_comes(frames):
    """The expected first crossing is the first sample that really crosses, within a sample."""
    request = frames.two_jobs(span_s=140.0)
    tx = request.links.tx.values
    cut = 244
    links = frames.make_links(tx[:, :cut], 0.5, request.links.capacity_bytes_per_s, request.links.links)
    jobs = tuple(
        replace(
            job,
            data_at_s=links.data_at_s,
            received_s=links.received_s,
            devices=job.devices.until(cut),
            totals=job.totals.until(cut),
        )
        for job in request.jobs
    )
    link = predict(replace(request, now_s=links.received_s, jobs=jobs, links=links)).links[0]
    use = tx[0, cut:] / frames.CAPACITY
    truth_s = links.data_at_s + 0.5 * (1 + int(np.flatnonzero(use > 0.9)[0]))
    assert link.onset_s == pytest.approx(truth_s, abs=0.5)


def test_apart_jobs_are_no_congestion(frames):
    """Half a period apart, the same jobs give hardly any chance and no onset."""
    link = predict(frames.two_jobs(lag_s=2.0)).links[0]
    assert link.probability < 0.1
    assert link.onset_s is None
    assert link.overload_s < 0.2


def test_overload_of_two_rhythms_is_foreseen_before_it_was_ever_seen(frames):
    """Bursts that drift towards each other: the jobs' own rhythms foresee what the link never showed."""
    request = frames.two_jobs(second_period_s=4.3, lag_s=0.6, width_s=0.6, span_s=40.0, step_s=0.25)
    link = predict(request).links[0]
    assert link.above_ratio == 0.0
    assert link.model == "jobs"
    assert link.probability > 0.5
    assert "no sample passed 0.90 in the window, so it is scored on use: skill" in link.reason
    assert f"skill {link.skill.skill:.2f} against climatology" in link.reason


def test_unknown_capacity_is_an_absence(collision):
    """Without a capacity there is no use and no chance, and the mend is named."""
    link = collision.links[1]
    assert link.probability.why is Why.NO_CAPACITY
    assert link.capacity_bytes_per_s is None
    assert link.use_ratio is None
    assert "export" in link.reason


def test_silent_link_has_climatology(collision):
    """A link that carries nothing has a chance near 0 from its own past, and says so."""
    link = collision.links[2]
    assert 0.0 <= link.probability < 0.01
    assert link.model == "climatology"
    assert link.use_ratio == 0.0
    assert isinstance(link.path, Absence)


def test_noise_serves_climatology_with_zero_skill(frames):
    """Where nothing beats the link's own frequency, that is what is served."""
    random = np.random.default_rng(3)
    tx = random.uniform(0.0, 1.0, (1, 240)) * frames.CAPACITY
    links = frames.make_links(tx, 0.5, [frames.CAPACITY], ["leaf1:u1"])
    link = forecast_links(links, [], {}, frames.topology(), now_s=links.received_s, settings=PredictSettings())[0]
    assert link.model == "climatology"
    assert link.skill.skill == 0.0
    # One sample in ten is above, so most stretches of twenty hold one.
    assert 0.6 < link.probability < 1.0
    assert link.causes == ()


def test_own_rhythm_is_used_without_any_job(frames):
    """A link that no job explains still has a rhythm of its own."""
    at_s = frames.START_S + 0.5 * np.arange(240)
    tx = frames.CAPACITY * frames.burst(at_s, 6.0, 0.3, 1.5, 0.5)
    links = frames.make_links(tx, 0.5, [frames.CAPACITY], ["leaf1:u1"])
    link = forecast_links(links, [], {}, Topology(), now_s=links.received_s, settings=PredictSettings())[0]
    assert link.model in ("rhythm", "moments")
    assert link.skill.skill > 0.5


def test_old_frame_is_stale_everywhere(frames):
    """Every link says how old its data is."""
    request = frames.two_jobs()
    late = predict(replace(request, now_s=request.now_s + 60.0))
    assert all(link.probability.why is Why.STALE for link in late.links)


def test_gaps_short_and_empty_rows_have_reasons(frames):
    """No data, too few points, and gaps: no crash, no number that is not one."""
    tx = np.full((3, 60), np.nan)
    tx[1, -3:] = 1e9
    tx[2] = np.where(np.arange(60) % 3 == 0, np.nan, 20e9)
    links = frames.make_links(tx, 0.5, [frames.CAPACITY] * 3, ["a:1", "b:1", "c:1"])
    found = forecast_links(links, [], {}, Topology(), now_s=links.received_s, settings=PredictSettings())
    assert found[0].probability.why is Why.NO_DATA
    assert found[1].probability.why is Why.INSUFFICIENT_HISTORY
    assert found[1].probability.points_present == 3
    assert 0.0 <= found[2].probability <= 1.0
    assert found[2].use_ratio == pytest.approx(0.4)


def test_job_under_one_leaf_is_not_blamed_for_its_uplink(frames):
    """Traffic that never leaves the leaf is no cause, however alike it looks."""
    request = frames.two_jobs()
    local = frames.make_job("3", nodes=("n5", "n6"), lag_s=0.0, rate=30e9, seed=9)
    link = predict(replace(request, jobs=(*request.jobs, local))).links[0]
    assert "3" not in [cause.job.name for cause in link.causes]


def test_probability_starts_after_the_age_of_the_data(frames):
    """With data four steps old, the onset is not before now."""
    request = frames.two_jobs()
    link = predict(replace(request, now_s=request.links.received_s + 2.0)).links[0]
    assert link.onset_s >= link.data_at_s + 2.0
    assert link.probability > 0.9


def test_same_answer_again(frames, collision):
    """Forecasting is deterministic."""
    again = predict(frames.two_jobs())
    assert [str(link) for link in again.links] == [str(link) for link in collision.links]
