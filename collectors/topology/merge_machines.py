"""The inside of one host from two sources: what the first leaves open is filled in, differences are conflicts."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from telemetry.distance import Distance, Reach
from telemetry.machine import Device, Machine, MigSlice
from telemetry.topology import Conflict

_SAME_WAY = frozenset({Reach.PHB, Reach.NODE})
"""NCCL says PHB for every way over the host bridges of one NUMA node; nvidia-smi tells one from several."""

_DEVICE_FIELDS = (
    ("uuid", "UUID"),
    ("bus_id", "PCI address"),
    ("cpus", "CPUs"),
    ("numa", "NUMA node"),
    ("gpu_numa", "NUMA node of the memory"),
    ("capacity_bytes_per_s", "speed in bytes per second"),
    ("pcie_bytes_per_s", "PCIe speed in bytes per second"),
    ("compute_capability", "compute capability"),
)
_MACHINE_FIELDS = (
    ("gpu_count", "number of GPUs"),
    ("product", "GPU model"),
    ("memory_bytes", "GPU memory in bytes"),
    ("mig_strategy", "MIG strategy"),
    ("replicas", "sharing replicas"),
)


def merged_machine(mine: Machine, theirs: Machine) -> tuple[Machine, list[Conflict]]:
    """One machine and what the two do not agree on; ``mine`` is used first."""
    sources = (mine.source, theirs.source)
    conflicts: list[Conflict] = []
    values = {
        name: _one(getattr(mine, name), getattr(theirs, name), mine.host, what, sources, conflicts)
        for name, what in _MACHINE_FIELDS
    }
    devices = {device.name: device for device in mine.devices}
    if mine.gpus and theirs.gpus and len(mine.gpus) != len(theirs.gpus):
        says = ((sources[0], str(len(mine.gpus))), (sources[1], str(len(theirs.gpus))))
        conflicts.append(Conflict(mine.host, "number of named GPUs", says, str(len(mine.gpus))))
    for device in theirs.devices:
        kept = devices.get(device.name)
        devices[device.name] = device if kept is None else _device(mine.host, kept, device, sources, conflicts)
    return (
        replace(
            mine,
            devices=tuple(devices.values()),
            between=_between(mine, theirs, conflicts),
            mig=_mig(mine, theirs, conflicts),
            source=", ".join(dict.fromkeys(source for source in sources if source)),
            **values,
        ),
        conflicts,
    )


def checked_machine(machine: Machine) -> tuple[Machine, list[Conflict]]:
    """The machine with its GPUs counted where they are named, and a conflict where labels count others."""
    named = len(machine.gpus)
    if not named:
        return machine, []
    if machine.gpu_count is None:
        return (machine if machine.mig else replace(machine, gpu_count=named)), []
    if machine.gpu_count == named:
        return machine, []
    says = (("the count", str(machine.gpu_count)), ("the named devices", str(named)))
    return machine, [Conflict(machine.host, "number of GPUs", says, str(machine.gpu_count))]


def _device(host: str, mine: Device, theirs: Device, sources: tuple[str, str], conflicts: list[Conflict]) -> Device:
    values = {
        name: _one(getattr(mine, name), getattr(theirs, name), f"{host}:{mine.name}", what, sources, conflicts)
        for name, what in _DEVICE_FIELDS
    }
    return replace(mine, **values)


def _one(a: Any, b: Any, subject: str, what: str, sources: tuple[str, str], conflicts: list[Conflict]) -> Any:
    """The first value that is told."""
    unknown = (None, "", ())
    if a in unknown or b in unknown:
        return b if a in unknown else a
    if a != b:
        conflicts.append(Conflict(subject, what, ((sources[0], _shown(a)), (sources[1], _shown(b))), _shown(a)))
    return a


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, tuple):
        return ",".join(f"{item[0]}-{item[1]}" if isinstance(item, tuple) else str(item) for item in value)
    return str(value)


def _between(mine: Machine, theirs: Machine, conflicts: list[Conflict]) -> dict[tuple[str, str], Distance]:
    merged = dict(mine.between)
    for names, way in theirs.between.items():
        kept = merged.setdefault(names, way)
        same = kept.reach is way.reach or {kept.reach, way.reach} <= _SAME_WAY
        if not same or (kept.links and way.links and kept.links != way.links):
            says = ((mine.source, str(kept)), (theirs.source, str(way)))
            conflicts.append(Conflict(f"{mine.host}:{names[0]}-{names[1]}", "distance", says, str(kept)))
        elif not kept.links and way.links:
            merged[names] = way
    return merged


def _mig(mine: Machine, theirs: Machine, conflicts: list[Conflict]) -> tuple[MigSlice, ...]:
    """The layout that tells more; a conflict where the two count other slices."""
    if not mine.mig or not theirs.mig:
        return mine.mig or theirs.mig
    counts = [_profiles(machine.mig) for machine in (mine, theirs)]
    if counts[0] != counts[1]:
        texts = [", ".join(f"{count} x {name}" for name, count in sorted(c.items())) for c in counts]
        says = ((mine.source, texts[0]), (theirs.source, texts[1]))
        conflicts.append(Conflict(mine.host, "MIG layout", says, texts[0]))
        return mine.mig
    return max(mine.mig, theirs.mig, key=_detail)


def _profiles(slices: tuple[MigSlice, ...]) -> Counter[str]:
    found: Counter[str] = Counter()
    for piece in slices:
        found[piece.profile] += piece.count
    return found


def _detail(slices: tuple[MigSlice, ...]) -> int:
    return sum(bool(p.gpu) + bool(p.instance) + bool(p.uuid) + (p.start is not None) for p in slices)
