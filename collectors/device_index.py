"""Which card is number 3 of a host: from the labels of exporters' lines. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from collectors.entities import Place, clean_labels, gpu_of
from telemetry.ids import GpuId

INDEX_LABEL = "gpu"
"""dcgm-exporter's label for the index of the card on its host; it may change when the host starts again."""
PROFILE_LABEL = "GPU_I_PROFILE"
"""dcgm-exporter's label for the profile of a MIG instance, such as ``3g.20gb``."""
IndexRow = tuple[GpuId, int] | tuple[GpuId, int, str]
"""A device, the index of its card on its host, and its MIG profile where it is an instance."""
MAX_INDEX = 4096
_PROFILE = re.compile(r"[0-9]+g\.[0-9]+gb(?:\+[a-z0-9.]+)?")
_MOST_DEVICES = 1_000_000


@dataclass(slots=True)
class _Node:
    cards: dict[int, GpuId] = field(default_factory=dict)
    """Index -> whole card."""
    devices: set[GpuId] = field(default_factory=set)
    """What jobs can get: whole cards, or MIG instances instead of their card."""
    sliced: set[GpuId] = field(default_factory=set)
    """Cards that are cut into MIG instances."""
    profiles: dict[GpuId, str] = field(default_factory=dict)
    """MIG instance -> its profile."""


class DeviceIndex:
    """Cards by host and index, as telemetry shows them; hosts are found by full or by short name."""

    def __init__(self) -> None:
        self._nodes: dict[str, _Node] = {}
        self._short: dict[str, str] = {}
        self._count = 0

    def learn(self, rows: Iterable[IndexRow]) -> None:
        """Take in devices with their indices; the newest wins, and a card has one index only."""
        for gpu, index, *told in rows:
            profile = profile_of(told[0]) if told else ""
            node = self._nodes.get(gpu.node)
            if node is None:
                node = self._nodes[gpu.node] = _Node()
                short = gpu.node.partition(".")[0]
                # Two hosts with one short name are told apart by nothing: then only full names match.
                self._short[short] = gpu.node if self._short.get(short, gpu.node) == gpu.node else ""
            if profile and gpu.mig:
                node.profiles[gpu] = profile
            if gpu in node.devices and node.cards.get(index) == gpu.card:
                continue
            if self._count >= _MOST_DEVICES:
                return
            self._count += 1
            for old in [i for i, card in node.cards.items() if card == gpu.card and i != index]:
                del node.cards[old]
            if node.cards.get(index, gpu.card) != gpu.card:
                _forget_card(node, node.cards[index])
            node.cards[index] = gpu.card
            node.devices.add(gpu)
            if gpu.mig:
                node.sliced.add(gpu.card)
                node.devices.discard(gpu.card)
            elif gpu in node.sliced:
                node.devices.discard(gpu)

    def name_of(self, node: str) -> str:
        """The host's name in the telemetry, for a scheduler's name of it; empty when it is not seen there."""
        return node if node in self._nodes else self._short.get(node.partition(".")[0], "")

    def card(self, node: str, index: int) -> GpuId | None:
        """The whole card at an index; None when unknown, or when it is cut into MIG instances."""
        known = self._nodes.get(self.name_of(node))
        card = known.cards.get(index) if known is not None else None
        return None if known is None or card in known.sliced else card

    def by_uuid(self, node: str, uuid: str) -> GpuId:
        """The card of that UUID, on the host as the telemetry names it."""
        return GpuId(self.name_of(node) or node, uuid)

    def instances(self, node: str, gpu_type: str) -> frozenset[GpuId]:
        """MIG instances of a profile on a host.

        Args:
            node: host.
            gpu_type: as a scheduler writes it: ``3g.20gb``, ``a100_3g.20gb``.
        """
        known, profile = self._nodes.get(self.name_of(node)), profile_of(gpu_type)
        if known is None or not profile:
            return frozenset()
        return frozenset(gpu for gpu in known.devices if known.profiles.get(gpu) == profile)

    def devices(self, node: str) -> frozenset[GpuId]:
        """What jobs can get on a host; empty when the telemetry does not know it."""
        known = self._nodes.get(self.name_of(node))
        return frozenset(known.devices) if known is not None else frozenset()


def _forget_card(node: _Node, card: GpuId) -> None:
    """Another card stands in its place."""
    node.devices = {device for device in node.devices if device.card != card}
    node.sliced.discard(card)
    node.profiles = {gpu: profile for gpu, profile in node.profiles.items() if gpu.card != card}


def profile_of(text: str) -> str:
    """The MIG profile in a label or a scheduler's type, such as ``3g.20gb``; empty when there is none."""
    found = _PROFILE.search(text.lower())
    return found[0] if found else ""


def indices_of(rows: Iterable[Mapping[str, str]], place: Place) -> list[IndexRow]:
    """Device, index and MIG profile of every label set that tells the first two, each once."""
    found: dict[IndexRow, None] = {}
    for raw in rows:
        index = index_of(raw)
        gpu = None if index is None else gpu_of(clean_labels(raw), place)
        if gpu is not None and index is not None:
            found[(gpu, index, raw.get(PROFILE_LABEL, ""))] = None
    return list(found)


def index_of(labels: Mapping[str, str]) -> int | None:
    """The card's index on its host; None when a label set tells none."""
    text = labels.get(INDEX_LABEL, "")
    if not text.isascii() or not text.isdigit() or len(text) > 4:
        return None
    return int(text) if int(text) < MAX_INDEX else None
