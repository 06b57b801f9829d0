"""JSON of Slurm's tools and of slurmrestd, in the spellings of several versions."""

from __future__ import annotations

import json

import pytest

from collectors.slurm.answers import errors_of, is_slurm, load_reply, read_jobs, read_nodes
from collectors.slurm.notes import Notes
from collectors.slurm.records import claims_of, job_record, node_gpus
from telemetry.errors import BadReply
from telemetry.roster import JobState


def _set(number):
    return {"set": True, "infinite": False, "number": number}


UNSET = {"set": False, "infinite": False, "number": 0}
UNLIMITED = {"set": True, "infinite": True, "number": 0}
OLD = {
    "job_id": 7,
    "job_state": "RUNNING",
    "nodes": "g[1-2]",
    "node_count": 2,
    "time_limit": 30,
    "start_time": 1000,
    "submit_time": 900,
    "priority": 5,
    "account": "lab",
    "user_name": "eve",
    "tres_req_str": "cpu=2,node=2",
    "tres_alloc_str": "cpu=2,node=2",
    "gres_detail": ["gpu:h100:4(IDX:0-3)", "gpu:h100:2(IDX:6-7)"],
    "array_job_id": 0,
    "restart_cnt": 1,
}
NEW = OLD | {
    "job_id": 7,
    "job_state": ["RUNNING"],
    "node_count": _set(2),
    "time_limit": _set(30),
    "start_time": _set(1000),
    "submit_time": _set(900),
    "priority": _set(5),
    "array_job_id": _set(0),
}
NEWEST = NEW | {"nodes": "", "job_resources": {"nodes": {"count": 2, "list": "g[1-2]"}}}


@pytest.mark.parametrize("item", [OLD, NEW, NEWEST], ids=["v0.0.38", "v0.0.40", "v0.0.44"])
def test_versions_tell_the_same(item):
    """Bare numbers or set/infinite/number, text or list: one record."""
    notes = Notes()
    (job,) = read_jobs({"jobs": [item]}, notes)
    record = job_record(job, notes)
    assert (record.gpu_count, dict(record.gpu_types), record.nodes) == (6, {"h100": 6}, ("g1", "g2"))
    assert (record.start_s, record.submit_s, record.time_limit_s) == (1000.0, 900.0, 1800.0)
    assert (record.user, record.priority, record.restarts, record.group) == ("eve", 5.0, 1, "")
    assert [(claim.node, claim.indices) for claim in claims_of(job, notes)] == [("g1", (0, 1, 2, 3)), ("g2", (6, 7))]
    assert not notes.counts


def test_unset_and_unlimited_numbers():
    """Unset is unknown though a 0 stands beside it; infinite overrules the number; NO_VAL of old versions is unset."""
    items = [
        {"job_id": 1, "job_state": ["PENDING"], "time_limit": UNLIMITED, "start_time": UNSET, "priority": UNSET},
        {"job_id": 2, "job_state": ["PENDING"], "time_limit": 4294967295, "start_time": 0, "priority": 4294967294},
    ]
    for job in read_jobs({"jobs": items}, Notes()):
        record = job_record(job, Notes())
        assert (record.time_limit_s, record.start_s, record.expected_start_s, record.priority) == (
            float("inf"),
            None,
            None,
            None,
        )


def test_what_a_waiting_job_asks_for():
    """TRES where it names GPUs, else the request per job, node or task; an array stands for its tasks."""
    base = {"job_state": ["PENDING"], "tres_req_str": "cpu=1,node=4", "node_count": _set(4), "tasks": _set(8)}
    items = [
        base | {"job_id": 1, "tres_req_str": "cpu=1,gres/gpu=16", "tres_per_node": "gres/gpu:8"},
        base | {"job_id": 2, "tres_per_node": "gres:gpu:8"},
        base | {"job_id": 3, "tres_per_job": "gres/gpu:h100:3"},
        base | {"job_id": 4, "tres_per_task": "gres:gpu:2"},
        base | {"job_id": 5},
        base | {"job_id": 6, "tres_per_node": "gres:gpu:1", "array_job_id": _set(6), "array_task_string": "2-5,9%2"},
        base | {"job_id": 7, "tres_per_node": "gres:shard:2", "start_time": _set(5000)},
    ]
    records = [job_record(job, Notes()) for job in read_jobs({"jobs": items}, Notes())]
    assert [record.gpu_count for record in records] == [16, 32, 3, 16, 0, 4, 0]
    assert [record.task_count for record in records] == [1, 1, 1, 1, 1, 5, 1]
    assert [record.shares_gpus for record in records] == [False] * 6 + [True]
    assert records[6].expected_start_s == 5000.0
    assert all(record.state is JobState.WAITING and record.nodes == () for record in records)


