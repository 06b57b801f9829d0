"""Text of scontrol, squeue and sinfo."""

from __future__ import annotations

from datetime import timedelta, timezone

import pytest

from collectors.slurm.notes import Notes
from collectors.slurm.records import claims_of, job_record, node_gpus
from collectors.slurm.states import job_state, node_condition
from collectors.slurm.text import (
    read_duration,
    read_scontrol_jobs,
    read_scontrol_nodes,
    read_sinfo,
    read_squeue,
    read_time,
)
from telemetry.errors import SchemaError
from telemetry.roster import JobState

JOB = """JobId=7 ArrayJobId=5 ArrayTaskId=2 JobName=a b NodeList=gpu99
   UserId=eve(1001) GroupId=eve(1001) MCS_label=N/A
   Priority=12 Nice=0 Account=lab QOS=(null)
   JobState=RUNNING Reason=None Dependency=(null)
   Requeue=1 Restarts=2 BatchFlag=1 Reboot=0 ExitCode=0:0
   RunTime=00:00:03 TimeLimit=1-00:30:00 TimeMin=N/A
   SubmitTime=1796079248 EligibleTime=1796079248
   StartTime=1796079249 EndTime=Unknown Deadline=N/A
   Partition=train AllocNode:Sid=localhost:1
   NodeList=gpu[01-03]
   NumNodes=3 NumCPUs=3 NumTasks=3 CPUs/Task=1 ReqB:S:C:T=0:0:*:*
   TRES=cpu=3,mem=300M,node=3,billing=3
   JOB_GRES=gpu:h100:5
     Nodes=gpu[01-02] CPU_IDs=0 Mem=100 GRES=gpu:h100:2(IDX:0,3)
     Nodes=gpu03 CPU_IDs=0 Mem=100 GRES=gpu:h100:1(IDX:7),shard:h100:2(IDX:6)
   MinCPUsNode=1 MinMemoryCPU=100M MinTmpDiskNode=0
   Command=/home/eve/run.sh --x=1 NodeList=gpu98
   Comment=see
     Nodes=gpu97 CPU_IDs=0 Mem=1 GRES=gpu:h100:8(IDX:0-7)
   TresPerNode=gres:gpu:2

"""


def test_scontrol_job():
    """Every field of a record, with devices by host."""
    (job,) = read_scontrol_jobs(JOB)
    record = job_record(job, Notes())
    assert (record.job.name, record.user, record.account, record.partition) == ("7", "eve", "lab", "train")
    assert (record.state, record.group, record.restarts, record.priority) == (JobState.RUNNING, "5", 2, 12.0)
    assert (record.gpu_count, record.shares_gpus, record.node_count) == (5, True, 3)
    assert (record.submit_s, record.start_s, record.time_limit_s) == (1796079248.0, 1796079249.0, 88200.0)
    assert record.end_limit_s == 1796079249.0 + 88200.0
    held = [(claim.node, claim.indices, claim.count, claim.shared) for claim in claims_of(job, Notes())]
    assert held == [
        ("gpu01", (0, 3), 2, False),
        ("gpu02", (0, 3), 2, False),
        ("gpu03", (7,), 1, False),
        ("gpu03", (6,), 1, True),
    ]


def test_users_text_cannot_take_the_place_of_a_field():
    """Names, commands and comments of a user are whole values, whatever stands in them."""
    (job,) = read_scontrol_jobs(JOB)
    assert job.name == "a b NodeList=gpu99"
    assert job.nodes == "gpu[01-03]"
    assert not any("gpu97" in names for names, _ in job.detail)


def test_scontrol_nodes():
    """A node's GRES and what is in use; without the use it is unknown, not 0."""
    text = (
        "NodeName=g1 Arch=x86_64\n   Gres=gpu:h100:8\n   GresDrain=N/A\n   GresUsed=gpu:h100:7(IDX:0-6),shard:h100:1(IDX:7)\n"
        "   OS=Linux x=1 State=IDLE\n   State=MIXED+DRAIN ThreadsPerCore=1\n   Partitions=train,debug \n\n"
        "NodeName=g2 Arch=x86_64\n   Gres=gpu:4(S:0)\n   State=IDLE ThreadsPerCore=1\n"
    )
    one, two = (node_gpus(node, Notes()) for node in read_scontrol_nodes(text))
    assert (one.total, one.used, one.in_service, one.partitions) == (8, 8, False, ("train", "debug"))
    assert (two.total, two.used, two.free) == (4, None, None)


