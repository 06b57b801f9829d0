"""A real Slurm: who has what through squeue, scontrol and slurmrestd, joined with the cards of pretend exporters."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from collectors.ownership import Ownership
from collectors.slurm.collector import SlurmCollector
from collectors.slurm.commands import SlurmCommands
from collectors.slurm.reading import SlurmReader
from collectors.slurm.rest import SlurmRest
from features.store.allocations import AllocationBook
from telemetry.ids import GpuId, JobId
from telemetry.roster import JobState, Roster
from telemetry.samples import SampleBatch, Sighting, Window
from tests.kit.slurm_cluster import SlurmCluster, slurm_cluster

pytestmark = pytest.mark.slurm
NODES, GPUS = 4, 8


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    # Not below pytest's own folders: slurmrestd runs as nobody and must be able to enter.
    folder = Path(tempfile.mkdtemp(prefix="gpucast-slurm-"))
    try:
        with slurm_cluster(folder, "--nodes", str(NODES), "--gpus", str(GPUS), "--shards", "16", "--rest") as running:
            yield running
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def queue(cluster: SlurmCluster) -> Iterator[SlurmCluster]:
    """The cluster with an empty queue."""
    yield cluster
    cluster.run("scancel", "--quiet", "--state=PENDING")
    cluster.run("scancel", "--quiet", "--state=RUNNING")
    _until(lambda: not cluster.run("squeue", "--noheader"))


def _until(done: Callable[[], bool], limit_s: float = 30.0) -> None:
    end_s = time.monotonic() + limit_s
    while not done():
        assert time.monotonic() < end_s, "Slurm did not come so far"
        time.sleep(0.1)


def _until_running(cluster: SlurmCluster, *jobs: str) -> None:
    def run() -> bool:
        states = dict(line.split() for line in cluster.run("squeue", "-h", "-o", "%A %T").splitlines())
        return all(states.get(job) == "RUNNING" for job in jobs)

    _until(run)


def _card(node: int, index: int) -> GpuId:
    return GpuId(f"gpu{node:03d}", f"GPU-{node}-{index}")


def _ownership() -> Ownership:
    """Exporters' pages have been read: every card is known by its index."""
    ownership = Ownership()
    ownership.index.learn((_card(n, i), i) for n in range(1, NODES + 1) for i in range(GPUS))
    return ownership


def _read(reader: SlurmReader, ownership: Ownership | None = None, at_s: float = 1000.0) -> tuple[SampleBatch, Roster]:
    async def run() -> tuple[SampleBatch, Roster]:
        collector = SlurmCollector(reader, ownership)
        try:
            return await collector.collect(Window(at_s, at_s)), collector.roster
        finally:
            await collector.close()

    return asyncio.run(run())


def _held(batch: SampleBatch, job: str) -> set[GpuId]:
    return {sighting.gpu for sighting in batch.sightings if sighting.job == JobId("slurm", job)}


def test_a_gang_a_small_job_and_the_queue(queue: SlurmCluster) -> None:
    """Devices by host and number, counts of every node, and a waiting job with its request: all exact."""
    gang = queue.submit("-N2", "--ntasks-per-node=1", "--gres=gpu:4", "-t", "30", "-J", "gang x NodeList=gpu004")
    small = queue.submit("--gres=gpu:h100:3", "-w", "gpu004")
    _until_running(queue, gang, small)
    waiting = queue.submit("-N4", "--gres=gpu:8", "-t", "1-00:00:00")
    _until(lambda: bool(queue.run("squeue", "-h", "-j", waiting, "-o", "%r")))

    batch, roster = _read(SlurmCommands(environment=queue.environment), _ownership())

    assert batch.findings == ()
    jobs = {record.job.name: record for record in roster.jobs}
    assert (jobs[gang].state, jobs[gang].gpu_count, jobs[gang].time_limit_s) == (JobState.RUNNING, 8, 1800.0)
    assert jobs[gang].name == "gang x NodeList=gpu004"
    assert jobs[gang].start_s is not None
    assert abs(jobs[gang].start_s - time.time()) < 120
    assert (jobs[waiting].state, jobs[waiting].gpu_count, jobs[waiting].time_limit_s) == (JobState.WAITING, 32, 86400.0)
    assert (jobs[waiting].nodes, jobs[waiting].start_s) == ((), None)
    nodes = {int(name.removeprefix("gpu")) for name in jobs[gang].nodes}
    assert _held(batch, gang) == {_card(n, i) for n in nodes for i in range(4)}
    assert len(_held(batch, small)) == 3
    counts = {node.node: (node.total, node.used) for node in roster.nodes}
    assert sum(used or 0 for _, used in counts.values()) == 11
    assert sum(total for total, _ in counts.values()) == NODES * GPUS
    assert len([sighting for sighting in batch.sightings if sighting.job is None]) == NODES * GPUS - 11


