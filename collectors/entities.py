"""Which device a line of a page belongs to: labels -> GpuId, LinkId."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from collectors.nccl.inspector_text import collective_of
from telemetry.catalogue import EXPORTER_POD_HINT, TEXT_BLANKS, Level, Metric, Source
from telemetry.ids import GpuId, LinkId

_UUID_LABELS = ("UUID", "uuid", "gpu_uuid")
_HOST_LABELS = ("Hostname", "hostname")
_NODE_LABELS = ("node", "nodename")
UNKNOWN_NODE = "unknown"
"""Host of a card that nothing tells the host of; its UUID still makes it unique."""
_LOOPBACK = ("localhost", "::1", "")


@dataclass(frozen=True, slots=True)
class Place:
    """What is known of a target besides its labels.

    Args:
        node: host name the user gave for the target; empty when none.
        fallback: name to use when nothing else tells, made from the target's URL; may be empty.
        nodenames: Prometheus ``instance`` -> the host's own name.
    """

    node: str = ""
    fallback: str = ""
    nodenames: Mapping[str, str] = field(default_factory=dict)


def clean_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels without DCGM's text blanks."""
    return {name: value for name, value in labels.items() if value not in TEXT_BLANKS}


def host_of(address: str) -> str:
    """Host name from a URL or an ``instance`` such as ``10.0.0.11:9400``.

    Several targets on one loopback address are several pretend hosts, so there the port stays part of the name
    (joined by ``_``, because ids use the colon).
    """
    try:
        parts = urlsplit(address if "//" in address else f"//{address}")
        host, port = parts.hostname or "", parts.port
    except ValueError:  # a port that is no number, or a bracket without its partner
        return address.replace(":", "_")
    if (host in _LOOPBACK or host.startswith("127.")) and port is not None:
        return f"{host or 'localhost'}_{port}".replace(":", "_")
    return host.replace(":", "_")


def gpu_of(labels: Mapping[str, str], place: Place) -> GpuId | None:
    """The device of a GPU line, None when its UUID or its host is unknown."""
    uuid = uuid_of(labels)
    node = _gpu_node(labels, place)
    return GpuId(node, uuid, labels.get("GPU_I_ID", "") or _amd_partition(labels)) if uuid and node else None


def uuid_of(labels: Mapping[str, str]) -> str:
    """The card's UUID, or its serial number where an AMD exporter names that alone; empty when a line names none."""
    uuid = next((labels[name] for name in _UUID_LABELS if labels.get(name)), "")
    return uuid or (labels.get("serial_number", "") if labels.get("gpu_id") else "")


def _amd_partition(labels: Mapping[str, str]) -> str:
    """The slice of an AMD card; partition 0 speaks for the card, for it alone has the card's power and activity."""
    partition = labels.get("gpu_partition_id", "")
    return "" if partition == "0" else partition


def link_of(labels: Mapping[str, str], place: Place) -> LinkId | None:
    """The port of a network line: a switch's port, or a NIC's port on a host; None when a part is unknown."""
    port = labels.get("port", "")
    switch = labels.get("switch") or ("" if labels.get("device") else labels.get("guid", ""))
    if switch:
        return LinkId(switch, port, "leaf") if port else None
    node, device = _port_node(labels, place), labels.get("device", "")
    return LinkId(f"{node}:{device}", port, "nic") if node and device and port else None


def entity_of(metric: Metric, labels: Mapping[str, str], place: Place, source: Source | None = None) -> str:
    """Text form of what a sample belongs to, as the metric's level says; empty when it cannot be told.

    Args:
        metric: what the line is about.
        labels: of the line.
        place: what is known of the target.
        source: tells which label names the lane or the host's device.
    """
    if source is not None and source.entity:
        return _filled(source.entity, labels, place)
    if metric.level is Level.PORT:
        link = link_of(labels, place)
        return "" if link is None else str(link)
    if metric.level is Level.NODE:
        return host_name(labels, place)
    if metric.level in (Level.LANE, Level.HOST_DEVICE):
        return _part_of(metric.level, labels, place, source)
    if metric.level in (Level.GPU, Level.DEVICE):
        gpu = gpu_of(labels, place)
        if gpu is None:
            return ""
        return str(gpu.card if metric.level is Level.GPU else gpu)
    if metric.level is Level.COLLECTIVE:
        return str(collective_of(labels, host_name(labels, place)) or "")
    return ""


def part_of(metric: Metric, name: str, labels: Mapping[str, str]) -> str:
    """Which part of a number that is to be added up a line gives; empty where the line gives the whole."""
    if not metric.parts:
        return ""
    return "|".join(name if label == "__name__" else labels.get(label, "") for label in metric.parts)


def host_name(labels: Mapping[str, str], place: Place) -> str:
    """Host that a line is about; empty when nothing tells it."""
    return _gpu_node(labels, place)


def _filled(template: str, labels: Mapping[str, str], place: Place) -> str:
    """A template over labels, whose values lose their colons; empty when one is absent or empty."""
    values = {name: value.replace(":", "_") for name, value in labels.items() if value}
    node = host_name(labels, place)
    try:
        return template.format_map({**values, "node": node} if node else values)
    except KeyError:
        return ""


def _part_of(level: Level, labels: Mapping[str, str], place: Place, source: Source | None) -> str:
    """A card's lane or a host's device: ``owner:name``, without colons in the name."""
    try:
        name = (source.device if source else "").format_map(labels).replace(":", "_")
    except KeyError:  # the label that would name it is absent
        return ""
    if level is Level.HOST_DEVICE:
        owner = host_name(labels, place)
    else:
        gpu = gpu_of(labels, place)
        owner = "" if gpu is None else str(gpu.card)
    return f"{owner}:{name}" if owner and name else ""


def _gpu_node(labels: Mapping[str, str], place: Place) -> str:
    for name in _HOST_LABELS:
        host = labels.get(name, "")
        # Without NODE_NAME the exporter prints its own pod's name here; what the user said is then better.
        if host and not (place.node and EXPORTER_POD_HINT in host):
            return host
    return _other_node(labels, place)


def _port_node(labels: Mapping[str, str], place: Place) -> str:
    return place.node or _other_node(labels, place)


def _other_node(labels: Mapping[str, str], place: Place) -> str:
    if place.node:
        return place.node
    for name in _NODE_LABELS:
        if labels.get(name):
            return labels[name]
    instance = labels.get("instance", "")
    if instance:
        return place.nodenames.get(instance) or host_of(instance)
    return place.fallback