def test_a_node_of_several_partitions_counts_once():
    """sinfo prints a line for each partition; headers and torn lines are left out."""
    text = "NODELIST STATE GRES GRES_USED\ng1 idle gpu:4 gpu:0\ng1 idle gpu:4 gpu:0\ng2 idle gpu:\n"
    assert [node.name for node in read_sinfo(text)] == ["g1"]


def test_counts_are_put_into_range():
    """More in use than there are: clamped, marked and said."""
    notes = Notes()
    (node,) = (node_gpus(node, notes) for node in read_sinfo("g1 mixed gpu:4 gpu:5(IDX:0-4)\n"))
    assert (node.used, node.free, node.clamped) == (4, 0, True)
    assert "5 GPUs in use of 4" in next(iter(notes.counts))


def test_squeue_text_without_devices():
    """One node: a claim with the count. Several nodes: a claim each, whose count is told by the request per node only."""
    text = (
        "JOBID|STATE|NODELIST|NUM_NODES|TRES_PER_NODE|TRES-ALLOC\n"
        "1|RUNNING|g1|1|N/A|gres/gpu=3,gres/gpu:h100=3\n2|RUNNING|g[2-3]|2|gres/gpu:2|gres/gpu=4\n"
        "3|RUNNING|g[4-5]|2|N/A|gres/gpu=3\n4|RUNNING|g6|1|N/A|cpu=1\n5|PENDING||2|N/A|\n"
    )
    jobs = read_squeue(text)
    assert [
        (claim.node, claim.count, claim.gpu_type, claim.indices) for job in jobs for claim in claims_of(job, Notes())
    ] == [
        ("g1", 3, "h100", None),
        ("g2", 2, "", None),
        ("g3", 2, "", None),
        ("g4", None, "", None),
        ("g5", None, "", None),
    ]
    assert [job_record(job, Notes()).gpu_count for job in jobs] == [3, 4, 3, 0, None]
    with pytest.raises(SchemaError, match="column names"):
        read_squeue("no such\ntable")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30:00", 1800.0),
        ("90", 5400.0),
        ("01:30:00", 5400.0),
        ("2-00:00:00", 172800.0),
        ("1-12", 129600.0),
        ("UNLIMITED", float("inf")),
        ("Partition_Limit", None),
        ("NOT_SET", None),
        ("soon", None),
    ],
)
def test_durations(text, seconds):
    """[days-]hours:minutes:seconds, minutes:seconds and minutes."""
    assert read_duration(text) == seconds


def test_times():
    """Unix seconds as they are; local time in the zone given; no time is None, never 0."""
    assert read_time("1796079248") == 1796079248.0
    assert read_time("2026-11-30T21:00:00", timezone(timedelta(hours=1))) == 1796068800.0
    assert [read_time(text) for text in ("Unknown", "N/A", "0", "tomorrow", "")] == [None] * 5


@pytest.mark.parametrize(
    ("words", "state"),
    [
        (("RUNNING",), JobState.RUNNING),
        (("RUNNING", "COMPLETING"), JobState.ENDING),
        (("COMPLETED", "COMPLETING"), JobState.ENDING),
        (("PENDING", "REQUEUED"), JobState.WAITING),
        (("CANCELLED by 1001",), JobState.ENDED),
        (("SUSPENDED",), JobState.SUSPENDED),
        (("PD",), JobState.WAITING),
        (("SOMETHING_NEW",), JobState.UNKNOWN),
        ((), JobState.UNKNOWN),
    ],
)
def test_job_states(words, state):
    """One word out of one or several, in long or short form."""
    assert job_state(words) is state


@pytest.mark.parametrize(
    ("words", "in_service", "held", "off"),
    [
        (("idle",), True, False, False),
        (("idle*",), False, False, False),
        (("idle~",), True, False, True),
        (("idle#",), True, False, True),
        (("mixed$",), True, True, False),
        (("mixed@",), True, True, False),
        (("idle-",), True, False, False),
        (("drained*",), False, False, False),
        (("IDLE", "DRAIN"), False, False, False),
        (("IDLE+CLOUD+POWERED_DOWN",), True, False, True),
        (("DOWN+NOT_RESPONDING",), False, False, False),
        (("RESERVED",), True, True, False),
        ((), False, False, False),
    ],
)
def test_node_states(words, in_service, held, off):
    """Suffix letters, flags joined by + and lists of flags mean the same."""
    condition = node_condition(words)
    assert (condition.in_service, condition.held, condition.needs_power_up) == (in_service, held, off)
