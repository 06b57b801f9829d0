"""The matrix of ``nvidia-smi topo -m``: GPUs and NICs of one host, and how far each pair is.

A matrix that is cut is refused whole: the missing rows may be the ones that matter.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from collectors.topology.reading import Reading, counted, short
from telemetry.distance import Distance, Reach
from telemetry.errors import BadReply
from telemetry.machine import Device, Machine, pair
from telemetry.samples import Finding, Problem
from telemetry.topology import Conflict, Topology

FORMAT = "nvidia-smi topo -m"
MAX_DEVICES = 256
"""Most GPUs and NICs of one host; the largest hosts have 16 and 32."""

_SNIFF = 16_384
"""Characters in which a header or a failure must be seen; a header of 256 devices takes 2,000."""
_ESCAPE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_GPU = re.compile(r"GPU[0-9]{1,4}")
_NIC = re.compile(r"NIC[0-9]{1,4}")
_NVLINK = re.compile(r"NV([0-9]{1,3})")
_LEGEND = re.compile(r"\s*(NIC[0-9]{1,4}):\s*(\S+)\s*")
_RANGES = re.compile(r"[0-9]{1,6}(?:-[0-9]{1,6})?(?:,[0-9]{1,6}(?:-[0-9]{1,6})?)*")
_WORDS = {"SOC": Reach.SYS, **{word: Reach[word] for word in ("PIX", "PXB", "PHB", "NODE", "SYS")}}
"""SOC is what drivers before 2017 print for SYS."""
_FAILED = ("Failed to run topology matrix", "NVIDIA-SMI has failed", "couldn't communicate with the NVIDIA driver")


def failed(text: str) -> bool:
    """Whether nvidia-smi says that it could not make the matrix."""
    return any(sign in text[:_SNIFF] for sign in _FAILED)


def header_of(text: str) -> list[str]:
    """The cells of the header line; none where there is no matrix."""
    for line in _ESCAPE.sub("", text[:_SNIFF]).splitlines()[:50]:
        cells = _cells(line)
        if len(cells) > 1 and not cells[0] and _GPU.fullmatch(cells[1]):
            return cells
    return []


def read_matrix(text: str, source: str, host: str) -> Reading:
    """The inside of ``host``.

    Raises:
        BadReply: nvidia-smi failed, there is no matrix, or it is cut.
    """
    if failed(text):
        mend = "A NIC that the driver does not know makes the whole command fail"
        raise BadReply(source, "nvidia-smi could not make the matrix, so the topology is unknown", mend=mend)
    header = header_of(text)
    if not header:
        raise BadReply(source, "has no matrix: no header line with GPU0")
    names, tail = _columns(header)
    if len(names) > MAX_DEVICES:
        raise BadReply(source, f"names {len(names)} devices; {MAX_DEVICES} are the most for one host")
    lines = _ESCAPE.sub("", text).splitlines()
    rows = _rows(lines, names, source)
    legend = {match[1]: match[2] for line in lines if (match := _LEGEND.fullmatch(line))}
    findings = [
        Finding(Problem.PARTIAL, source, f"the legend does not name {name}; the end may be cut")
        for name in names
        if _NIC.fullmatch(name) and name not in legend
    ]
    real = [legend.get(name, name) for name in names]
    between, conflicts, odd = _between(real, rows, source, host)
    devices = tuple(
        _device(name, shown, dict(zip(tail, _tail(row.cells[len(names) :], len(tail)), strict=False)))
        for name, shown, row in zip(names, real, rows, strict=True)
    )
    machine = Machine(host, devices, between, gpu_count=sum(device.kind == "gpu" for device in devices), source=source)
    topology = Topology(source=source, machines={host: machine}, conflicts=tuple(conflicts))
    return Reading(FORMAT, topology, (*findings, *odd))


@dataclass(frozen=True, slots=True)
class _Row:
    name: str
    cells: list[str]


def _cells(line: str) -> list[str]:
    """Cells of a line; a matrix pasted without its tabs has runs of spaces instead."""
    if "\t" in line:
        return [cell.strip() for cell in line.split("\t")]
    cells = [cell.strip() for cell in re.split(r" {2,}", line.rstrip())]
    # " X " loses one of its spaces to the cell before it, and a row of one-space cells is split at every space.
    return [word for cell in cells for word in (re.split(r" (?=X\b)|(?<=\bX) ", cell) if cell else [cell])]


def _columns(header: Sequence[str]) -> tuple[list[str], list[str]]:
    """Device names, and the titles of the columns after them."""
    cells = [cell for cell in header[1:] if cell]
    devices = [cell for cell in cells if " " not in cell]
    return devices, [cell.upper() for cell in cells if " " in cell]


def _rows(lines: Sequence[str], names: Sequence[str], source: str) -> list[_Row]:
    wanted = set(names)
    if len(wanted) < len(names):
        raise BadReply(source, "names a device twice in its header")
    found: dict[str, _Row] = {}
    for line in lines:
        cells = _cells(line)
        if cells[0] in wanted and len(cells) > 1:
            if cells[0] in found:
                raise BadReply(source, f"has two rows for {cells[0]}", mend="Give one matrix per host")
            found[cells[0]] = _Row(cells[0], cells[1:])
    if len(found) < len(names):
        what = f"matrix cut: header names {counted(len(names), 'device')}, {counted(len(found), 'row')} found"
        raise BadReply(source, what)
    for name in names:
        if len(found[name].cells) < len(names):
            got = len(found[name].cells)
            raise BadReply(source, f"matrix cut: the row of {name} has {got} of {counted(len(names), 'cell')}")
    return [found[name] for name in names]


def _between(
    real: Sequence[str], rows: Sequence[_Row], source: str, host: str
) -> tuple[dict[tuple[str, str], Distance], list[Conflict], list[Finding]]:
    between: dict[tuple[str, str], Distance] = {}
    conflicts: list[Conflict] = []
    findings: list[Finding] = []
    for i, row in enumerate(rows):
        if row.cells[i] != "X":
            raise BadReply(source, f"matrix cut: the row of {row.name} has no X where it meets itself")
        for j in range(i):
            told, back = row.cells[j], rows[j].cells[i]
            subject = f"{host}:{real[j]}-{real[i]}"
            if told != back:
                says = ((source, f"{back} in one row"), (source, f"{told} in the other"))
                conflicts.append(Conflict(subject, "distance", says))
                continue
            way = _way(told)
            if way is None:
                findings.append(
                    Finding(Problem.MALFORMED_LINE, source, f"{subject} is {short(told)}, so it is unknown")
                )
            else:
                between[pair(real[i], real[j])] = way
    return between, conflicts, findings


def _way(cell: str) -> Distance | None:
    match = _NVLINK.fullmatch(cell)
    if match is not None:
        return Distance(Reach.NVLINK, int(match[1])) if int(match[1]) else None
    reach = _WORDS.get(cell)
    return None if reach is None else Distance(reach)


def _tail(cells: list[str], count: int) -> list[str]:
    """The cells after the devices; drivers print an empty one too many before the last."""
    while len(cells) > count and "" in cells:
        place = len(cells) - 1 - cells[::-1].index("")
        cells = cells[:place] + cells[place + 1 :]
    return cells


def _device(name: str, shown: str, told: dict[str, str]) -> Device:
    kind = "gpu" if _GPU.fullmatch(name) else "nic"
    memory = told.get("GPU NUMA ID", "")
    return Device(
        name=shown,
        kind=kind,
        cpus=ranges(told.get("CPU AFFINITY", "")),
        numa=tuple(
            node for first, last in ranges(told.get("NUMA AFFINITY", "")) for node in range(first, min(last, 4095) + 1)
        ),
        gpu_numa=int(memory) if memory.isascii() and memory.isdigit() and len(memory) <= 6 else None,
    )


def ranges(text: str) -> tuple[tuple[int, int], ...]:
    """Closed ranges of ``0-55,112-167``; none where it is N/A, empty or no list of ranges."""
    if not _RANGES.fullmatch(text):
        return ()
    found = []
    for item in text.split(","):
        first, _, last = item.partition("-")
        found.append((int(first), int(last or first)))
    return tuple(found) if all(first <= last for first, last in found) else ()
