"""NCCL Inspector's Prometheus text files, as they stand on node_exporter's page.

They name no communicator hash and no rank: the job's number stands in for the one, the GPU on its host for the other.
A file stays when its job has ended, so its age decides whether its numbers are of now.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from collectors.exposition import Layout, ParsedPage
from telemetry.catalogue import INSPECTOR_TEXTFILE_HINT, TEXTFILE_MTIME_FIELD
from telemetry.ids import CollectiveId, CommunicatorId, SeriesKey
from telemetry.samples import CodeArray, Finding, IntArray, Problem, Reason

STALE_S = 120.0
"""The plug-in writes every 30 s at most often; a file four times as old has no writer any more."""
_PREFIX = "nccl_"


def collective_of(labels: Mapping[str, str], node: str) -> CollectiveId | None:
    """What a line of a text file is about; None when it names no operation or its host is unknown.

    Args:
        labels: of the line, without empty ones.
        node: the page's host, for lines that name none.
    """
    operation = labels.get("collective") or labels.get("p2p_operation", "")
    host = labels.get("node") or node
    if not operation or not host:
        return None
    job, size = labels.get("slurm_job_id", ""), labels.get("message_size", "")
    communicator = CommunicatorId(labels.get("comm_name", ""), f"slurm-{job}" if job else "unknown")
    detail = ".".join(filter(None, (size, labels.get("algo_proto", ""))))
    return CollectiveId(communicator, operation, f"{labels.get('gpu') or 'GPU'}@{host}", detail)


class TextfileAges:
    """Tells of Inspector files that nobody writes any more.

    Args:
        source: the page's URL or path, for findings.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._layout: Layout | None = None
        self._ages = np.empty(0, np.intp)
        self._names: tuple[str, ...] = ()

    def mark(
        self, page: ParsedPage, keys: Sequence[SeriesKey], series: IntArray, now_s: float, reason: CodeArray
    ) -> list[Finding]:
        """Mark the page's Inspector samples stale where all of its Inspector files are old.

        The page does not say which line came from which file: while one file is fresh, all lines are kept and the old
        files are named.

        Args:
            page: with the files' times, or without them: then nothing is marked.
            keys: the series.
            series: (n,) index into ``keys``.
            now_s: time of the reading, Unix seconds.
            reason: (n,) ``Reason`` codes, changed in place.
        """
        if page.layout is not self._layout:
            self._learn(page.layout)
        if not self._ages.size:
            return []
        old = page.value[self._ages] < now_s - STALE_S
        if not old.any():
            return []
        names = ", ".join(name for name, is_old in zip(self._names, old, strict=True) if is_old)[:200]
        if not old.all():
            text = f"text files of NCCL Inspector that nobody writes any more: {names}; delete them when their job ends"
            return [Finding(Problem.WARNING, self._source, text, int(old.sum()))]
        stale = np.array([key.metric.startswith(_PREFIX) for key in keys], bool)[series]
        reason[stale & (reason == 0)] = Reason.STALE
        text = f"every text file of NCCL Inspector is older than {STALE_S:g} s, so its numbers are not of now: {names}"
        return [Finding(Problem.WARNING, self._source, text, int(stale.sum()) or 1)]

    def _learn(self, layout: Layout) -> None:
        self._layout = layout
        rows = [
            (row, labels.get("file", ""))
            for row, (name, labels) in enumerate(zip(layout.names, layout.labels, strict=True))
            if name == TEXTFILE_MTIME_FIELD and INSPECTOR_TEXTFILE_HINT in labels.get("file", "")
        ]
        self._ages = np.array([row for row, _ in rows], np.intp)
        self._names = tuple(name.rpartition("/")[2] for _, name in rows)
