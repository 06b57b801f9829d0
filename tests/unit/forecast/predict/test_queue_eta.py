"""Starts of waiting jobs: what a replay must say where the truth is known, and why it sometimes says nothing."""

from __future__ import annotations

import numpy as np
import pytest

from forecast.predict.ends_types import StartTime
from forecast.predict.queue_book import LEAST_JUDGED, QueueBook
from forecast.predict.queue_eta import MOST_PLACED, MOST_TASKS, pools_of, queue_order, start_times
from forecast.predict.queue_profile import FreeProfile
from forecast.predict.types import Absence, Why
from telemetry.ids import JobId
from telemetry.roster import JobRecord, JobState, NodeGpus, Roster

NOW = 1000.0


def running(name, gpus, start_s=0.0, backend="slurm", **more):
    return JobRecord(JobId(backend, name), JobState.RUNNING, gpu_count=gpus, start_s=start_s, **more)


def waiting(name, gpus, submit_s=500.0, backend="slurm", **more):
    return JobRecord(
        JobId(backend, name), JobState.WAITING, gpu_count=0, asked_gpu_count=gpus, submit_s=submit_s, **more
    )


def cluster(total, used, partitions=()):
    return (NodeGpus("n1", total, used, partitions=partitions),)


def ends_in(remaining_s, lasts_s=600.0):
    """Everything that runs ends after so long; everything that starts lasts so long."""
    return lambda record, age_s: np.full(8, remaining_s if record.state is JobState.RUNNING else lasts_s)


def said(roster, draw, name, backend="slurm"):
    return start_times(roster, NOW, draw, draws=8)[JobId(backend, name)]


@pytest.mark.parametrize("backend", ["slurm", "kubernetes"])
def test_waits_for_the_end_it_needs(backend):
    """With no GPU free a job starts when the one that runs ends; the next of the same size one job later."""
    jobs = (running("a", 8, backend=backend), waiting("b", 8, 500.0, backend), waiting("c", 8, 600.0, backend))
    roster = Roster(NOW, backend, jobs, cluster(8, 8))
    first, second = (said(roster, ends_in(300.0), name, backend) for name in ("b", "c"))
    assert (first.start_s, first.ahead_count) == (NOW + 300, 0)
    assert (second.start_s, second.ahead_count) == (NOW + 900, 1)


def test_back_fill_does_not_delay_the_first():
    """A short small job slips in before a large one; a small one that lasts longer than the gap does not."""
    jobs = (running("a", 6), waiting("large", 8, 1.0), waiting("small", 2, 2.0))
    roster = Roster(NOW, "slurm", jobs, cluster(8, 6))

    def draw(small_lasts_s):
        lasts = {"a": 1000.0, "large": 500.0, "small": small_lasts_s}
        return lambda record, age_s: np.full(8, lasts[record.job.name])

    assert said(roster, draw(100.0), "small").start_s == NOW
    assert said(roster, draw(100.0), "large").start_s == NOW + 1000
    assert said(roster, draw(2000.0), "small").start_s == NOW + 1500
    assert said(roster, draw(2000.0), "large").start_s == NOW + 1000


def test_priority_goes_first():
    """Higher priority before earlier submission; the same priority by submission."""
    order = queue_order([waiting("a", 1, 1.0, priority=5.0), waiting("b", 1, 2.0, priority=9.0), waiting("c", 1, 0.0)])
    assert [job.job.name for job in order] == ["b", "a", "c"]


def test_uncertain_ends_give_an_interval():
    """The interval spans what the draws span, and holds the median."""
    jobs = (running("a", 8), waiting("b", 8))
    answer = said(
        Roster(NOW, "slurm", jobs, cluster(8, 8)),
        lambda record, age_s: np.array([10.0, 20, 30, 40, 50, 60, 70, 800]),
        "b",
    )
    assert answer.low_s == NOW + 10
    assert answer.high_s == NOW + 800
    assert answer.low_s <= answer.start_s <= answer.high_s


def test_partitions_do_not_compete():
    """Free GPUs of another partition do not help; nodes that share a partition are one pool."""
    nodes = (NodeGpus("n1", 8, 8, partitions=("a",)), NodeGpus("n2", 8, 0, partitions=("b",)))
    jobs = (running("r", 8, partition="a"), waiting("w", 8, partition="a"))
    assert said(Roster(NOW, "slurm", jobs, nodes), ends_in(300.0), "w").start_s == NOW + 300
    assert len(pools_of(nodes)) == 2
    assert len(pools_of((*nodes, NodeGpus("n3", 8, 0, partitions=("a", "b"))))) == 1