def test_a_job_that_ends_gives_its_devices_back():
    """COMPLETING with IDX:N/A holds no device any more."""
    item = OLD | {"job_state": ["COMPLETED", "COMPLETING"], "gres_detail": ["gpu:h100:4(IDX:N/A)"] * 2}
    (job,) = read_jobs({"jobs": [item]}, Notes())
    assert claims_of(job, Notes()) == ()
    assert job_record(job, Notes()).gpu_count == 0


def test_lists_of_devices_must_fit_the_hosts():
    """Three lists for two hosts belong to nobody; that is said."""
    notes = Notes()
    (job,) = read_jobs({"jobs": [OLD | {"gres_detail": ["gpu:1(IDX:0)"] * 3}]}, notes)
    assert claims_of(job, notes) == ()
    assert "3 lists of devices for 2 nodes" in next(iter(notes.counts))


def test_nodes_of_several_versions():
    """Text or list of states, flags apart, and the groups of newer sinfo; a group's use is nobody's own."""
    notes = Notes()
    document = {
        "nodes": [
            {"name": "g1", "state": "idle", "state_flags": ["DRAIN"], "gres": "gpu:8", "gres_used": "gpu:0(IDX:N/A)"},
            {"name": "g2", "state": ["MIXED"], "gres": "gpu:8", "gres_used": "gpu:3(IDX:0-2)", "partitions": ["train"]},
            {"state": "idle"},
        ],
        "sinfo": [
            {
                "node": {"state": ["IDLE"]},
                "nodes": {"nodes": ["g[3-4]"]},
                "gres": {"total": "gpu:4", "used": "gpu:0"},
                "partition": {"name": "train"},
            },
            {
                "node": {"state": ["MIXED"]},
                "nodes": {"nodes": ["g5"]},
                "gres": {"total": "gpu:4", "used": "gpu:2"},
            },
        ],
    }
    nodes = [node_gpus(node, notes) for node in read_nodes(document, notes)]
    assert [(node.node, node.total, node.used, node.in_service) for node in nodes] == [
        ("g1", 8, 0, False),
        ("g2", 8, 3, True),
        ("g3", 4, None, True),
        ("g4", 4, None, True),
        ("g5", 4, 2, True),
    ]
    assert dict(notes.counts) == {"a node without a name is left out": 1}


def test_replies():
    """Errors are sentences; a job name of any bytes hides nobody's jobs; what is no JSON is refused."""
    document = {"errors": [{"source": "slurm_load_jobs", "error": "refused"}, {}, "plain"]}
    assert errors_of(document) == ["slurm_load_jobs: refused", "an error without a text", "plain"]
    body = json.dumps({"meta": {}, "jobs": [OLD]}).encode().replace(b'"lab"', b'"l\xff\xfeb"')
    loaded = load_reply(body, "x")
    assert is_slurm(loaded)
    assert len(read_jobs(loaded, Notes())) == 1
    for bad in (b"slurm_load_jobs error", b"[1]", b'{"jobs": ['):
        with pytest.raises(BadReply):
            load_reply(bad, "x")


@pytest.mark.shared
def test_recorded_answers(shared_dir):
    """Answers of a real slurmrestd and of squeue --json give the same jobs."""
    folder = shared_dir / "recipes" / "slurm-samples"
    both = []
    for name in ("squeue.json", "rest_jobs.json"):
        notes = Notes()
        jobs = read_jobs(load_reply((folder / name).read_bytes(), name), notes)
        both.append([job_record(job, notes) for job in jobs])
        assert not notes.counts
    assert both[0] == both[1]
    running = both[0][1]
    assert (running.job.name, running.gpu_count, running.nodes) == ("2", 8, ("gpu005", "gpu006"))


@pytest.mark.shared
def test_newest_sample(shared_dir):
    """v0.0.44: a gang without a limit, and a waiting job with its request."""
    path = shared_dir / "formats" / "samples" / "slurmrest_jobs.json"
    running, waiting = (job_record(job, Notes()) for job in read_jobs(load_reply(path.read_bytes(), "sample"), Notes()))
    assert (running.gpu_count, running.nodes, running.time_limit_s) == (16, ("gpu-001", "gpu-002"), float("inf"))
    assert (waiting.gpu_count, waiting.node_count, waiting.time_limit_s) == (32, 4, 86400.0)
