"""Slurm by its tools: every way in which they fail is a finding with a sentence."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from collectors.ownership import Ownership
from collectors.slurm.collector import SlurmCollector
from collectors.slurm.commands import SlurmCommands
from telemetry.ids import GpuId
from telemetry.samples import Problem, Window
from tests.kit.slurm import JOB, NO_CONTROLLER, NODE, install, printing, squeue_json

GOOD = printing(squeue_json(JOB))
NODES = printing(NODE)
NO_JSON = printing("", error="squeue: unrecognized option '--json'", code=1)


def _collect(environment, ownership=None, times=1, **limits):
    async def run():
        collector = SlurmCollector(SlurmCommands(environment=environment, **limits), ownership)
        try:
            batches = [await collector.collect(Window(1000.0, 1000.0)) for _ in range(times)]
            return batches[-1], collector.roster
        finally:
            await collector.close()

    return asyncio.run(run())


def test_one_reading(tmp_path):
    """Jobs, nodes and sightings of one poll."""
    ownership = Ownership()
    cards = [GpuId("gpu-01", f"GPU-{i}") for i in range(4)]
    ownership.index.learn((card, i) for i, card in enumerate(cards))
    batch, roster = _collect(install(tmp_path, squeue=GOOD, scontrol=NODES), ownership)
    assert [(s.gpu, s.job and s.job.name) for s in batch.sightings] == list(
        zip(cards, ["7", "7", None, None], strict=True)
    )
    assert batch.findings == ()
    assert dict(zip((key.metric for key in batch.keys), batch.value.tolist(), strict=True)) == {
        "node_gpu_count": 4.0,
        "node_gpu_used_count": 2.0,
        "node_gpu_free_count": 2.0,
    }
    assert (roster.at_s, roster.jobs[0].gpu_count, roster.jobs[0].account) == (1000.0, 2, "lab")


def test_two_programs_a_reading_whatever_the_number_of_jobs(tmp_path):
    """A thousand jobs cost as many calls as one."""
    count = f"echo x >> {tmp_path}/calls\n"
    many = tmp_path / "jobs.json"
    many.write_text(squeue_json(*({**JOB, "job_id": i, "gres_detail": []} for i in range(1000))))
    environment = install(tmp_path, squeue=f"{count}cat {many}\n", scontrol=count + NODES)
    _, roster = _collect(environment)
    assert len(roster.jobs) == 1000
    assert (tmp_path / "calls").read_text().count("x") == 2


def test_a_version_without_json_is_asked_for_text(tmp_path):
    """squeue --json is tried once; scontrol's text gives the same from then on."""
    text = "JobId=7 JobName=a\n   UserId=eve(1)\n   JobState=RUNNING\n   NodeList=gpu-01\n     Nodes=gpu-01 CPU_IDs=0 Mem=1 GRES=gpu:h100:2(IDX:0-1)\n"
    scontrol = (
        f'case "$*" in *job) {printing(text).replace(chr(10), ";")} ;; *) {NODES.replace(chr(10), ";")} ;; esac\n'
    )
    squeue = f"echo x >> {tmp_path}/calls\n{NO_JSON}"
    batch, roster = _collect(install(tmp_path, squeue=squeue, scontrol=scontrol), times=3)
    assert len(batch) == 3
    assert [(job.job.name, job.user, job.gpu_count) for job in roster.jobs] == [("7", "eve", 2)]
    assert (tmp_path / "calls").read_text() == "x\n"


@pytest.mark.parametrize(
    ("squeue", "scontrol", "problem", "words"),
    [
        (printing("", error=NO_CONTROLLER, code=1), NODES, Problem.UNREACHABLE, "squeue says: slurm_load_jobs error"),
        (
            GOOD,
            printing("", error="slurm_load_node error: Access/permission denied", code=1),
            Problem.QUERY_ERROR,
            "scontrol was refused",
        ),
        (printing("no json at all"), NODES, Problem.NOT_TEXT, "no JSON"),
        (printing('{"meta": {}, "jobs": ['), NODES, Problem.TORN, "no JSON"),
        (printing('{"meta": {}}'), NODES, Problem.NOT_TEXT, "without a list of jobs"),
        (GOOD, printing("slurm_load_node error\n"), Problem.NOT_TEXT, "printed no nodes"),
        (GOOD, printing(NODE[:-30]), Problem.TORN, "middle of a line"),
        (GOOD, printing("No nodes in the system\n", code=1), Problem.NOT_TEXT, "printed no nodes"),
        (printing("", code=3), NODES, Problem.UNREACHABLE, "ended with 3"),
    ],
)
def test_what_tools_say_when_they_fail(tmp_path, squeue, scontrol, problem, words):
    """Controller away, permission denied, garbage, torn text: a sentence, no samples, no owners."""
    batch, roster = _collect(install(tmp_path, squeue=squeue, scontrol=scontrol))
    (finding,) = batch.findings
    assert (len(batch), batch.sightings, roster.at_s) == (0, (), 0.0)
    assert finding.problem is problem
    assert words in finding.detail


def test_tools_that_are_not_there(tmp_path):
    """The sentence says what to install or set."""
    (finding,) = _collect({"PATH": str(tmp_path)})[0].findings
    assert finding.problem is Problem.UNREACHABLE
    assert "squeue is not installed here" in finding.detail
    assert "slurm.rest_url" in finding.detail


def test_a_tool_that_hangs_is_ended_with_its_children(tmp_path):
    """After the time-out nothing that it started is left."""
    squeue = f"sleep 600 & echo $! > {tmp_path}/child\nwait\n"
    batch, _ = _collect(install(tmp_path, squeue=squeue, scontrol=NODES), timeout_s=0.5)
    assert batch.findings[0].problem is Problem.TIMEOUT
    status = Path("/proc", (tmp_path / "child").read_text().strip(), "status")
    assert not status.exists() or "State:\tZ" in status.read_text(), "a child outlived the time-out"


def test_errors_beside_jobs_are_said(tmp_path):
    """An answer may hold errors and jobs: both count, and nothing is then called free."""
    answer = squeue_json(JOB).replace('"errors": []', '"errors": [{"error": "partly refused"}]')
    batch, roster = _collect(install(tmp_path, squeue=printing(answer), scontrol=NODES))
    assert len(roster.jobs) == 1
    assert any("partly refused" in finding.detail for finding in batch.findings)


def test_a_reading_that_fails_keeps_the_last_list(tmp_path):
    """The roster stays with its time; the next good one replaces it."""
    squeue = f"[ -e {tmp_path}/again ] && {{ echo away >&2; exit 1; }}\ntouch {tmp_path}/again\n{GOOD}"
    batch, roster = _collect(install(tmp_path, squeue=squeue, scontrol=NODES), times=2)
    assert len(batch) == 0
    assert len(roster.jobs) == 1