@pytest.mark.parametrize(
    ("job", "why"),
    [
        (waiting("x", 16), Why.NO_CAPACITY),
        (waiting("x", None), Why.NO_DATA),
        (waiting("x", 4, reason="(Dependency)"), Why.HELD),
        (waiting("x", 4, reason="JobHeldUser"), Why.HELD),
        (waiting("x", 0), Why.NO_DATA),
        (JobRecord(JobId("slurm", "x"), JobState.WAITING), Why.MISSING_FIELD),
    ],
)
def test_reasons_for_absence(job, why):
    """What cannot be foreseen says why, and does not hold up the others."""
    answers = start_times(Roster(NOW, "slurm", (job, waiting("y", 4)), cluster(8, 0)), NOW, ends_in(1.0), draws=8)
    assert answers[job.job].why is why
    assert answers[JobId("slurm", "y")].start_s == NOW


def test_unknown_ends_are_said():
    """Without history nothing is replayed."""
    roster = Roster(NOW, "slurm", (running("a", 8), waiting("b", 8)), cluster(8, 8))
    answer = said(roster, lambda record, age_s: None, "b")
    assert isinstance(answer, Absence)
    assert answer.why is Why.INSUFFICIENT_HISTORY


def test_an_array_takes_a_place_for_each_task():
    """Two tasks of 4 GPUs fill the node, so that the job behind them waits for one to end."""
    jobs = (waiting("array", 4, 1.0, task_count=2), waiting("next", 8, 2.0))
    answers = start_times(Roster(NOW, "slurm", jobs, cluster(8, 0)), NOW, ends_in(0.0, 600.0), draws=8)
    assert answers[JobId("slurm", "array")].start_s == NOW
    assert answers[JobId("slurm", "next")].start_s == NOW + 600


def test_profile_never_gives_more_than_there_is():
    """However jobs are placed, free GPUs stay between none and all."""
    rng = np.random.default_rng(0)
    profile = FreeProfile(3, [(float(rng.uniform(0, 100)), 1) for _ in range(5)], 8)
    wanted = [(int(rng.integers(1, 9)), float(rng.uniform(1, 50))) for _ in range(60)]
    taken = [(profile.place(count, lasts_s), lasts_s, count) for count, lasts_s in wanted]
    assert np.isfinite([start_s for start_s, _, _ in taken]).all()
    for at_s, _, _ in taken:  # use is highest where something starts
        assert sum(count for start_s, lasts_s, count in taken if start_s <= at_s < start_s + lasts_s) <= 8
    assert profile.place(9, 1.0) == float("inf")


def replayed(draw, starts=LEAST_JUDGED + 10):
    """A queue in which each job waits just 100 s, and what the book says in the end."""
    book, at_s, answers = QueueBook(), 0.0, {}
    nodes = cluster(8, 8)
    for k in range(starts):
        at_s += 1000.0
        holder = running("holder", 8)
        new = waiting(f"w{k}", 8, at_s)
        answers = book.answers(Roster(at_s, "slurm", (holder, new), nodes), at_s, draw, draws=8)
        begun = running(f"w{k}", 8, at_s + 100.0, submit_s=at_s)
        book.answers(Roster(at_s + 101.0, "slurm", (begun,), nodes), at_s + 101.0, draw, draws=8)
    return next(iter(answers.values())), at_s


def test_a_bad_replay_gives_way():
    """A replay that errs by hours is replaced by the last wait, and says so; a right one is kept."""
    answer, at_s = replayed(ends_in(50000.0))
    assert isinstance(answer, StartTime)
    assert answer.model == "persistence"
    assert answer.start_s == pytest.approx(at_s + 100.0, abs=1.0)
    assert "waits as the last one" in answer.reason
    # Of thirty jobs the first had no wait before it, and the last has not started.
    assert "over 28 starts" in answer.reason
    kept, at_s = replayed(ends_in(100.0))
    assert kept.model == "replay"
    assert kept.start_s == at_s + 100.0
    assert "lay inside" in kept.reason


def test_arrays_count_by_their_tasks():
    """No more tasks are placed than one replay can hold; the jobs behind them are told so."""
    arrays = tuple(waiting(f"w{k:03}", 8, 500.0 + k, task_count=1000) for k in range(40))
    roster = Roster(NOW, "slurm", (running("a", 8), *arrays), cluster(8, 8))
    answers = list(start_times(roster, NOW, ends_in(300.0), draws=8).values())
    reached = MOST_PLACED // MOST_TASKS
    assert [isinstance(one, StartTime) for one in sorted(answers, key=lambda one: isinstance(one, Absence))] == [
        k < reached for k in range(40)
    ]
    assert {one.reason for one in answers if isinstance(one, Absence)} == {
        f"It waits behind the first {reached} jobs of its queue."
    }


def test_partitions_that_share_nodes_are_one_pool():
    """A node of two partitions joins what stood apart before it; nodes of no partition stay by themselves."""
    named = [("a",), ("b",), (), ("c",), ("a", "b"), ("b",), ()]
    pools = pools_of(NodeGpus(f"n{k}", 8, 2, partitions=names) for k, names in enumerate(named))
    assert sorted((tuple(sorted(pool.partitions)), pool.total, pool.free) for pool in pools) == [
        ((), 16, 12),
        (("a", "b"), 32, 24),
        (("c",), 8, 6),
    ]
