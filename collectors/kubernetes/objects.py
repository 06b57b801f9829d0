"""Pods and nodes of the Kubernetes API, cut down to what matters for GPUs. Pure; bad shapes give empty fields."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from collectors.attribution import REPLICA_SUFFIX
from telemetry.ids import JobId

BACKEND = "kubernetes"
_WHOLE = frozenset({"nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe", "habana.ai/gaudi"})
_SHARED = re.compile(
    r"(?:nvidia\.com/(?:gpu|mig-[a-z0-9.]+)\.shared|nvidia\.com/(?:gpumem|gpucores)|aliyun\.com/gpu-mem)"
)
_SLICE = re.compile(r"(?:nvidia\.com/mig-|amd\.com/)([0-9]+g\.[0-9]+gb[a-z0-9.+]*|[a-z]+x_nps[0-9])")
_QUANTITY = re.compile(r"([0-9]{1,15})(k|M)?")
_TEMPLATE_HASH = re.compile(r"-[a-z0-9]{5,10}$")
_JOB_LABELS = (
    "jobset.sigs.k8s.io/jobset-name",
    "training.kubeflow.org/job-name",
    "trainer.kubeflow.org/trainjob-name",
    "ray.io/cluster",
    "volcano.sh/job-name",
    "leaderworkerset.sigs.k8s.io/name",
    "batch.kubernetes.io/job-name",
    "job-name",
)
"""What a job's controller writes on its pods, the outermost owner first."""
_QUEUE_LABELS = ("kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/local-queue-name", "volcano.sh/queue-name", "queue")
_PLACEHOLDERS = ("yunikorn.apache.org/placeholder", "placeholder")
DEVICE_ANNOTATIONS = ("hami.io/vgpu-devices-allocated", "volcano.sh/vgpu-ids-new", "volcano.sh/gpu-uuids")
"""Pod annotations in which schedulers write the devices by UUID."""
_MAX_NAME = 512


