"""Devices of one page whose owners stay as they are: one time for all of them instead of one for each."""

from __future__ import annotations

from collections.abc import Mapping

from features.store.spans import HEARTBEAT_S, INF, SILENCE_S, SILENT_SIGHTINGS, Device, Span
from telemetry.ids import GpuId
from telemetry.samples import Sighting, SightingsAt

_NEAR_S = SILENCE_S / SILENT_SIGHTINGS
"""Up to this gap the next sighting neither ends a stretch nor changes how long an owner may go unseen."""


class Standing:
    """The last time of devices that were seen together, with the same owners, by the same source.

    While it stands, seeing them again is one number instead of one for each device and stretch; ``settle`` writes that
    number where it belongs.
    """

    def __init__(self, base: tuple[Sighting, ...], at_s: float, devices: list[Device], spans: list[Span]) -> None:
        self.base = base
        self.at_s = at_s
        self._devices = devices
        self._spans = spans
        self._due_s = min((span.stored_s for span in spans), default=INF)
        self._moved = False
        for device in devices:
            device.standing = self

    @classmethod
    def of(cls, seen: SightingsAt, known: Mapping[GpuId, Device]) -> Standing | None:
        """A standing of sightings that were just folded; None where seeing them again could change something."""
        jobs: dict[GpuId, dict[object, Sighting]] = {}
        for sighting in seen.base:
            if sighting.known:
                jobs.setdefault(sighting.gpu, {}).setdefault(sighting.job, sighting)
        sharers = {(sighting.gpu, sighting.job, sighting.sharers) for sighting in seen.base if sighting.known}
        if not jobs or len(sharers) != sum(map(len, jobs.values())):
            return None
        devices: list[Device] = []
        spans: list[Span] = []
        for gpu, owners in jobs.items():
            device = known[gpu]
            owners.pop(None, None)
            if device.seen_s != seen.at_s or {span.job for span in device.live} != owners.keys():
                return None
            if len(device.live) != len(owners):
                return None
            for span in device.live:
                if span.to_s != seen.at_s or span.ended_s != INF or span.sharers[-1][1] != owners[span.job].sharers:
                    return None
            devices.append(device)
            spans += device.live
        return cls(seen.base, seen.at_s, devices, spans)

    def advance(self, at_s: float) -> bool:
        """Take note that all were seen again; False where that is more than another time, and nothing was noted."""
        if not 0.0 < at_s - self.at_s <= _NEAR_S or at_s - self._due_s >= HEARTBEAT_S:
            return False
        self.at_s = at_s
        self._moved = True
        return True

    def settle(self) -> None:
        """Write the time to every device and stretch."""
        if not self._moved:
            return
        self._moved = False
        for device in self._devices:
            device.seen_s = self.at_s
            device.silence_s = SILENCE_S
        for span in self._spans:
            span.to_s = self.at_s

    def dissolve(self) -> None:
        """Write the times for good: the devices are on their own again."""
        self.settle()
        for device in self._devices:
            device.standing = None
