"""Whatever a scheduler prints: no exception but the named one, no time that grows faster than the text, no made-up count."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.inspect import inspect_source
from collectors.kubernetes.devices import read_claims, read_pod_resources
from collectors.kubernetes.inspect import read_kubernetes
from collectors.kubernetes.objects import read_node, read_pod
from collectors.kubernetes.owners import claims_of as pod_claims
from collectors.kubernetes.owners import job_records, nodes_gpus
from collectors.slurm.answers import read_jobs, read_nodes
from collectors.slurm.gres import count_gpus, count_tres_gpus, parse_gres, parse_tres
from collectors.slurm.inspect import read_slurm
from collectors.slurm.notes import Notes
from collectors.slurm.records import claims_of, job_record, node_gpus
from collectors.slurm.text import (
    read_duration,
    read_scontrol_jobs,
    read_scontrol_nodes,
    read_sinfo,
    read_squeue,
    read_time,
)
from telemetry.errors import SchemaError

GRES = st.text(alphabet="gpu:h100()IDX,-0123456789S/.N A\n", max_size=80) | st.text(max_size=40)
NUMBERS = (
    st.none()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.fixed_dictionaries(
        {"set": st.booleans(), "infinite": st.booleans(), "number": st.none() | st.integers() | st.text(max_size=3)}
    )
)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=12)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3),
    max_leaves=12,
)
JOB_FIELDS = [
    "job_id",
    "job_state",
    "nodes",
    "time_limit",
    "start_time",
    "submit_time",
    "priority",
    "gres_detail",
    "tres_alloc_str",
    "tres_req_str",
    "tres_per_node",
    "node_count",
    "tasks",
    "user_name",
    "array_job_id",
    "array_task_string",
    "job_resources",
    "restart_cnt",
]
NODE_FIELDS = ["name", "state", "state_flags", "gres", "gres_used", "partitions", "node", "nodes"]


def _objects(fields):
    return st.dictionaries(
        st.sampled_from(fields), NUMBERS | GRES | TREES | st.lists(GRES, max_size=3), max_size=len(fields)
    )


def _record_all(jobs, nodes):
    notes = Notes()
    for job in jobs:
        record = job_record(job, notes)
        assert record.gpu_count is None or record.gpu_count >= 0
        assert all(claim.count is None or claim.count >= 0 for claim in claims_of(job, notes))
    for node in nodes:
        counted = node_gpus(node, notes)
        assert counted.used is None or 0 <= counted.used <= counted.total


@given(GRES)
def test_gres(text):
    with contextlib.suppress(SchemaError):
        assert (count_gpus(parse_gres(text)).total or 0) >= 0


@given(GRES)
def test_tres(text):
    tally = count_tres_gpus(parse_tres(text))
    assert tally.total is None or tally.total == sum(tally.types.values())


@given(st.lists(_objects(JOB_FIELDS), max_size=4), st.lists(_objects(NODE_FIELDS), max_size=4))
def test_json_answers(jobs, nodes):
    notes = Notes()
    document = {"jobs": jobs, "nodes": nodes, "sinfo": nodes}
    _record_all(read_jobs(document, notes), read_nodes(document, notes))


LINES = st.lists(
    st.sampled_from(["JobId=1 JobName=", "NodeName=g1 ", "   Gres=", "   GresUsed=", "   NodeList=", "     Nodes=g1 GRES=", "   TRES=",
                     "   JobState=RUNNING ", "   NumNodes=", "   StartTime=", "   TimeLimit=", "jobid|state|nodelist", "1|RUNNING|", ""]) | GRES,
    max_size=20,
).map("".join) | st.text(max_size=200)  # fmt: skip


@given(LINES | st.lists(LINES, max_size=6).map("\n".join))
def test_text(text):
    _record_all(read_scontrol_jobs(text), [*read_scontrol_nodes(text), *read_sinfo(text)])
    with contextlib.suppress(SchemaError):
        _record_all(read_squeue(text), [])


@given(st.text(max_size=30))
def test_times(text):
    assert (read_duration(text) or 0.0) >= 0.0
    read_time(text)


@given(TREES)
def test_kubernetes_objects(tree):
    items = [
        tree,
        {"metadata": {"name": "a"}, "spec": tree, "status": tree},
        {"metadata": tree, "spec": {"containers": [tree]}},
    ]
    items += [
        {
            "metadata": {"name": "a"},
            "spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": tree}}}]},
            "status": tree,
        }
    ]
    objects = [item for item in items if isinstance(item, dict)]
    pods = [pod for pod in map(read_pod, objects) if pod is not None]
    nodes = {node.name: node for node in map(read_node, objects) if node is not None}
    table = read_claims(
        [tree, {"status": {"allocation": tree, "reservedFor": tree}}], [{"spec": tree}, {"spec": {"devices": [tree]}}]
    )
    pod_claims(pods, nodes, table, read_pod_resources({"podResources": tree}))
    job_records(pods, nodes)
    assert all(one.used is None or 0 <= one.used <= one.total for one in nodes_gpus(nodes.values(), pods))


@given(
    st.binary(max_size=200)
    | TREES.map(
        lambda tree: json.dumps(
            {"meta": {}, "kind": "PodList", "apiVersion": "v1", "items": tree, "jobs": tree, "nodes": tree}
        ).encode()
    )
)
def test_any_bytes(data):
    read_slurm(data, "x")
    read_kubernetes(data, "x")
    inspect_source(data, "x")


@pytest.mark.parametrize(
    "text",
    [
        "JobId=1 JobName=" + "a=b " * 200_000,
        "JobId=1\n" + "     Nodes=g[1-9] GRES=gpu:8(IDX:0-7)\n" * 20_000,
        "JobId=1\n" * 50_000,
        "NodeName=" + "x" * 1_000_000,
        "gpu-01 idle gpu:4 gpu:0\n" * 50_000,
        "jobid|state\n" + "1|RUNNING\n" * 50_000,
        " " * 1_000_000,
    ],
    ids=["words", "devices", "jobs", "one name", "nodes", "squeue", "blanks"],
)
def test_long_text_is_read_in_one_pass(text):
    """A megabyte of the worst lines ends; pytest's own time-out of the run would tell otherwise."""
    _record_all(read_scontrol_jobs(text)[:100], [*read_scontrol_nodes(text)[:100], *read_sinfo(text)])


def test_lists_that_would_fill_the_memory_are_refused():
    """Short texts that stand for endless lists are named and left out."""
    notes = Notes()
    item = {
        "job_id": 1,
        "job_state": ["RUNNING"],
        "nodes": "g[0-999999999]",
        "gres_detail": ["gpu:1(IDX:0-99999999)"] * 3,
    }
    (job,) = read_jobs({"jobs": [item]}, notes)
    assert claims_of(job, notes) == ()
    assert notes.counts
