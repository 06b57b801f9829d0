"""One reading of a cluster, whichever way it was asked. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from collectors.slurm.notes import Notes
from collectors.slurm.records import SlurmJob, SlurmNode
from telemetry.samples import Problem


@dataclass(frozen=True, slots=True)
class Reading:
    """Jobs and nodes at one moment.

    Args:
        jobs: every job that the cluster lists.
        nodes: every node.
        notes: what could not be read.
    """

    jobs: Sequence[SlurmJob]
    nodes: Sequence[SlurmNode]
    notes: Notes = field(default_factory=Notes)


class ReadingFailed(Exception):
    """No usable reading; carries the finding's kind and sentence."""

    def __init__(self, problem: Problem, detail: str) -> None:
        super().__init__(detail)
        self.problem = problem
        self.detail = detail


class SlurmReader(Protocol):
    """One way to ask a cluster."""

    name: str

    async def read(self) -> Reading:
        """Jobs and nodes as they are now.

        Raises:
            ReadingFailed: nothing usable came.
        """
        ...

    async def close(self) -> None:
        """Release connections."""
        ...