def test_text_json_and_rest_tell_the_same(queue: SlurmCluster) -> None:
    """Three ways to ask, one answer: jobs, holds and counts."""
    running = [
        queue.submit("-N2", "--gres=gpu:2", "--ntasks-per-node=1"),
        queue.submit("--gpus=3"),
        queue.submit("--gres=shard:2"),
    ]
    _until_running(queue, *running)
    queue.submit("--hold", "--gres=gpu:h100:2", "--array=0-3%2")
    token = queue.folder / "token"
    token.write_text(queue.token())
    text = SlurmCommands(environment=queue.environment)
    text._text_only = "asked for text"
    readers: list[SlurmReader] = [
        SlurmCommands(environment=queue.environment),
        text,
        SlurmRest(queue.rest_url, token, queue.environment.get("USER", "root")),
    ]

    batches, rosters = zip(*(_read(reader, _ownership()) for reader in readers), strict=True)

    assert sorted((record.gpu_count, record.task_count) for record in rosters[0].jobs) == [
        (0, 1),
        (2, 4),
        (3, 1),
        (4, 1),
    ]
    for batch, roster in zip(batches[1:], rosters[1:], strict=True):
        assert _facts(roster) == _facts(rosters[0])
        assert {(s.gpu, s.job, s.sharers) for s in batch.sightings} == {
            (s.gpu, s.job, s.sharers) for s in batches[0].sightings
        }
        assert batch.value.tolist() == batches[0].value.tolist()


def _facts(roster: Roster) -> dict[str, tuple[object, ...]]:
    """All but the time limit, which 22.05's JSON gives as null where there is none."""
    return {
        r.job.name: (r.state, r.name, r.user, r.gpu_count, r.nodes, r.shares_gpus, r.start_s, r.priority, r.task_count)
        for r in roster.jobs
    }


def test_shares_of_a_card(queue: SlurmCluster) -> None:
    """Two jobs with shards of one card are both seen on it, with two sharers; no whole card is counted for them."""
    jobs = [queue.submit("--gres=shard:1", "-w", "gpu001") for _ in range(2)]
    _until_running(queue, *jobs)

    batch, roster = _read(SlurmCommands(environment=queue.environment), _ownership())

    assert all(record.shares_gpus and record.gpu_count == 0 for record in roster.jobs)
    cards = [_held(batch, job) for job in jobs]
    assert all(len(held) == 1 for held in cards)
    sharers = {sighting.sharers for sighting in batch.sightings if sighting.job is not None}
    assert sharers == ({2} if cards[0] == cards[1] else {1})


def test_without_exporters_counts_are_kept_and_said(queue: SlurmCluster) -> None:
    """No page has told the cards: a share of the node with its count, and a finding that says why."""
    job = queue.submit("--gres=gpu:5")
    _until_running(queue, job)

    batch, roster = _read(SlurmCommands(environment=queue.environment))

    assert batch.sightings == ()
    assert [(share.job.name, share.count) for share in roster.shares] == [(job, 5)]
    assert "no exporter page" in batch.findings[0].detail


def test_labels_that_contradict_slurm_are_findings(queue: SlurmCluster) -> None:
    """A mapping file left by an earlier job: the finding names the card and both jobs, and Slurm's word holds."""
    job = queue.submit("--gres=gpu:1", "-w", "gpu002")
    _until_running(queue, job)
    ownership = _ownership()
    for at_s in (880.0, 940.0, 995.0):
        ownership.from_labels([Sighting(_card(2, 0), at_s, JobId("slurm", "999999"), "", True, 1)])

    batch, _ = _read(SlurmCommands(environment=queue.environment), ownership)

    assert _held(batch, job) == {_card(2, 0)}
    (finding,) = batch.findings
    assert "slurm:999999 by its labels" in finding.detail
    assert f"slurm:{job}" in finding.detail


def test_allocations_follow_a_cancelled_job(queue: SlurmCluster) -> None:
    """Two polls around a cancel: the stretch ends with the second, by the sightings of free cards."""
    job = queue.submit("--gres=gpu:8", "-w", "gpu003")
    _until_running(queue, job)
    ownership, book = _ownership(), AllocationBook()
    reader = SlurmCommands(environment=queue.environment)
    book.add(_read(reader, ownership, 1000.0)[0].sightings)
    queue.run("scancel", job)
    _until(lambda: not queue.run("squeue", "--noheader", "-t", "RUNNING,COMPLETING"))
    book.add(_read(reader, ownership, 1015.0)[0].sightings)

    stretches = book.allocations(1015.0, 60.0)
    assert {(a.job.name, a.from_s, a.to_s) for a in stretches} == {(job, 1000.0, 1000.0)}
    assert {a.gpu for a in stretches} == {_card(3, i) for i in range(GPUS)}
