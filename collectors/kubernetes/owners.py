"""Pods and nodes -> jobs, holds on devices, and GPUs of hosts. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from collectors.kubernetes.devices import ClaimTable, Devices, devices_of
from collectors.kubernetes.objects import Node, Pod
from telemetry.ids import JobId
from telemetry.roster import Claim, JobRecord, JobState, NodeGpus, count_types

NO_CLAIMS = ClaimTable()


def claims_of(
    pods: Iterable[Pod],
    nodes: Mapping[str, Node],
    table: ClaimTable = NO_CLAIMS,
    kubelet: Mapping[tuple[str, str], Devices] | None = None,
) -> list[Claim]:
    """Each pod's hold on GPUs: by device where one of the sources tells them, else by count.

    Placeholder pods keep room for a gang and are no work; they hold nothing here.
    """
    found: list[Claim] = []
    for pod in pods:
        if pod.holds and not pod.placeholder:
            devices = (kubelet or {}).get((pod.namespace, pod.name)) or devices_of(pod, table)
            found += _claims(pod, nodes.get(pod.node), devices)
    return found


def _claims(pod: Pod, node: Node | None, devices: Devices | None) -> list[Claim]:
    replicated = node is not None and node.replicas > 1
    shared = pod.wanted.shared or replicated or (devices is not None and devices.shared)
    told: list[Claim] = []
    product = node.product if node is not None else ""
    if devices is not None and devices.uuids:
        told.append(_claim(pod, len(devices.uuids), product, shared, uuids=devices.uuids))
    elif pod.wanted.whole or pod.wanted.shared:
        # A replica or a share says nothing of how many cards are behind it.
        sliced = node is not None and node.sliced
        told.append(_claim(pod, None if shared else pod.wanted.whole, product, shared, sliced=sliced))
    slices = dict(pod.wanted.slices)
    if devices is not None and devices.slices and not slices:
        slices[""] = len(devices.slices)
    told += [_claim(pod, count, profile, False, sliced=True) for profile, count in sorted(slices.items())]
    return told


def _claim(
    pod: Pod, count: int | None, kind: str, shared: bool, uuids: tuple[str, ...] = (), sliced: bool = False
) -> Claim:
    return Claim(
        job=pod.job,
        node=pod.node,
        count=count,
        gpu_type=kind,
        uuids=uuids,
        shared=shared,
        sliced=sliced,
        since_s=pod.started_s,
        workload=pod.workload,
    )


def nodes_gpus(nodes: Iterable[Node], pods: Iterable[Pod]) -> list[NodeGpus]:
    """GPUs of each host, and how many its pods have; unknown where cards are shared."""
    taken: dict[str, list[Pod]] = {}
    for pod in pods:
        if pod.holds:
            taken.setdefault(pod.node, []).append(pod)
    return [_node_gpus(node, taken.get(node.name, [])) for node in nodes]


def _node_gpus(node: Node, pods: Sequence[Pod]) -> NodeGpus:
    cards = node.whole // node.replicas
    total = cards + sum(node.slices.values())
    used: int | None = sum(pod.wanted.whole + sum(pod.wanted.slices.values()) for pod in pods)
    if node.replicas > 1 or any(pod.wanted.shared or (pod.claims and not pod.wanted.whole) for pod in pods):
        used = None if pods else 0
    clamped = used is not None and used > total
    types = count_types(
        [*((kind, count) for kind, count in node.slices.items()), *([(node.product, cards)] if cards else [])]
    )
    return NodeGpus(
        node=node.name,
        total=total,
        used=None if used is None else min(used, total),
        types=types,
        state="Ready" if node.ready else "not taking pods",
        in_service=node.ready,
        clamped=clamped,
    )


def job_records(pods: Iterable[Pod], nodes: Mapping[str, Node]) -> list[JobRecord]:
    """One record for each job that is not over, sorted by id: running when any of its pods has a host."""
    groups: dict[JobId, list[Pod]] = {}
    for pod in pods:
        if pod.phase not in ("Succeeded", "Failed") and not pod.placeholder:
            groups.setdefault(pod.job, []).append(pod)
    return [_record(job, groups[job], nodes) for job in sorted(groups)]


def _record(job: JobId, pods: Sequence[Pod], nodes: Mapping[str, Node]) -> JobRecord:
    holding = [pod for pod in pods if pod.holds]
    counted = holding or pods
    shares = any(_shares(pod, nodes.get(pod.node)) for pod in counted)
    hosts = sorted({pod.node for pod in holding})
    parts = [part for pod in counted for part in _types(pod, nodes.get(pod.node))]
    # GPUs by resource claim are told with their devices, not by the pod.
    unknown = shares or any(not pod.wanted.any for pod in counted)
    asked = [count for pod in pods for _, count in _types(pod, nodes.get(pod.node))]
    cannot_say = any(_shares(pod, nodes.get(pod.node)) or not pod.wanted.any for pod in pods)
    return JobRecord(
        job=job,
        state=JobState.RUNNING if holding else JobState.WAITING,
        state_text=", ".join(sorted({pod.phase for pod in pods})),
        name=job.name.partition(":")[2],
        account=pods[0].namespace,
        partition=next((pod.queue for pod in pods if pod.queue), ""),
        gpu_count=None if unknown else sum(count for _, count in parts),
        asked_gpu_count=None if cannot_say else sum(asked),
        gpu_types={} if unknown else count_types(parts),
        shares_gpus=shares,
        node_count=len(hosts) or None,
        nodes=tuple(hosts),
        submit_s=_least(pod.created_s for pod in pods),
        start_s=_least(pod.started_s for pod in holding),
        time_limit_s=_least(pod.limit_s for pod in pods),
        priority=max((pod.priority for pod in pods if pod.priority is not None), default=None),
        restarts=max(pod.restarts for pod in pods),
        reason="" if holding else next((pod.waits_for for pod in pods if pod.waits_for), ""),
    )


def _shares(pod: Pod, node: Node | None) -> bool:
    return pod.wanted.shared or (node is not None and node.replicas > 1)


def _types(pod: Pod, node: Node | None) -> list[tuple[str, int]]:
    product = node.product if node is not None else ""
    whole = [(product, pod.wanted.whole)] if pod.wanted.whole else []
    return [*whole, *sorted(pod.wanted.slices.items())]


def _least(values: Iterable[float | None]) -> float | None:
    return min((value for value in values if value is not None), default=None)