@dataclass(frozen=True, slots=True)
class Wanted:
    """GPUs that a pod asks for.

    Args:
        whole: whole cards (or replicas of cards, where its node shares them).
        slices: MIG profile -> how many.
        shared: it asks for shares by a resource of its own.
    """

    whole: int = 0
    slices: Mapping[str, int] = field(default_factory=dict)
    shared: bool = False

    @property
    def any(self) -> bool:
        """Whether it asks for GPUs at all."""
        return bool(self.whole or self.slices or self.shared)


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod that asks for GPUs or holds a claim on devices."""

    namespace: str
    name: str
    uid: str
    job: JobId
    node: str
    phase: str
    wanted: Wanted
    queue: str = ""
    priority: float | None = None
    created_s: float | None = None
    started_s: float | None = None
    limit_s: float | None = None
    restarts: int = 0
    waits_for: str = ""
    placeholder: bool = False
    annotations: Mapping[str, str] = field(default_factory=dict)
    claims: tuple[str, ...] = ()
    """Names of its resource claims (dynamic resource allocation)."""

    @property
    def workload(self) -> str:
        """``namespace/pod``."""
        return f"{self.namespace}/{self.name}"

    @property
    def holds(self) -> bool:
        """Whether it has its devices: bound to a host and not over."""
        return bool(self.node) and self.phase not in ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Node:
    """One host with GPUs or without.

    Args:
        name: of the host.
        whole: cards, or replicas of cards where ``replicas`` is above 1.
        slices: MIG profile -> how many.
        replicas: how many pods may have each card; 1 where cards are not shared.
        product: the card's name by its label.
        sliced: every "card" is a MIG instance (the device plugin's strategy ``single``).
        ready: the kubelet answers and the host takes pods.
    """

    name: str
    whole: int = 0
    slices: Mapping[str, int] = field(default_factory=dict)
    replicas: int = 1
    product: str = ""
    sliced: bool = False
    ready: bool = True


def read_pod(item: Mapping[str, Any]) -> Pod | None:
    """The pod, None when it has no name, or has nothing to do with GPUs."""
    meta, spec, status = (_map(item.get(name)) for name in ("metadata", "spec", "status"))
    namespace, name = _text(meta.get("namespace")) or "default", _text(meta.get("name"))
    wanted = _wanted(spec)
    claims = tuple(_claim_names(spec, status))
    if not name or not (wanted.any or claims):
        return None
    labels, annotations = _texts(meta.get("labels")), _texts(meta.get("annotations"))
    return Pod(
        namespace=namespace,
        name=name,
        uid=_text(meta.get("uid")),
        job=JobId(BACKEND, f"{namespace}:{job_name(name, labels, meta.get('ownerReferences'))}"),
        node=_text(spec.get("nodeName")),
        phase=_text(status.get("phase")) or "Unknown",
        wanted=wanted,
        queue=next((labels[label] for label in _QUEUE_LABELS if labels.get(label)), ""),
        priority=_float(spec.get("priority")),
        created_s=read_instant(meta.get("creationTimestamp")),
        started_s=read_instant(status.get("startTime")),
        limit_s=_float(spec.get("activeDeadlineSeconds")),
        restarts=max((_count(_map(c).get("restartCount")) for c in _list(status.get("containerStatuses"))), default=0),
        waits_for=_why_waiting(status),
        placeholder=any("true" in (labels.get(key), annotations.get(key)) for key in _PLACEHOLDERS),
        annotations={key: annotations[key] for key in DEVICE_ANNOTATIONS if annotations.get(key)},
        claims=claims,
    )


def read_node(item: Mapping[str, Any]) -> Node | None:
    """The node, None when it has no name."""
    meta, spec, status = (_map(item.get(name)) for name in ("metadata", "spec", "status"))
    name, labels = _text(meta.get("name")), _texts(meta.get("labels"))
    if not name:
        return None
    has = _wanted_of(_map(status.get("capacity")))
    shared = labels.get("nvidia.com/gpu.sharing-strategy", "none") not in ("none", "")
    replicas = _count(labels.get("nvidia.com/gpu.replicas")) if shared else 1
    taints = {_text(_map(taint).get("key")) for taint in _list(spec.get("taints"))}
    ready = next(
        (_map(c).get("status") for c in _list(status.get("conditions")) if _map(c).get("type") == "Ready"), None
    )
    product = labels.get("nvidia.com/gpu.product", labels.get("amd.com/gpu.product-name", ""))
    return Node(
        name=name,
        whole=has.whole,
        slices=has.slices,
        replicas=max(replicas, 1),
        product=product,
        sliced=labels.get("nvidia.com/mig.strategy") == "single" and "-MIG-" in product,
        ready=ready in ("True", None)
        and spec.get("unschedulable") is not True
        and not taints & {"node.kubernetes.io/unschedulable", "node.kubernetes.io/out-of-service"},
    )


def job_name(pod: str, labels: Mapping[str, str], owners: Any) -> str:
    """The job a pod belongs to: by its controller's label, else its controller, else its own name without replica."""
    named = next((labels[label] for label in _JOB_LABELS if labels.get(label)), "")
    if named:
        return named
    owner = next((_map(o) for o in _list(owners) if _map(o).get("controller") is True), {})
    name = _text(owner.get("name"))
    if owner.get("kind") == "ReplicaSet":
        return _TEMPLATE_HASH.sub("", name) or pod
    return name or REPLICA_SUFFIX.sub("", pod, count=1) or pod


def read_instant(value: Any) -> float | None:
    """Unix seconds of an RFC 3339 time; None for anything else."""
    if not isinstance(value, str) or len(value) > 40:
        return None
    try:
        moment = datetime.fromisoformat(value)
        return moment.timestamp() if moment.tzinfo else None
    except (ValueError, OverflowError):
        return None


def _wanted(spec: Mapping[str, Any]) -> Wanted:
    """What all containers need at once: the running ones and side cars together, or the largest start-up step."""
    inits = [_map(container) for container in _list(spec.get("initContainers"))]
    sidecars = [container for container in inits if container.get("restartPolicy") == "Always"]
    running = [_map(container) for container in _list(spec.get("containers"))] + sidecars
    together = _add(_limits(container) for container in running)
    steps = [_limits(container) for container in inits if container.get("restartPolicy") != "Always"]
    return Wanted(
        max([together.whole, *(step.whole for step in steps)]),
        together.slices or next((step.slices for step in steps if step.slices), {}),
        together.shared or any(step.shared for step in steps),
    )


def _limits(container: Mapping[str, Any]) -> Wanted:
    resources = _map(container.get("resources"))
    # Extended resources cannot be over-committed: limits and requests are the same, and either may be left out.
    return _wanted_of({**_map(resources.get("requests")), **_map(resources.get("limits"))})


def _wanted_of(resources: Mapping[str, Any]) -> Wanted:
    whole, slices, shared = 0, dict[str, int](), False
    for name, quantity in resources.items():
        count = _count(quantity)
        if not count or not isinstance(name, str):
            continue
        if name in _WHOLE:
            whole += count
        elif match := _SLICE.fullmatch(name):
            slices[match[1]] = slices.get(match[1], 0) + count
        elif _SHARED.fullmatch(name):
            shared = True
    return Wanted(whole, slices, shared)


def _add(parts: Iterable[Wanted]) -> Wanted:
    whole, slices, shared = 0, dict[str, int](), False
    for part in parts:
        whole, shared = whole + part.whole, shared or part.shared
        for profile, count in part.slices.items():
            slices[profile] = slices.get(profile, 0) + count
    return Wanted(whole, slices, shared)


def _claim_names(spec: Mapping[str, Any], status: Mapping[str, Any]) -> Iterator[str]:
    made = {
        _text(_map(s).get("name")): _text(_map(s).get("resourceClaimName"))
        for s in _list(status.get("resourceClaimStatuses"))
    }
    for entry in _list(spec.get("resourceClaims")):
        name = _text(_map(entry).get("resourceClaimName")) or made.get(_text(_map(entry).get("name")), "")
        if name:
            yield name


def _why_waiting(status: Mapping[str, Any]) -> str:
    for condition in _list(status.get("conditions")):
        entry = _map(condition)
        if entry.get("type") == "PodScheduled" and entry.get("status") == "False":
            return ": ".join(part for part in (_text(entry.get("reason")), _text(entry.get("message"))) if part)
    return ""


def _count(value: Any) -> int:
    """A whole quantity such as ``8``, ``"8"`` or ``"2k"``; 0 for anything else."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value if 0 <= value < 10**9 else 0
    match = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
    return 0 if match is None else int(match[1]) * {"k": 1000, "M": 10**6}.get(match[2], 1)


def _float(value: Any) -> float | None:
    return (
        float(value) if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e18 else None
    )


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value[:_MAX_NAME] if isinstance(value, str) else ""


def _texts(value: Any) -> dict[str, str]:
    return {key: text for key, text in _map(value).items() if isinstance(text, str)}
