"""Kubernetes as a source: whose pods have which GPUs, what waits, and how many GPUs each host has, uses and can give."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from collectors.kubernetes.client import KubernetesLists, ListFailed
from collectors.kubernetes.devices import ClaimTable, read_claims
from collectors.kubernetes.objects import Node, Pod, read_node, read_pod
from collectors.kubernetes.owners import NO_CLAIMS, claims_of, job_records, nodes_gpus
from collectors.node_counts import NODE_METRICS, NodeCounts, count_findings
from collectors.ownership import Ownership
from telemetry.roster import Roster
from telemetry.samples import Finding, Problem, SampleBatch, Window

_DRA_VERSIONS = ("v1", "v1beta2", "v1beta1")
_DRA_AGAIN_S = 600.0
_NOT_OVER = "status.phase!=Succeeded,status.phase!=Failed"
T = TypeVar("T")


class KubernetesCollector:
    """One Kubernetes cluster. A reading is two lists, pods and nodes, and two more where resource claims are in use.

    Args:
        lists: the API server; the one of the pod that this runs in when None.
        ownership: where its word meets that of the telemetry's labels.
    """

    def __init__(self, lists: KubernetesLists | None = None, ownership: Ownership | None = None) -> None:
        self._lists = lists or KubernetesLists()
        self._ownership = ownership or Ownership()
        self.name = self._lists.name
        self.provides = frozenset(NODE_METRICS)
        self.roster = Roster(source=self.name)
        """The newest list; kept when a later reading fails."""
        self._counts = NodeCounts(self.name)
        self._dra: tuple[str, float] = ("", float("-inf"))
        """Version of the resource claims' API, empty for none, and when that was asked."""

    async def collect(self, window: Window) -> SampleBatch:
        """The cluster as it is now, stamped ``window.end_s``."""
        at_s = window.end_s
        try:
            nodes = {node.name: node for node in await self._read("/api/v1/nodes", read_node)}
            pods = await self._read("/api/v1/pods", read_pod, fieldSelector=_NOT_OVER)
        except ListFailed as failed:
            finding = Finding(failed.problem, self.name, failed.detail)
            return SampleBatch.empty(source=self.name, findings=(finding,), received_s=at_s)
        if not nodes:
            finding = Finding(Problem.EMPTY, self.name, "the cluster lists no nodes")
            return SampleBatch.empty(source=self.name, findings=(finding,), received_s=at_s)
        findings: list[Finding] = []
        table = await self._claims(at_s, findings) if any(pod.claims for pod in pods) else NO_CLAIMS
        return self._batch(pods, nodes, table, at_s, findings)

    async def close(self) -> None:
        """Release connections."""
        await self._lists.close()

    def _batch(
        self, pods: list[Pod], nodes: Mapping[str, Node], table: ClaimTable, at_s: float, findings: list[Finding]
    ) -> SampleBatch:
        counted = nodes_gpus(nodes.values(), pods)
        with_gpus = [node for node in counted if node.total]
        claims = claims_of(pods, nodes, table)
        settled = self._ownership.from_scheduler(claims, with_gpus, at_s, source=self.name)
        self.roster = Roster(at_s, self.name, tuple(job_records(pods, nodes)), tuple(counted), settled.shares)
        findings += [*settled.findings, *count_findings(counted, self.name)]
        if not with_gpus:
            findings.append(Finding(Problem.EMPTY, self.name, "no node of the cluster offers GPUs"))
        return self._counts.batch(counted, at_s, sightings=settled.sightings, findings=findings)

    async def _read(self, path: str, read: Callable[[Mapping[str, Any]], T | None], **query: str) -> list[T]:
        """Each page is cut down as it comes, so that a large cluster's list is never held whole."""
        found: list[T] = []
        async for items in self._lists.items(path, **query):
            found += [one for one in (read(item) for item in items if isinstance(item, dict)) if one is not None]
        return found

    async def _claims(self, at_s: float, findings: list[Finding]) -> ClaimTable:
        version, asked_s = self._dra
        if not version and at_s - asked_s < _DRA_AGAIN_S:
            return NO_CLAIMS
        for candidate in (version,) if version else _DRA_VERSIONS:
            try:
                base = f"/apis/resource.k8s.io/{candidate}"
                claims = await self._read(f"{base}/resourceclaims", lambda item: item)
                slices = await self._read(f"{base}/resourceslices", lambda item: item)
            except ListFailed as failed:
                if failed.status == 404:
                    continue
                findings.append(Finding(Problem.WARNING, self.name, f"resource claims are unknown: {failed.detail}"))
                return NO_CLAIMS
            self._dra = (candidate, at_s)
            return read_claims(claims, slices)
        self._dra = ("", at_s)
        return NO_CLAIMS
