"""The inside of one host: GPUs, NICs, how far they are from each other, and how a GPU is cut. Unknown stays unknown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from math import comb

from telemetry.distance import Distance, Reach


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU or a NIC of a host.

    Args:
        name: ``GPU0``, or a NIC's own name such as ``mlx5_0``.
        kind: ``gpu`` or ``nic``.
        uuid: ``GPU-...``; empty when not told.
        bus_id: PCI address; empty when not told.
        cpus: closed ranges of the CPUs beside it; empty when not told.
        numa: its NUMA nodes; empty when not told.
        gpu_numa: NUMA node of the GPU's own memory; None when not told or when there is none.
        capacity_bytes_per_s: speed of a NIC, one direction; None when not told.
        pcie_bytes_per_s: speed of its PCIe slot, one direction, after line coding; None when not told.
        compute_capability: of a GPU, 90 for 9.0; None when not told.
    """

    name: str
    kind: str
    uuid: str = ""
    bus_id: str = ""
    cpus: tuple[tuple[int, int], ...] = ()
    numa: tuple[int, ...] = ()
    gpu_numa: int | None = None
    capacity_bytes_per_s: float | None = None
    pcie_bytes_per_s: float | None = None
    compute_capability: int | None = None

    @property
    def cpu_count(self) -> int | None:
        """How many CPUs are beside it; None when not told."""
        return sum(last - first + 1 for first, last in self.cpus) if self.cpus else None

    @property
    def numa_node(self) -> int | None:
        """The NUMA node of its CPUs, the lowest where several are told; None when not told."""
        return min(self.numa) if self.numa else None


@dataclass(frozen=True, slots=True)
class MigSlice:
    """One MIG instance of a card.

    Args:
        gpu: name of the card, such as ``GPU0``; empty when only the host is told.
        profile: such as ``1g.10gb``.
        count: how many of them; above 1 only where single instances are not told.
        instance: GPU instance id; empty when not told.
        uuid: ``MIG-...``; empty when not told.
        start: first memory slice; None when not told.
        size: memory slices; None when not told.
    """

    gpu: str
    profile: str
    count: int = 1
    instance: str = ""
    uuid: str = ""
    start: int | None = None
    size: int | None = None

    @property
    def compute_slices(self) -> int | None:
        """How many compute slices it has, 1 for ``1g.10gb``; None where the profile does not say."""
        match = re.search(r"(?:^|\.)([0-9]{1,2})g(?:\.|$)", self.profile)
        return int(match[1]) if match else None

    @property
    def memory_bytes(self) -> float | None:
        """Its memory by the profile's name, 10 GiB for ``1g.10gb``; None where the profile does not say."""
        match = re.search(r"\.([0-9]{1,4})gb", self.profile)
        return int(match[1]) * 2.0**30 if match else None


NVLINK_BYTES_PER_S: Mapping[int, float] = {60: 20e9, 70: 25e9, 80: 25e9, 90: 25e9, 100: 50e9, 103: 50e9}
"""Compute capability -> speed of one NVLink, one direction (data sheets of P100, V100, A100, H100, B200 and B300)."""

