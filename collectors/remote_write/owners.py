"""Who uses which GPU, from a stream in which each request holds only a part of a scrape."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from collectors.attribution import Owner
from telemetry.ids import GpuId
from telemetry.samples import FloatArray, Sighting

_LOOKBACK_S = 300.0
"""Without a sample for this long a series is over, as Prometheus has it."""
_TELL_AGAIN_S = 1.0
_BUSY_LATELY_S = 60.0
"""A device that worked this short a time ago is not called idle: the sample that tells may be in the next request."""
_MOST_OWNERS = 64


@dataclass(slots=True)
class _Seen:
    last_s: float = -np.inf
    ended_s: float = -np.inf
    told_s: float = -np.inf
    told_sharers: int = 0

    def active(self, at_s: float) -> bool:
        """Whether the owner's series go on: none since its last sample was marked as ended."""
        return self.last_s >= self.ended_s and self.last_s >= at_s - _LOOKBACK_S


@dataclass(slots=True)
class _Device:
    gpu: GpuId
    owners: dict[Owner, _Seen] = field(default_factory=dict)
    free: _Seen = field(default_factory=_Seen)
    busy_s: float = -np.inf


class Owners:
    """Turns samples of labelled series into sightings.

    Prometheus closes a series with a marker when its pod is gone, so an owner counts until its series are closed.
    """

    def __init__(self) -> None:
        self._devices: dict[GpuId, _Device] = {}
        self._sights: list[tuple[_Device, Owner | None]] = []
        self._numbers: dict[tuple[GpuId, Owner | None], int] = {}
        self._sliced: set[GpuId] = set()

    def sight(self, gpu: GpuId, owner: Owner | None) -> int:
        """The number of a device with an owner, or without one."""
        number = self._numbers.get((gpu, owner))
        if number is None:
            if gpu.mig:
                self._sliced.add(gpu.card)
            device = self._devices.setdefault(gpu, _Device(gpu))
            number = self._numbers[gpu, owner] = len(self._sights)
            self._sights.append((device, owner))
        return number

    def note(
        self, sight: NDArray[np.int32], at_s: FloatArray, ended: NDArray[np.bool_], busy: NDArray[np.bool_]
    ) -> tuple[Sighting, ...]:
        """Sightings that a request gives.

        Args:
            sight: (n,) numbers from ``sight``.
            at_s: (n,) time of the sample.
            ended: (n,) True for a marker that closes the series.
            busy: (n,) True where the sample shows the device at work.
        """
        for place in np.flatnonzero(busy).tolist():
            device, _ = self._sights[sight[place]]
            device.busy_s = max(device.busy_s, float(at_s[place]))
        ended_moments = _moments(sight[ended], at_s[ended])
        for number, when_s in ended_moments:
            seen = self._seen(number)
            seen.ended_s = max(seen.ended_s, when_s)
        moments = _moments(sight[~ended], at_s[~ended])
        for number, when_s in moments:
            seen = self._seen(number)
            seen.last_s = max(seen.last_s, when_s)
        told = (self._tell(number, when_s) for number, when_s in moments)
        return tuple(sighting for sighting in told if sighting is not None)

    def _seen(self, number: int) -> _Seen:
        device, owner = self._sights[number]
        if owner is None:
            return device.free
        seen = device.owners.get(owner)
        if seen is None:
            if len(device.owners) >= _MOST_OWNERS:
                oldest = min(device.owners, key=lambda one: device.owners[one].last_s)
                del device.owners[oldest]
            seen = device.owners[owner] = _Seen()
        return seen

    def _tell(self, number: int, at_s: float) -> Sighting | None:
        device, owner = self._sights[number]
        if device.gpu in self._sliced:
            return None
        seen = self._seen(number)
        pods = {one.pod for one, known in device.owners.items() if known.active(at_s)}
        if owner is None:
            if pods or abs(at_s - seen.told_s) < _TELL_AGAIN_S:
                return None
            seen.told_s = at_s
            return Sighting(device.gpu, at_s, None, "", device.busy_s < at_s - _BUSY_LATELY_S, 0)
        sharers = max(1, len(pods | {owner.pod}))
        if abs(at_s - seen.told_s) < _TELL_AGAIN_S and sharers == seen.told_sharers:
            return None
        seen.told_s, seen.told_sharers = at_s, sharers
        return Sighting(device.gpu, at_s, owner.job, owner.workload, True, sharers)


def _moments(sight: NDArray[np.int32], at_s: FloatArray) -> list[tuple[int, float]]:
    """Each (number, time) once, by time."""
    order = np.lexsort((sight, at_s))
    sight, at_s = sight[order], at_s[order]
    first = np.append(True, (sight[1:] != sight[:-1]) | (at_s[1:] != at_s[:-1]))[: sight.size]
    return list(zip(sight[first].tolist(), at_s[first].tolist(), strict=True))
