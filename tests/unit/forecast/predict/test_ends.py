"""Ends of running jobs: learnt from lists, honest while history is small, never beyond the limit."""

from __future__ import annotations

import numpy as np
import pytest

from forecast.predict.ends import EndsBook, kind_of, sample_remaining
from forecast.predict.ends_types import RemainingTime, StepProgress
from forecast.predict.types import Absence, Why
from models.duration_bins import bell_at
from telemetry.ids import JobId
from telemetry.roster import JobRecord, JobState, Roster


def job(number, start_s, state=JobState.RUNNING, **more):
    facts = {"user": "ann", "account": "lab", "partition": "gpu", "gpu_count": 8, "name": f"run-{number}"} | more
    return JobRecord(JobId("slurm", str(number)), state, start_s=start_s, **facts)


def watched(count, lasts_s=3600.0, poll_s=60.0):
    """A book that saw jobs come and go one after another, each listed every minute; and the time after."""
    book, at_s = EndsBook(), 1000.0
    for number in range(count):
        start_s = at_s + 1.0
        while at_s < start_s + lasts_s:
            at_s += poll_s
            book.observe(Roster(at_s, "slurm", (job(number, start_s),)))
        at_s += poll_s
        book.observe(Roster(at_s, "slurm", ()))
    return book, at_s


def test_history_gives_the_end():
    """After hour-long jobs, one that has run half an hour has about half an hour to go, inside its interval."""
    book, at_s = watched(30)
    assert book.ended_count == 30
    said = book.remaining(job(99, at_s - 1800.0), at_s)
    assert isinstance(said, RemainingTime)
    assert said.point_s == pytest.approx(1800, rel=0.5)
    assert said.low_s <= said.point_s <= said.high_s
    assert said.model == "history"
    assert "30 jobs ended" in said.reason


def test_too_little_history_is_said():
    """Below twenty ended jobs there is no forecast, and the counts are told."""
    book, at_s = watched(3)
    said = book.remaining(job(99, at_s - 10.0), at_s)
    assert isinstance(said, Absence)
    assert said.why is Why.INSUFFICIENT_HISTORY
    assert (said.points_present, said.points_needed) == (3, 20)


def test_steps_alone_are_enough():
    """A job that reports its plan has an end without any history: 500 steps of 2 s to go."""
    said = EndsBook().remaining(job(1, 0.0), 1000.0, StepProgress(500, 1000, 2.0))
    assert isinstance(said, RemainingTime)
    assert said.model == "steps"
    assert said.point_s == pytest.approx(1000, rel=0.35)
    assert said.low_s < 1000 < said.high_s


def test_steps_and_history_are_blended():
    """Steps that say three hours outweigh a history of one, but an early end stays inside the interval's reach."""
    book, at_s = watched(30)
    said = book.remaining(job(99, at_s - 600.0), at_s, StepProgress(100, 1900, 6.0))
    assert isinstance(said, RemainingTime)
    assert said.model == "history+steps"
    assert said.point_s == pytest.approx(10800, rel=0.3)
    assert said.low_s < 6000


def test_a_limit_is_never_passed():
    """Whatever history says, the job ends at its limit."""
    book, at_s = watched(30)
    said = book.remaining(job(99, at_s - 600.0, time_limit_s=900.0), at_s)
    assert isinstance(said, RemainingTime)
    assert said.high_s <= 300.0
    assert said.limit_s == 300.0


@pytest.mark.parametrize("state", [JobState.WAITING, JobState.ENDED, JobState.UNKNOWN])
def test_only_running_jobs_have_an_end(state):
    """A job that waits or is over gets a reason."""
    book, at_s = watched(25)
    assert isinstance(book.remaining(job(99, at_s, state), at_s), Absence)


def test_an_empty_list_after_many_jobs_is_doubted():
    """When every job vanishes at once nothing is learnt: it is the list that failed."""
    book = EndsBook()
    jobs = tuple(job(k, 100.0) for k in range(30))
    book.observe(Roster(200.0, "slurm", jobs))
    book.observe(Roster(260.0, "slurm", ()))
    assert book.ended_count == 0


def test_ends_in_a_long_gap_are_not_learnt():
    """After an hour without lists nobody knows when a job ended."""
    book = EndsBook()
    book.observe(Roster(200.0, "slurm", (job(1, 150.0), job(2, 150.0))))
    book.observe(Roster(4000.0, "slurm", (job(2, 150.0),)))
    assert book.ended_count == 0


def test_a_restart_is_no_end():
    """A job that was started again has not ended, and begins anew."""
    book = EndsBook()
    book.observe(Roster(200.0, "slurm", (job(1, 150.0),)))
    book.observe(Roster(260.0, "slurm", (job(1, 250.0, restarts=1),)))
    book.observe(Roster(230.0, "slurm", ()))  # an old list
    assert book.ended_count == 0
    book.observe(Roster(320.0, "slurm", ()))
    assert book.ended_count == 1


def test_runs_of_a_sweep_are_of_one_kind():
    """Names that differ in digits only are the same; another size is not the same group and size."""
    assert kind_of(job(1, 0.0)) == kind_of(job(2, 0.0))
    assert kind_of(job(1, 0.0))[3] != kind_of(job(1, 0.0, gpu_count=4))[3]


def test_samples_follow_the_distribution():
    """Drawn remaining times have its quantiles, the same for the same seed, and are never negative."""
    drawn = sample_remaining(bell_at(3600.0, 0.5), 0.0, 400, 1)
    assert np.median(drawn) == pytest.approx(3600, rel=0.15)
    assert np.array_equal(drawn, sample_remaining(bell_at(3600.0, 0.5), 0.0, 400, 1))
    assert (sample_remaining(bell_at(60.0, 0.2), 1e6, 50, 2) > 0).all()


@pytest.mark.parametrize("limit_s", [0.0, -60.0, float("nan")])
def test_a_limit_that_is_none_ends_nothing(limit_s):
    """A limit of 0 is how schedulers are asked for none: such a job is foreseen as one without a limit."""
    book, at_s = watched(30)
    said = book.remaining(job(99, at_s - 1800.0, time_limit_s=limit_s), at_s)
    assert isinstance(said, RemainingTime)
    assert said.limit_s is None
    assert said.point_s > 60.0
