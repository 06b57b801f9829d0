"""Outlooks: lists are learnt once, starts and ends become known with history, sources do not mix."""

from __future__ import annotations

from api.http.render.outlook import demand, ends, start, start_of
from api.outlook import Outlooks
from forecast.predict.ends_types import RemainingTime, StartTime
from forecast.predict.types import Absence
from telemetry.ids import JobId
from telemetry.roster import JobRecord, JobState, NodeGpus, Roster

NODES = (NodeGpus("n1", 8, 8, partitions=("gpu",)),)
LASTS_S = 1800.0


def running(name, start_s):
    return JobRecord(
        JobId("slurm", name),
        JobState.RUNNING,
        user="ann",
        partition="gpu",
        gpu_count=8,
        asked_gpu_count=8,
        start_s=start_s,
    )


def waiting(name, submit_s):
    return JobRecord(
        JobId("slurm", name),
        JobState.WAITING,
        user="ann",
        partition="gpu",
        gpu_count=0,
        asked_gpu_count=8,
        submit_s=submit_s,
    )


def lived(count):
    """Jobs that run half an hour each, one after another, always one waiting."""
    outlooks, at_s = Outlooks(), 1000.0
    for k in range(count):
        start_s = at_s
        while at_s < start_s + LASTS_S:
            at_s += 300.0
            jobs = (running(f"j{k}", start_s), waiting(f"j{k + 1}", start_s))
            outlooks.update((Roster(at_s, "slurm", jobs, NODES),), at_s)
    return outlooks, at_s


def test_starts_and_ends_are_known_after_some_jobs():
    """Thirty half hours later the running job's end and the waiting job's start are foreseen, and they agree."""
    outlooks, start_s = lived(29)
    at_s = start_s + 600.0
    jobs = (running("j29", start_s), waiting("j30", start_s))
    outlooks.update((Roster(start_s + 60.0, "slurm", jobs, NODES),), start_s + 60.0)
    outlooks.update((Roster(at_s, "slurm", jobs, NODES),), at_s)
    latest = outlooks.latest()["slurm"]
    end, begin = latest.ends[JobId("slurm", "j29")], latest.starts[JobId("slurm", "j30")]
    assert isinstance(end, RemainingTime)
    assert isinstance(begin, StartTime)
    assert end.low_s < LASTS_S - 600.0 < end.high_s
    assert begin.low_s - at_s < LASTS_S - 600.0 < begin.high_s - at_s
    assert [one.id for one in ends(outlooks.latest(), 5)] == ["slurm:j29"]
    assert start(begin).low_s <= start(begin).start_s


def test_the_first_lists_give_reasons():
    """With no history every answer is an absence with a reason, and a job not yet replayed says so."""
    outlooks = Outlooks()
    outlooks.update((Roster(100.0, "slurm", (running("a", 50.0), waiting("b", 60.0)), NODES),), 100.0)
    latest = outlooks.latest()
    said = latest["slurm"].starts[JobId("slurm", "b")]
    assert isinstance(said, Absence)
    assert start(said).why == "insufficient_history"
    assert start(start_of(latest, "slurm", JobId("slurm", "new"))).why == "no_data"
    assert start_of(latest, "kubernetes", JobId("slurm", "b")) is None
    assert ends(latest, 5) == []
    assert [one.why for one in demand(latest["slurm"])] == ["insufficient_history"] * 2
    assert demand(None) == []


def test_a_list_counts_once_and_gone_sources_go():
    """The same list again changes nothing; a scheduler that is read no more has no outlook."""
    outlooks = Outlooks()
    roster = Roster(100.0, "slurm", (waiting("b", 60.0),), NODES)
    outlooks.update((roster,), 100.0)
    first = outlooks.latest()["slurm"]
    outlooks.update((roster,), 200.0)
    assert outlooks.latest()["slurm"] is first
    outlooks.update((), 300.0)
    assert outlooks.latest() == {}


def test_a_clock_that_is_set_back_does_not_stop_the_learning():
    """After one list from far ahead, later ones of the right time are taken in again."""
    outlooks = Outlooks()
    outlooks.update((Roster(1e9, "slurm", (running("a", 50.0),), NODES),), 1e9)
    outlooks.update((Roster(1000.0, "slurm", (waiting("b", 60.0),), NODES),), 1000.0)
    latest = outlooks.latest()["slurm"]
    assert (latest.made_at_s, list(latest.starts)) == (1000.0, [JobId("slurm", "b")])
