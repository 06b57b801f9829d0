"""Laws of jobs in motion: known figures of two jobs on one link, exactness, repeatability."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forecast.predict.types import PhaseName
from forecast.simulator.cluster import SimCluster
from forecast.simulator.fabric import FabricSpec
from forecast.simulator.scenarios import ClusterSpec, demo_spec
from forecast.simulator.workload import JobSpec
from telemetry.errors import ConfigError

LINK = 100.0


def two_jobs(share: float, apart_s: float, *, jitter_ratio: float = 0.0) -> SimCluster:
    """Two equal jobs of 1 s on one uplink, each able to fill it alone for ``share`` of its iteration."""
    wires = FabricSpec(("a", "b", "c", "d"), 2, 1, 1, LINK, LINK)
    rest = dict(
        load_s=0.0, compute_s=1.0 - share, communicate_s=share, rate_bytes_per_s=LINK, jitter_ratio=jitter_ratio
    )
    jobs = (
        JobSpec("one", "x", ("a", "c"), **rest),
        JobSpec("two", "x", ("b", "d"), starts_after_s=apart_s, **rest),
    )
    return SimCluster(1, ClusterSpec(wires, jobs, gpus_per_node=2, background_bytes_per_s=0.0))


@pytest.mark.parametrize(("share", "stretch"), [(0.5, 1.5), (0.4, 1.4), (0.3, 1.3)])
def test_equal_jobs_that_start_together_stretch_by_their_share_and_never_separate(share: float, stretch: float) -> None:
    """Under max-min fairness both bursts take twice as long, iteration after iteration."""
    cluster = two_jobs(share, 0.0)
    cluster.advance(60.0)
    for job in cluster.jobs:
        lengths = np.diff(job.starts)
        assert lengths == pytest.approx(np.full(lengths.size, stretch), rel=1e-9)


@pytest.mark.parametrize("share", [0.5, 0.4, 0.3])
def test_equal_jobs_shifted_by_the_communication_time_do_not_disturb_each_other(share: float) -> None:
    """The iteration is exactly what it is alone."""
    cluster = two_jobs(share, share)
    cluster.advance(60.0)
    for job in cluster.jobs:
        assert np.diff(job.starts) == pytest.approx(np.ones(len(job.starts) - 1), rel=1e-9)


def test_a_communication_share_above_half_cannot_fully_interleave() -> None:
    """At 0.6 together 1.6, apart 1.2: the link itself is the limit."""
    together, apart = two_jobs(0.6, 0.0), two_jobs(0.6, 0.6)
    for cluster, length_s in ((together, 1.6), (apart, 1.2)):
        cluster.advance(60.0)
        assert cluster.jobs[0].measured_period_s == pytest.approx(length_s, rel=1e-6)


def test_one_pause_cures_a_collision() -> None:
    """``shift`` pauses once, at the boundary, and the jobs stay apart from then on."""
    cluster = two_jobs(0.5, 0.0)
    cluster.advance(20.3)
    cluster.shift("two", 0.5)
    cluster.advance(60.0)
    assert [job.applied_offset_s for job in cluster.jobs] == [0.0, 0.5]
    assert [job.measured_period_s for job in cluster.jobs] == pytest.approx([1.0, 1.0], rel=1e-9)
    assert (np.diff(cluster.jobs[1].starts) > 1.9).sum() == 1


def test_the_uplink_is_overloaded_only_while_bursts_overlap() -> None:
    """The truth's overloads are there together and gone apart."""
    together, shifted = two_jobs(0.3, 0.0), two_jobs(0.3, 0.5)
    # Each alone fills the link, so overload here means above 90 %: alone 0.3 s, together 0.6 s.
    for cluster, length_s in ((together, 0.6), (shifted, 0.3)):
        cluster.advance(10.0)
        closed = [over for over in cluster.overloads() if over.end_s is not None and str(over.port.id) == "leaf1:3"]
        assert closed[3].end_s - closed[3].start_s == pytest.approx(length_s)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.floats(0.001, 3.0), min_size=1, max_size=25), st.integers(0, 1000))
