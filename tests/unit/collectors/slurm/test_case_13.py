"""The field case of GRES, TRES and host lists: the figures that other readers got wrong."""

from __future__ import annotations

import pytest

from collectors.hostlists import expand_hosts
from collectors.slurm.notes import Notes
from collectors.slurm.records import job_record, node_gpus
from collectors.slurm.text import read_sinfo, read_squeue
from telemetry.roster import Roster, count_types

CASE = "cases/13-slurm-gres-and-hostlists"
pytestmark = pytest.mark.shared

HOSTS = {
    "gpu-01": ["gpu-01"],
    "gpu-[001-003,010]": ["gpu-001", "gpu-002", "gpu-003", "gpu-010"],
    "b04-[09-10]": ["b04-09", "b04-10"],
    "gpu-compute-on-demand-dy-g5-[1-3]": [f"gpu-compute-on-demand-dy-g5-{i}" for i in (1, 2, 3)],
    "nodeA,nodeB[001,003],nodeC": ["nodeA", "nodeB001", "nodeB003", "nodeC"],
    "rack[0-1]_blade[0-1]": ["rack0_blade0", "rack0_blade1", "rack1_blade0", "rack1_blade1"],
    "c1009a-s17,c1010a-s11": ["c1009a-s17", "c1010a-s11"],
    "compute-b24-[1-2,5],compute-b25-[1,4]": [
        *(f"compute-b24-{i}" for i in (1, 2, 5)),
        *(f"compute-b25-{i}" for i in (1, 4)),
    ],
    "(null)": [],
    "": [],
}


def _roster(shared_dir):
    notes = Notes()
    nodes = tuple(node_gpus(node, notes) for node in read_sinfo((shared_dir / CASE / "sinfo.txt").read_text()))
    jobs = tuple(job_record(job, notes) for job in read_squeue((shared_dir / CASE / "squeue.txt").read_text()))
    assert not notes.counts
    return Roster(1.0, "case", jobs, nodes)


def test_nodes(shared_dir):
    """Total, used and free of each node; drained gives none, powered down gives all with a flag."""
    nodes = {node.node: node for node in _roster(shared_dir).nodes}
    figures = {name: (node.total, node.used, node.free) for name, node in nodes.items()}
    assert figures == {
        "gpu-01": (8, 8, 0),
        "gpu-02": (4, 3, 1),
        "gpu-03": (4, 0, 4),
        "gpu-04": (8, 0, 0),
        "gpu-05": (6, 0, 6),
        "gpu-06": (6, 3, 3),
        "cpu-01": (0, 0, 0),
    }
    assert [name for name, node in nodes.items() if not node.in_service] == ["gpu-04"]
    assert [name for name, node in nodes.items() if node.needs_power_up] == ["gpu-05"]


def test_totals(shared_dir):
    """36 GPUs or slices, 14 used, 28 in service, 14 free of which 6 need power-up; by type as printed."""
    nodes = _roster(shared_dir).nodes
    assert sum(node.total for node in nodes) == 36
    assert sum(node.used for node in nodes) == 14
    assert sum(node.total for node in nodes if node.in_service) == 28
    assert sum(node.free for node in nodes) == 14
    assert sum(node.free for node in nodes if node.needs_power_up) == 6
    types = count_types((kind, count) for node in nodes for kind, count in node.types.items())
    assert types == {"h100": 16, "tesla": 8, "a100": 4, "a100_3g.20gb": 8}


def test_jobs(shared_dir):
    """The untyped number is the total and typed ones are its parts; a waiting job holds nothing."""
    roster = _roster(shared_dir)
    held = {job.job.name: job.gpu_count for job in roster.jobs if job not in roster.waiting}
    assert held == {"501": 8, "502": 3, "503": 3, "505": 0}
    assert sum(held.values()) == sum(node.used for node in roster.nodes)
    assert roster.gpus_by_account() == {"lab-a": 11, "lab-b": 3, "lab-c": 0, "lab-d": 0}
    assert [job.job.name for job in roster.waiting] == ["504"]


def test_host_lists(shared_dir):
    """Every expression of the case, padding and several brackets included."""
    lines = (shared_dir / CASE / "hostlists.txt").read_text().splitlines()
    assert {line: list(expand_hosts(line)) for line in lines} == {line: HOSTS[line] for line in lines}
    assert set(lines) | {""} == set(HOSTS)