_CAPABILITY_OF = (
    ("P100", 60), ("V100", 70), ("A100", 80), ("A800", 80), ("H100", 90), ("H800", 90), ("H200", 90), ("H20", 90),
    ("GH200", 90), ("B200", 100), ("GB200", 100), ("B300", 103), ("GB300", 103),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Machine:
    """What is known of the inside of one host.

    Args:
        host: its name.
        devices: GPUs and NICs, as far as they are named.
        between: two device names, sorted -> distance; a pair that is not in it is unknown.
        gpu_count: whole GPUs; None when unknown (also where only MIG slices are counted).
        product: GPU model; empty when unknown.
        memory_bytes: of one GPU; None when unknown.
        mig: how its GPUs are cut.
        mig_strategy: ``none``, ``single`` or ``mixed``; empty when unknown.
        replicas: how many jobs may share one GPU by time slicing; None when unknown.
        source: where this came from.
    """

    host: str
    devices: tuple[Device, ...] = ()
    between: Mapping[tuple[str, str], Distance] = field(default_factory=dict)
    gpu_count: int | None = None
    product: str = ""
    memory_bytes: float | None = None
    mig: tuple[MigSlice, ...] = ()
    mig_strategy: str = ""
    replicas: int | None = None
    source: str = ""

    @property
    def gpus(self) -> tuple[Device, ...]:
        """Its GPUs."""
        return tuple(device for device in self.devices if device.kind == "gpu")

    @property
    def nics(self) -> tuple[Device, ...]:
        """Its NICs."""
        return tuple(device for device in self.devices if device.kind == "nic")

    def device(self, name: str) -> Device | None:
        """A device by name, UUID or PCI address; None when it is not known."""
        return next((d for d in self.devices if name and name in (d.name, d.uuid, d.bus_id)), None)

    def distance(self, a: str, b: str) -> Distance | None:
        """Between two of its devices; None when unknown."""
        one, other = self.device(a), self.device(b)
        if one is None or other is None:
            return None
        return Distance(Reach.SELF) if one.name == other.name else self.between.get(pair(one.name, other.name))

    @property
    def nvlink_domains(self) -> tuple[frozenset[str], ...]:
        """Sets of two or more GPUs that reach each other over NVLink alone, in the order of their first GPU.

        A GPU without NVLink is in none. Inside a set, two GPUs may still lack a link of their own: ``distance`` says.
        """
        return _joined((a, b) for (a, b), way in sorted(self.between.items()) if way.reach is Reach.NVLINK)

    def best_nics(self, gpu: str) -> tuple[tuple[Device, Distance], ...]:
        """The nearest NICs of a GPU, several where they are equally near; none when unknown."""
        ways = [(nic, way) for nic in self.nics if (way := self.distance(gpu, nic.name)) is not None]
        nearest = min((way.reach for _, way in ways), default=None)
        return tuple((nic, way) for nic, way in ways if way.reach is nearest)

    def nvlink_bytes_per_s(self, a: str, b: str) -> float | None:
        """NVLink speed of one direction between two GPUs; None where links or generation are unknown."""
        way, generation = self.distance(a, b), self.compute_capability
        if way is None or way.reach is not Reach.NVLINK or not way.links or generation is None:
            return None
        speed = NVLINK_BYTES_PER_S.get(generation)
        return None if speed is None else way.links * speed

    @property
    def compute_capability(self) -> int | None:
        """Of its GPUs, told or from the product's name; None when unknown or mixed."""
        told = {gpu.compute_capability for gpu in self.gpus if gpu.compute_capability is not None}
        if told:
            return told.pop() if len(told) == 1 else None
        words = set(re.split(r"[^A-Z0-9]+", self.product.upper()))
        return next((capability for word, capability in _CAPABILITY_OF if word in words), None)

    def nearest_gpus(self, count: int, among: Iterable[str] | None = None) -> tuple[str, ...]:
        """The ``count`` GPUs that are nearest to each other, in order; none when they are too few or a way is unknown.

        The farthest pair decides, then the sum over pairs, then the number of NVLinks, then the order of the names.

        Args:
            count: how many.
            among: names to choose from; all GPUs by default.
        """
        wanted = None if among is None else set(among)
        names = [gpu.name for gpu in self.gpus if wanted is None or gpu.name in wanted]
        if not 0 < count <= len(names):
            return ()
        if comb(len(names), count) <= _MAX_SETS:
            best = min(combinations(names, count), key=self._spread)
        else:
            best = min((self._grown(seed, names, count) for seed in names), key=self._spread)
        return best if self._spread(best)[0] < _UNKNOWN else ()

    def _grown(self, seed: str, names: list[str], count: int) -> tuple[str, ...]:
        chosen = [seed]
        while len(chosen) < count:
            left = [name for name in names if name not in chosen]
            chosen.append(min(left, key=lambda name: self._spread((*chosen, name))))
        return tuple(sorted(chosen, key=names.index))

    def _spread(self, names: tuple[str, ...]) -> tuple[int, int, int]:
        worst = total = links = 0
        for a, b in combinations(names, 2):
            way = self.between.get(pair(a, b))
            far = _UNKNOWN if way is None else int(way.reach)
            worst, total, links = max(worst, far), total + far, links + (way.links if way else 0)
        return worst, total, -links


_MAX_SETS = 20_000
"""Above this many sets of GPUs, sets are grown from each GPU instead of tried one by one: far above C(16, 8)."""
_UNKNOWN = 1_000


def pair(a: str, b: str) -> tuple[str, str]:
    """Two names in the order in which ``Machine.between`` has them."""
    return (a, b) if a <= b else (b, a)


def _joined(pairs: Iterable[tuple[str, str]]) -> tuple[frozenset[str], ...]:
    sets: dict[str, set[str]] = {}
    for a, b in pairs:
        both = sets.get(a, {a}) | sets.get(b, {b})
        for name in both:
            sets[name] = both
    unique = {id(names): frozenset(names) for names in sets.values()}
    return tuple(sorted(unique.values(), key=min))
