"""Which devices a pod has: from annotations, resource claims (DRA) and the kubelet's pod resources. Pure.

The API server itself knows counts only. Devices are known where a scheduler writes them on the pod, where they are allocated
by resource claims, or from the kubelet of the host.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from collectors.kubernetes.objects import Pod

SHARING_ANNOTATIONS = frozenset({"hami.io/vgpu-devices-allocated", "volcano.sh/vgpu-ids-new"})
"""Those of schedulers that give out shares of cards."""
_UUID = re.compile(r"GPU-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_DEVICE_ID = re.compile(r"((?:GPU|MIG)-[0-9A-Za-z-]{1,64})(?:::([0-9]{1,6}))?")
_MAX_TEXT = 65_536
_MOST_DEVICES = 4096


@dataclass(frozen=True, slots=True)
class Devices:
    """Devices of one pod.

    Args:
        uuids: whole cards, sorted.
        slices: MIG instances by their UUID; the telemetry names them otherwise.
        shared: they are shares of cards.
        source: where this was told.
    """

    uuids: tuple[str, ...] = ()
    slices: tuple[str, ...] = ()
    shared: bool = False
    source: str = ""


@dataclass(frozen=True, slots=True)
class ClaimTable:
    """Devices of resource claims.

    Args:
        slices: (driver, pool, device) -> UUID, from resource slices.
        claims: (namespace, claim) -> (driver, pool, device) of each device.
        pods: (namespace, claim) -> UIDs of the pods that it is reserved for.
    """

    slices: Mapping[tuple[str, str, str], str] = field(default_factory=dict)
    claims: Mapping[tuple[str, str], tuple[tuple[str, str, str], ...]] = field(default_factory=dict)
    pods: Mapping[tuple[str, str], frozenset[str]] = field(default_factory=dict)


def devices_of(pod: Pod, claims: ClaimTable) -> Devices | None:
    """The devices of a pod, None where nothing tells them."""
    told = _by_claim(pod, claims)
    if told is not None:
        return told
    for key, text in pod.annotations.items():
        found = sorted(set(_UUID.findall(text[:_MAX_TEXT])))[:_MOST_DEVICES]
        if found:
            return Devices(tuple(found), shared=key in SHARING_ANNOTATIONS, source=f"annotation {key}")
    return None


def _by_claim(pod: Pod, table: ClaimTable) -> Devices | None:
    uuids: set[str] = set()
    slices: set[str] = set()
    shared = False
    for name in pod.claims:
        key = (pod.namespace, name)
        found = [table.slices.get(device, "") for device in table.claims.get(key, ())]
        uuids.update(uuid for uuid in found if uuid.startswith("GPU-"))
        slices.update(uuid for uuid in found if uuid.startswith("MIG-"))
        shared = shared or len(table.pods.get(key, ())) > 1
    return Devices(tuple(sorted(uuids)), tuple(sorted(slices)), shared, "resource claim") if uuids or slices else None


def read_claims(claims: Iterable[Any], slices: Iterable[Any]) -> ClaimTable:
    """Resource claims and slices of resource.k8s.io (v1, v1beta2 and v1beta1), as lists of objects."""
    devices: dict[tuple[str, str, str], str] = {}
    for item in slices:
        spec = _map(_map(item).get("spec"))
        driver, pool = _text(spec.get("driver")), _text(_map(spec.get("pool")).get("name"))
        for device in _list(spec.get("devices")):
            entry = _map(device)
            attributes = _map(entry.get("attributes")) or _map(_map(entry.get("basic")).get("attributes"))
            uuid = _text(_map(attributes.get("uuid")).get("string"))
            if uuid:
                devices[(driver, pool, _text(entry.get("name")))] = uuid
    held: dict[tuple[str, str], tuple[tuple[str, str, str], ...]] = {}
    pods: dict[tuple[str, str], frozenset[str]] = {}
    for item in claims:
        meta, status = _map(_map(item).get("metadata")), _map(_map(item).get("status"))
        key = (_text(meta.get("namespace")) or "default", _text(meta.get("name")))
        results = _list(_map(_map(status.get("allocation")).get("devices")).get("results"))[:_MOST_DEVICES]
        held[key] = tuple(
            (_text(_map(r).get("driver")), _text(_map(r).get("pool")), _text(_map(r).get("device"))) for r in results
        )
        users = [_map(user) for user in _list(status.get("reservedFor"))]
        pods[key] = frozenset(_text(user.get("uid")) for user in users if user.get("resource") == "pods")
    return ClaimTable(devices, held, pods)


def read_pod_resources(document: Any) -> dict[tuple[str, str], Devices]:
    """(namespace, pod) -> devices, from the JSON form of the kubelet's PodResources List answer.

    A replica of a shared card is written ``GPU-...::3``.
    """
    found: dict[tuple[str, str], Devices] = {}
    entries = _map(document).get("podResources", _map(document).get("pod_resources"))
    for item in _list(entries):
        pod = _map(item)
        cards: set[str] = set()
        slices: set[str] = set()
        shared = False
        for container in _list(pod.get("containers")):
            for group in _list(_map(container).get("devices")):
                ids = _list(_map(group).get("deviceIds", _map(group).get("device_ids")))[:_MOST_DEVICES]
                for match in (_DEVICE_ID.fullmatch(text) for text in ids if isinstance(text, str)):
                    if match is not None:
                        (slices if match[1].startswith("MIG-") else cards).add(match[1])
                        shared = shared or match[2] is not None
        if cards or slices:
            key = (_text(pod.get("namespace")) or "default", _text(pod.get("name")))
            found[key] = Devices(tuple(sorted(cards)), tuple(sorted(slices)), shared, "kubelet")
    return found


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value[:512] if isinstance(value, str) else ""
