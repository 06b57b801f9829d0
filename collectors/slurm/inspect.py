"""Slurm's answers as ``gpucast inspect`` shows them. Pure; never raises on any bytes."""

from __future__ import annotations

import orjson

from collectors.inspection import Inspection, count_text, rows_of
from collectors.node_counts import NodeCounts, count_findings
from collectors.roster_text import roster_facts, roster_summary
from collectors.slurm.answers import errors_of, is_slurm, read_jobs, read_nodes, warnings_of
from collectors.slurm.notes import Notes
from collectors.slurm.reading import Reading
from collectors.slurm.records import claims_of, job_record, node_gpus
from collectors.slurm.text import read_scontrol_jobs, read_scontrol_nodes, read_sinfo, read_squeue
from telemetry.errors import SchemaError
from telemetry.roster import Claim, Roster
from telemetry.samples import Finding, Problem

NAME = "Slurm job or node list"
_MOST_CLAIMS = 20_000
"""Far more than the jobs that are shown hold."""


def read_slurm(data: bytes, source: str) -> Inspection | None:
    """JSON of squeue, sinfo, scontrol or slurmrestd, or text of scontrol, squeue or sinfo; None for anything else."""
    reading = _read_json(data) if data.lstrip()[:1] == b"{" else _read_text(data)
    if reading is None:
        return None
    notes = reading.notes
    jobs = tuple(job_record(job, notes) for job in reading.jobs)
    claims: list[Claim] = []
    for job in reading.jobs:
        if len(claims) < _MOST_CLAIMS:
            claims += claims_of(job, notes)
    roster = Roster(0.0, source, jobs, tuple(node_gpus(node, notes) for node in reading.nodes))
    findings = [Finding(Problem.WARNING, source, text, count) for text, count in notes.counts.items()]
    findings += count_findings(roster.nodes, source)
    batch = NodeCounts(source).batch(roster.nodes, 0.0)
    summary = f"{roster_summary(roster)}: {count_text(batch)}"
    return Inspection(source, NAME, summary, rows_of(batch, False), tuple(findings), roster_facts(roster, claims))


def _read_json(data: bytes) -> Reading | None:
    try:
        document = orjson.loads(data.decode("utf-8", "replace"))
    except orjson.JSONDecodeError:
        return None
    if not is_slurm(document):
        return None
    notes = Notes()
    for text in (*errors_of(document), *warnings_of(document)):
        notes.add(f"Slurm says: {text}")
    return Reading(read_jobs(document, notes), read_nodes(document, notes), notes)


def _read_text(data: bytes) -> Reading | None:
    text = data.decode("utf-8", "replace")
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    if first.startswith("JobId="):
        return Reading(read_scontrol_jobs(text), [])
    if first.startswith("NodeName="):
        return Reading([], read_scontrol_nodes(text))
    if "|" in first and "jobid" in first.lower().replace("_", ""):
        try:
            return Reading(read_squeue(text), [])
        except SchemaError:
            return None
    lines = [line for line in text.splitlines() if line.strip()]
    nodes = read_sinfo(text)
    # Four words a line are common; only where GRES stand in every one is it a node list.
    gres = all(node.gres == "" or ":" in node.gres for node in nodes) and any(node.gres for node in nodes)
    return Reading([], nodes) if gres and len(nodes) == len(lines) else None
