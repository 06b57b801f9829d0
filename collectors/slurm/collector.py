"""Slurm as a source: who has which GPU, the queue, and how many GPUs each node has, uses and can give."""

from __future__ import annotations

from collectors.aside import call_aside
from collectors.node_counts import NODE_METRICS, NodeCounts, count_findings
from collectors.ownership import Ownership
from collectors.slurm.commands import SlurmCommands
from collectors.slurm.reading import Reading, ReadingFailed, SlurmReader
from collectors.slurm.records import claims_of, job_record, node_gpus
from telemetry.roster import Claim, JobRecord, JobState, NodeGpus, Roster
from telemetry.samples import Finding, Problem, SampleBatch, Window

_MOST_CLAIMS = 1_000_000
"""Above ten times the GPUs of the largest cluster; a list with more is a fault and is cut."""


class SlurmCollector:
    """One Slurm cluster.

    Args:
        reader: how it is asked; Slurm's command line tools when None.
        ownership: where its word meets that of the telemetry's labels; its own when None, which then knows no devices.
    """

    def __init__(self, reader: SlurmReader | None = None, ownership: Ownership | None = None) -> None:
        self._reader = reader or SlurmCommands()
        self._ownership = ownership or Ownership()
        self.name = self._reader.name
        self.provides = frozenset(NODE_METRICS)
        self.roster = Roster(source=self.name)
        """The newest list; kept when a later reading fails."""
        self._counts = NodeCounts(self.name)

    async def collect(self, window: Window) -> SampleBatch:
        """The cluster as it is now, stamped ``window.end_s``."""
        at_s = window.end_s
        try:
            reading = await self._reader.read()
        except ReadingFailed as failed:
            finding = Finding(failed.problem, self.name, failed.detail)
            return SampleBatch.empty(source=self.name, findings=(finding,), received_s=at_s)
        if not reading.nodes:
            finding = Finding(Problem.EMPTY, self.name, "Slurm lists no nodes")
            return SampleBatch.empty(source=self.name, findings=(finding,), received_s=at_s)
        # Ten thousand jobs take half a second; the loop must not wait for them.
        return self._batch(reading, *await call_aside(_in_our_words, reading), at_s)

    async def close(self) -> None:
        """Release connections."""
        await self._reader.close()

    def _batch(
        self, reading: Reading, jobs: list[JobRecord], claims: list[Claim], nodes: list[NodeGpus], at_s: float
    ) -> SampleBatch:
        notes = reading.notes
        settled = self._ownership.from_scheduler(claims, nodes, at_s, source=self.name, whole=not notes.counts)
        self.roster = Roster(
            at_s=at_s,
            source=self.name,
            jobs=tuple(job for job in jobs if job.state is not JobState.ENDED),
            nodes=tuple(nodes),
            shares=settled.shares,
        )
        findings = [Finding(Problem.WARNING, self.name, text, count) for text, count in notes.counts.items()]
        findings += [*settled.findings, *count_findings(nodes, self.name)]
        return self._counts.batch(nodes, at_s, sightings=settled.sightings, findings=findings)


def _in_our_words(reading: Reading) -> tuple[list[JobRecord], list[Claim], list[NodeGpus]]:
    notes = reading.notes
    claims: list[Claim] = []
    for job in reading.jobs:
        claims += claims_of(job, notes)
        if len(claims) > _MOST_CLAIMS:
            notes.add("jobs hold more GPUs than any cluster has; the rest of the list is left out")
            del claims[_MOST_CLAIMS:]
            break
    first = {node.name: node for node in reversed(reading.nodes)}
    nodes = [node_gpus(node, notes) for node in reversed(first.values())]
    return [job_record(job, notes) for job in reading.jobs], claims, nodes