def test_looking_more_often_changes_nothing(steps: list[float], seed: int) -> None:
    """The state at a time does not depend on the steps in which it was reached, to the last bit."""
    often, once = SimCluster(seed, demo_spec()), SimCluster(seed, demo_spec())
    for to_s in np.cumsum(steps):
        often.advance(float(to_s))
        often.link_bytes()
    once.advance(float(np.cumsum(steps)[-1]))
    assert np.array_equal(often.link_bytes(), once.link_bytes())
    assert np.array_equal(often.gauges.values, once.gauges.values)
    assert np.array_equal(often.gauges.energy_joules, once.gauges.energy_joules)


def test_byte_counters_never_fall_and_balance() -> None:
    """Counters rise with time, and every byte that enters a leaf from below or above leaves it again."""
    cluster = SimCluster(3, demo_spec())
    before = cluster.link_bytes()
    for to_s in np.arange(0.37, 40.0, 0.37):
        cluster.advance(float(to_s))
        now = cluster.link_bytes()
        assert (now >= before).all()
        before = now
    wires, carried = cluster.fabric, before - cluster.spec.background_bytes_per_s * cluster.now_s
    for leaf in range(wires.n_leaves):
        hosts = [i for i, node in enumerate(wires.spec.nodes) if wires.leaf_of(node) == leaf]
        into = sum(carried[wires.host_tx(i)] for i in hosts) + sum(carried[wires.down(leaf, s)] for s in range(2))
        out = sum(carried[wires.host_rx(i)] for i in hosts) + sum(carried[wires.up(leaf, s)] for s in range(2))
        assert into == pytest.approx(out, rel=1e-9)


def test_a_job_sends_exactly_its_bytes_each_iteration() -> None:
    """Work is conserved however the link is shared."""
    cluster = two_jobs(0.5, 0.2)
    cluster.advance(45.0)
    for job, host in zip(cluster.jobs, (0, 1), strict=True):
        begun = job.iteration + 1
        left = job.remaining_bytes - (cluster.link_rates()[host] * (cluster.now_s - cluster._event_s))
        unsent = left if job.communicating else (0.0 if job.phase is PhaseName.IDLE else job.spec.communicate_bytes)
        assert cluster.link_bytes()[host] == pytest.approx(begun * job.spec.communicate_bytes - unsent)


def test_the_same_seed_gives_the_same_cluster_and_another_seed_another() -> None:
    """Seeded means repeatable."""
    one, same, other = (SimCluster(seed, demo_spec()) for seed in (5, 5, 6))
    for cluster in (one, same, other):
        cluster.advance(33.3)
    assert np.array_equal(one.gauges.values, same.gauges.values)
    assert list(one.jobs[0].starts) == list(same.jobs[0].starts)
    assert list(one.jobs[0].starts) != list(other.jobs[0].starts)


def test_shifting_one_job_leaves_the_others_rhythm_alone() -> None:
    """Each job draws from its own random stream."""
    still, moved = SimCluster(5, demo_spec()), SimCluster(5, demo_spec())
    for cluster in (still, moved):
        cluster.advance(10.0)
    moved.shift("kubernetes:nlp:lm-b", 1.9)
    for cluster in (still, moved):
        cluster.advance(50.0)
    assert list(still.jobs[2].starts) == list(moved.jobs[2].starts)
    assert list(still.jobs[1].starts) != list(moved.jobs[1].starts)


def test_the_demonstration_collides_on_one_uplink_and_a_shift_by_half_a_period_cures_it() -> None:
    """Six rhythms; only the pair is slowed; after the shift nothing is overloaded and both take 4 s again."""
    cluster = SimCluster(7, demo_spec())
    cluster.advance(40.0)
    true = {job.spec.name: job.spec.period_s for job in cluster.jobs}
    assert sorted(true.values()) == pytest.approx([2.0, 3.1, 4.0, 4.0, 5.3, 7.5])
    for job in cluster.jobs:
        slowed = job.spec.name in ("vision-a", "lm-b")
        assert job.measured_period_s / job.spec.period_s == pytest.approx(1.15 if slowed else 1.0, abs=0.02)
    assert {str(over.port.id) for over in cluster.overloads()} == {"leaf1:9", "spine1:1"}
    cluster.shift("lm-b", 2.0)
    cluster.advance(52.0)
    count = len(list(cluster.overloads()))
    cluster.advance(120.0)
    assert len(list(cluster.overloads())) == count
    assert [job.measured_period_s for job in cluster.jobs[:2]] == pytest.approx([4.0, 4.0], rel=0.01)


