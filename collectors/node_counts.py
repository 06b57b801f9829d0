"""Counts of nodes' GPUs as samples. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from telemetry.ids import SeriesKey
from telemetry.roster import NodeGpus
from telemetry.samples import Finding, Problem, Reason, SampleBatch, Sighting

NODE_METRICS = ("node_gpu_count", "node_gpu_used_count", "node_gpu_free_count")


class NodeCounts:
    """Turns lists of nodes into batches; the same hosts give the same ``keys`` object again."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._keys: tuple[SeriesKey, ...] = ()

    def batch(
        self,
        nodes: Sequence[NodeGpus],
        at_s: float,
        *,
        sightings: Sequence[Sighting] = (),
        findings: Sequence[Finding] = (),
    ) -> SampleBatch:
        """One sample of each metric for each host that has GPUs; a count that is not told is missing.

        Of a host that is listed twice the first entry counts.
        """
        rows = list({node.node: node for node in reversed(nodes) if node.total}.values())[::-1]
        keys = tuple(SeriesKey(metric, node.node) for node in rows for metric in NODE_METRICS)
        if keys != self._keys:
            self._keys = keys
        value = np.array([_or_nan(n) for node in rows for n in (node.total, node.used, node.free)], np.float64)
        n = len(keys)
        return SampleBatch(
            keys=self._keys,
            series=np.arange(n, dtype=np.int32),
            at_s=np.full(n, at_s),
            value=value,
            reason=np.where(np.isnan(value), np.uint8(Reason.NOT_MEASURED), np.uint8(Reason.OK)).astype(np.uint8),
            sightings=tuple(sightings),
            findings=tuple(findings),
            source=self._source,
            received_s=at_s,
        )


def count_findings(nodes: Sequence[NodeGpus], source: str) -> list[Finding]:
    """What is odd about the counts."""
    odd = [node.node for node in nodes if node.clamped]
    if not odd:
        return []
    shown = ", ".join(odd[:5]) + (", ..." if len(odd) > 5 else "")
    text = f"counts of GPUs that contradict each other were put into range: {shown}"
    return [Finding(Problem.INCONSISTENT, source, text, len(odd))]


def _or_nan(count: int | None) -> float:
    return float("nan") if count is None else float(count)
