"""How GPUs of one host are cut: ``nvidia-smi -L`` and ``nvidia-smi mig -lgi``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise

from collectors.topology.reading import Reading
from telemetry.errors import BadReply
from telemetry.machine import Device, Machine, MigSlice
from telemetry.samples import Finding, Problem
from telemetry.topology import Topology

LIST_FORMAT = "nvidia-smi -L"
INSTANCES_FORMAT = "nvidia-smi mig -lgi"
MAX_SLICES = 4096

_CARD = re.compile(r"GPU ([0-9]{1,4}): (.{1,120}?) \(UUID: (GPU-[0-9a-f-]{8,64})\)")
_SLICE = re.compile(r"\s+MIG (\S{2,40})\s+Device\s+([0-9]{1,3}): \(UUID: (MIG-[0-9A-Za-z/-]{8,100})\)")
_INSTANCE = re.compile(
    r"\|\s+([0-9]{1,4})\s+MIG (\S{2,40})\s+([0-9]{1,3})\s+([0-9]{1,3})\s+([0-9]{1,3}):([0-9]{1,3})\s+\|"
)


def is_list(text: str) -> bool:
    """Whether a text is the answer of ``nvidia-smi -L``."""
    return any(_CARD.fullmatch(line.rstrip()) for line in text[:2000].splitlines()[:5])


def is_instances(text: str) -> bool:
    """Whether a text is the answer of ``nvidia-smi mig -lgi``."""
    return "GPU instances:" in text[:2000] and "Placement" in text[:4000]


def read_list(text: str, source: str, host: str) -> Reading:
    """GPUs with their UUIDs, and the MIG devices under each.

    Raises:
        BadReply: it names no GPU.
    """
    devices: list[Device] = []
    slices: list[MigSlice] = []
    products: list[str] = []
    unread = 0
    for line in text.splitlines():
        card, piece = _CARD.fullmatch(line.rstrip()), _SLICE.fullmatch(line.rstrip())
        if card is not None:
            devices.append(Device(f"GPU{card[1]}", "gpu", uuid=card[3]))
            products.append(card[2])
        elif piece is not None and devices and len(slices) < MAX_SLICES:
            slices.append(MigSlice(devices[-1].name, piece[1], uuid=piece[3]))
        elif line.strip():
            unread += 1
    if not devices:
        raise BadReply(source, "names no GPU")
    findings = [Finding(Problem.MALFORMED_LINE, source, "lines are no GPU and no MIG device", unread)] if unread else []
    if len({device.name for device in devices}) < len(devices):
        raise BadReply(source, "names a GPU twice", mend="Give one list per host")
    machine = Machine(
        host,
        tuple(devices),
        gpu_count=len(devices),
        product=products[0] if len(set(products)) == 1 else "",
        mig=tuple(slices),
        source=source,
    )
    unknowns = (f"{host} has GPUs of {len(set(products))} models",) if len(set(products)) > 1 else ()
    topology = Topology(source=source, machines={host: machine}, unknowns=unknowns)
    return Reading(LIST_FORMAT, topology, tuple(findings))


def read_instances(text: str, source: str, host: str) -> Reading:
    """MIG instances with their place among the card's memory slices.

    Raises:
        BadReply: the table holds no instance.
    """
    slices = [
        MigSlice(f"GPU{m[1]}", m[2], instance=str(int(m[4])), start=int(m[5]), size=int(m[6]))
        for line in text.splitlines()
        if (m := _INSTANCE.fullmatch(line.strip()))
    ][:MAX_SLICES]
    if not slices:
        raise BadReply(source, "lists no GPU instance")
    machine = Machine(host, mig=tuple(slices), source=source)
    findings = tuple(Finding(Problem.OUT_OF_RANGE, source, detail) for detail in _overlaps(slices))
    return Reading(INSTANCES_FORMAT, Topology(source=source, machines={host: machine}), findings)


def _overlaps(slices: Iterable[MigSlice]) -> list[str]:
    placed = sorted(
        (piece.gpu, piece.start, piece.start + piece.size, piece.instance)
        for piece in slices
        if piece.start is not None and piece.size is not None
    )
    return [
        f"{gpu}: the instances {one} and {other} lie on one memory slice"
        for (gpu, _, end, one), (its, start, _, other) in pairwise(placed)
        if gpu == its and start < end
    ]
