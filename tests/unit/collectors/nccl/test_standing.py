"""Inspector's records and RAS's answer put together by communicator, and whose job it is."""

from __future__ import annotations

import json

from collectors.nccl.communicators import CommunicatorView, Member
from collectors.nccl.ras import RasReport, parse_ras
from collectors.nccl.standing import RasAnswer, standing
from collectors.nccl.tail import InspectorTail
from telemetry.ids import CommunicatorId, JobId
from telemetry.samples import Window
from tests.kit.nccl import START_S, ras_rank, record

JOB, OTHER = JobId("slurm", "7"), JobId("slurm", "8")


def _view(name: str, number: str, hosts: list[str], job: JobId | None = None, last_s: float = 50.0) -> CommunicatorView:
    members = tuple(Member(rank, host, 100 + rank) for rank, host in enumerate(hosts))
    return CommunicatorView(CommunicatorId(name, number), len(hosts), 1, job, members, last_s)


def _report(number: str = "0xabc", missing: int = 0, second: str = "0x1:0x2") -> RasReport:
    ranks = [ras_rank(0, AllReduce=90), ras_rank(1, AllReduce=80)]
    gone = [
        {"rank": 2 + i, "host": "10.0.0.9", "pid": 9, "status": {"considered_dead": True, "unresponsive": True}}
        for i in range(missing)
    ]
    one = {"hash": number, "secondary_hash": second, "size": 2 + missing, "ranks": ranks, "missing_ranks": gone}
    document = {"nccl_version": "2.28.7", "communicators": [one | {"missing_ranks_count": missing}]}
    return parse_ras(json.dumps(document).encode(), "ras")


def test_one_communicator_of_both_sources() -> None:
    """The same hash is one line: name and job by Inspector, missing ranks, launches and troubles by RAS."""
    answer = RasAnswer("nccl-ras:h:1", 60.0, _report(missing=1))
    (one,) = standing([_view("dp", "0xabc", ["a", "b"], JOB)], {("0xabc", "AllReduce"): 4}, [answer], {})
    assert (one.id.name, one.job, one.rank_count, one.recorded_ranks, one.missing_ranks) == ("dp", JOB, 3, 2, 1)
    assert (one.missed, one.launched, one.last_s) == ({"AllReduce": 4}, {"AllReduce": (90, 80)}, 60.0)
    assert {str(trouble.kind) for trouble in one.troubles} == {"dead", "lagging"}
    assert one.in_trouble
    assert one.sources == ("nccl-inspector", "nccl-ras:h:1")


def test_missed_records_alone_are_no_trouble() -> None:
    """Small messages have none; the count is shown all the same."""
    (one,) = standing([_view("dp", "0xabc", ["a"], JOB)], {("0xabc", "AllReduce"): 4}, [], {})
    assert not one.in_trouble
    assert (one.missing_ranks, one.failed_ranks) == (None, None)


def test_the_job_by_hosts_only_where_it_is_one() -> None:
    """Never a guess: two jobs on all hosts, or a host without any, leave it unknown with the reason."""
    views = [_view("dp", "0x1", ["a", "b"])]

    def job(jobs_on: dict[str, set[JobId]]) -> tuple[JobId | None, str]:
        (one,) = standing(views, {}, [], jobs_on)
        return one.job, one.job_reason

    assert job({"a": {JOB, OTHER}, "b": {JOB}}) == (JOB, "the one job on all of its hosts")
    assert job({"a": {JOB, OTHER}, "b": {JOB, OTHER}})[0] is None
    assert job({"a": {JOB}, "b": {OTHER}}) == (None, "no single job runs on all of its hosts")
    assert job({"a": {JOB}}) == (None, "no job is known on b")


def test_a_hash_that_two_communicators_share_is_not_joined() -> None:
    """RAS tells them apart by a second hash; then it cannot be told which one Inspector means."""
    answers = [RasAnswer("r1", 1.0, _report(second="0x1:0x2")), RasAnswer("r2", 1.0, _report(second="0x3:0x4"))]
    found = standing([_view("dp", "0xabc", ["a"])], {}, answers, {})
    assert len(found) == 3
    assert [one.missing_ranks for one in found if one.id.name == "dp"] == [None]


def test_those_in_trouble_come_first() -> None:
    """Whatever their names."""
    answer = RasAnswer("r", 1.0, _report("0xfff", missing=2))
    found = standing([_view("aa", "0x1", ["a"], JOB)], {}, [answer], {})
    assert [one.in_trouble for one in found] == [True, False]


def test_the_reader_of_files_shows_what_it_read(tmp_path) -> None:
    """Holes in the numbers, once they are too old to be filled."""
    folder = tmp_path / "nccl-inspector-7"
    folder.mkdir()
    (folder / "a.log").write_bytes(record(0) + record(5))
    tail = InspectorTail(tmp_path, settle_s=0.0)
    assert (tail.communicators(), tail.missed()) == ((), {})
    tail.collect_now(Window(0.0, START_S + 100.0))
    tail.collect_now(Window(0.0, START_S + 200.0))
    (one,) = standing(tail.communicators(), tail.missed(), [], {})
    assert (one.job, one.missed) == (JOB, {"AllReduce": 4})
