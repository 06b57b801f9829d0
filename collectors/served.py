"""Which source serves which GPU: two that serve the same one count its traffic, its memory and its jobs twice. No I/O."""

from __future__ import annotations

from dataclasses import dataclass

from collectors.entities import UNKNOWN_NODE
from telemetry.ids import SeriesKey
from telemetry.samples import SampleBatch

MOST_DEVICES = 1_000_000
"""Remembered; further ones are not looked at."""
MOST_TOLD = 100
_PREFIX = "gpu_"


@dataclass(frozen=True, slots=True)
class Twice:
    """A GPU that more than one source serves.

    Args:
        device: its UUID, or what stands in its place.
        servers: (source, entity) of each, sorted.
    """

    device: str
    servers: tuple[tuple[str, str], ...]


class ServedDevices:
    """Takes note of every batch; a batch with the same ``keys`` as the one before of its source costs one comparison."""

    def __init__(self) -> None:
        self._keys: dict[str, tuple[SeriesKey, ...]] = {}
        self._of_source: dict[str, dict[str, str]] = {}
        self._servers: dict[str, dict[str, str]] = {}
        self._twice: set[str] = set()

    def note(self, batch: SampleBatch) -> None:
        """Remember what the batch's source serves."""
        if self._keys.get(batch.source) is batch.keys or not batch.keys:
            return
        self._keys[batch.source] = batch.keys
        entities = {key.entity for key in batch.keys if key.metric.startswith(_PREFIX) and ":" in key.entity}
        now = {entity.split(":", 1)[1]: entity for entity in entities}
        # A push source sends another part of its devices each time: what it served before stays.
        served = self._of_source.setdefault(batch.source, {})
        for device, entity in now.items():
            if served.get(device) == entity or (device not in self._servers and len(self._servers) >= MOST_DEVICES):
                continue
            served[device] = entity
            servers = self._servers.setdefault(device, {})
            servers[batch.source] = entity
            if len(servers) > 1:
                self._twice.add(device)

    @property
    def entities(self) -> list[str]:
        """Every GPU and slice, as ``node:device``, sorted; one that is served twice stands once for each name."""
        return sorted({entity for servers in self._servers.values() for entity in servers.values()})

    @property
    def nodes_of(self) -> dict[str, tuple[str, ...]]:
        """Source -> hosts whose GPUs it serves, sorted, the first ``MOST_TOLD``."""
        return {
            source: tuple(sorted({entity.split(":", 1)[0] for entity in served.values()})[:MOST_TOLD])
            for source, served in sorted(self._of_source.items())
        }

    @property
    def twice(self) -> tuple[Twice, ...]:
        """GPUs that more than one source serves, sorted, the first ``MOST_TOLD``."""
        chosen = sorted(self._twice)[:MOST_TOLD]
        return tuple(Twice(device, tuple(sorted(self._servers[device].items()))) for device in chosen)

    @property
    def twice_total(self) -> int:
        """How many GPUs more than one source serves."""
        return len(self._twice)

    @property
    def without_node(self) -> tuple[str, ...]:
        """GPUs whose host no source names, the first ``MOST_TOLD``."""
        return tuple(entity for entity in self.entities if entity.startswith(f"{UNKNOWN_NODE}:"))[:MOST_TOLD]