def test_a_drifting_onset_leaves_the_fabric_clear_first_and_then_overloads_it() -> None:
    """Two clean rhythms come first, so that the overload can be foreseen from them."""
    cluster = SimCluster(7, demo_spec(onset="drift"))
    cluster.advance(100.0)
    overloads = list(cluster.overloads())
    assert 30.0 < min(over.start_s for over in overloads) < 45.0
    assert [job.measured_period_s > 4.2 for job in cluster.jobs[:2]] == [True, True]


def test_checkpoints_and_evaluations_come_when_due_and_send_nothing() -> None:
    """Every second iteration a checkpoint, every third an evaluation; the fabric rests during both."""
    wires = FabricSpec(("a", "b"), 1, 1, 1, LINK, LINK)
    spec = JobSpec(
        "one", "x", ("a", "b"), 0.1, 0.5, 0.4, LINK, jitter_ratio=0.0,
        checkpoint_every=2, checkpoint_s=1.0, evaluate_every=3, evaluate_s=2.0,
    )  # fmt: skip
    cluster = SimCluster(1, ClusterSpec(wires, (spec,), gpus_per_node=2, background_bytes_per_s=0.0))
    seen: list[PhaseName] = []
    for to_s in np.arange(0.05, 13.0, 0.1):
        before = cluster.link_bytes()[0]
        phase = cluster.jobs[0].phase
        cluster.advance(float(to_s))
        if cluster.jobs[0].phase is phase and phase is not PhaseName.COMMUNICATE:
            assert cluster.link_bytes()[0] == pytest.approx(before)
        if not seen or seen[-1] is not cluster.jobs[0].phase:
            seen.append(cluster.jobs[0].phase)
    iteration = [PhaseName.LOAD, PhaseName.COMPUTE, PhaseName.COMMUNICATE]
    checkpoint, evaluate = [PhaseName.CHECKPOINT], [PhaseName.EVALUATE]
    want = [*iteration, *iteration, *checkpoint, *iteration, *evaluate, *iteration, *checkpoint, *iteration, *iteration]
    assert seen[: len(want)] == want
    assert cluster.jobs[0].measured_period_s == pytest.approx(1.0)


@pytest.mark.parametrize("offset_s", [0.0, -1.0, float("nan"), float("inf"), 1e9])
def test_a_pause_that_cannot_be_is_refused(offset_s: float) -> None:
    """Nothing is paused then."""
    cluster = two_jobs(0.5, 0.0)
    with pytest.raises(ConfigError, match="offset_s"):
        cluster.shift("one", offset_s)
    assert cluster.jobs[0].pending_offset_s == 0.0


def test_an_unknown_job_is_refused_with_the_known_ones() -> None:
    """The sentence lists what can be shifted."""
    with pytest.raises(ConfigError, match="kubernetes:x:one, kubernetes:x:two"):
        two_jobs(0.5, 0.0).shift("three", 1.0)


def test_specs_that_clash_are_refused() -> None:
    """One job to a host, one name to a job, a known onset."""
    wires = FabricSpec(("a", "b"))
    one = JobSpec("one", "x", ("a",), 0.1, 0.1, 0.1, 1.0)
    with pytest.raises(ConfigError, match="share a node"):
        ClusterSpec(wires, (one, JobSpec("two", "x", ("a",), 0.1, 0.1, 0.1, 1.0)))
    with pytest.raises(ConfigError, match="same name"):
        ClusterSpec(wires, (one, JobSpec("one", "x", ("b",), 0.1, 0.1, 0.1, 1.0)))
    with pytest.raises(ConfigError, match="onset"):
        demo_spec(onset="sudden")


@pytest.mark.parametrize(
    "change",
    [
        {"compute_s": 0.0},
        {"load_s": -1.0},
        {"rate_bytes_per_s": 0.0},
        {"checkpoint_s": float("inf")},
        {"jitter_ratio": 0.5},
        {"ramp_ratio": 0.0},
        {"nodes": ()},
        {"scheduler": "cron"},
    ],
)
def test_a_job_that_cannot_run_is_refused(change: dict) -> None:
    """The sentence names the job; nothing loops for ever."""
    rest = dict(nodes=("a",), load_s=0.1, compute_s=0.1, communicate_s=0.1, rate_bytes_per_s=1.0)
    with pytest.raises(ConfigError, match="simulated job one"):
        JobSpec("one", "x", **(rest | change))
