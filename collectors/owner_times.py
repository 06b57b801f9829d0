"""Who was seen with a GPU at which instants, over a span of history."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from collectors.attribution import BUSY_RATIO, Owner
from telemetry.ids import GpuId
from telemetry.samples import FloatArray, Sighting

_SPACING_S = 30.0
"""History is told by one sighting per owner in this time, besides the first and the last."""
_MOST_COMPARED = 16
"""Owners of one device at about the same time that are compared each with each. Among more, a change of hands counts as
sharing for its one instant."""


@dataclass(slots=True)
class GpuTimes:
    """Instants at which one device's label sets had samples.

    Args:
        owned: owner -> pieces of instants.
        free: instants of label sets without an owner.
        busy: instants at which the device was at work.
    """

    owned: dict[Owner, list[FloatArray]] = field(default_factory=dict)
    free: list[FloatArray] = field(default_factory=list)
    busy: list[FloatArray] = field(default_factory=list)

    def add(self, owner: Owner | None, at_s: FloatArray, activity: FloatArray | None) -> None:
        """Add one label set.

        Args:
            owner: None when its labels name nobody.
            at_s: (n,) instants.
            activity: (n,) share of time at work, when the metric tells that.
        """
        if owner is None:
            self.free.append(at_s)
        else:
            self.owned.setdefault(owner, []).append(at_s)
        if activity is not None:
            self.busy.append(at_s[activity > BUSY_RATIO])


def sightings_of(gpu: GpuId, times: GpuTimes) -> list[Sighting]:
    """One device's history as sightings, thinned."""
    owned = {owner: _union(parts) for owner, parts in sorted(times.owned.items())}
    found: list[Sighting] = []
    near = _near(owned)
    crowd = _crowd(owned) if any(len(others) > _MOST_COMPARED for others in near.values()) else None
    for owner, at_s in owned.items():
        if crowd is not None and len(near[owner]) > _MOST_COMPARED:
            sharers = crowd[1][np.searchsorted(crowd[0], at_s)]
        else:
            sharers = _sharers(at_s, owner, {other: owned[other] for other in near[owner]})
        found += [
            Sighting(gpu, float(at_s[place]), owner.job, owner.workload, True, int(sharers[place]))
            for place in _thin(at_s)
        ]
    free = np.setdiff1d(_union(times.free), _union(list(owned.values())))
    busy = np.isin(free, _union(times.busy))
    for known in (True, False):
        at_s = free[busy != known]
        found += [Sighting(gpu, float(at_s[place]), None, "", known, 0) for place in _thin(at_s)]
    return found


def _near(owned: dict[Owner, FloatArray]) -> dict[Owner, list[Owner]]:
    """Each owner -> the owners whose samples do not all lie before or behind its own, itself among them."""
    owners = list(owned)
    first_s = np.array([at_s[0] if at_s.size else np.inf for at_s in owned.values()])
    last_s = np.array([at_s[-1] if at_s.size else -np.inf for at_s in owned.values()])
    found: dict[Owner, list[Owner]] = {}
    for place, owner in enumerate(owners):
        overlaps = np.flatnonzero((first_s <= last_s[place]) & (last_s >= first_s[place]))
        # One more than are compared is enough to tell that there are too many.
        found[owner] = [owners[other] for other in overlaps[: _MOST_COMPARED + 1].tolist()]
    return found


def _sharers(at_s: FloatArray, owner: Owner, owned: dict[Owner, FloatArray]) -> NDArray[np.int64]:
    """How many pods or jobs have samples at each of one owner's instants.

    A single common instant of two longer histories is a change of hands, where Prometheus has not yet closed the old
    series; it is no sharing.
    """
    count = np.ones(at_s.shape, np.int64)
    pods: dict[tuple[object, str], NDArray[np.bool_]] = {}
    for other, other_at_s in owned.items():
        if other.pod == owner.pod:
            continue
        common = np.isin(at_s, other_at_s)
        if common.sum() == 1 and max(at_s.size, other_at_s.size) > 1:
            continue
        before = pods.get(other.pod)
        pods[other.pod] = common if before is None else before | common
    for common in pods.values():
        count += common
    return count


def _crowd(owned: dict[Owner, FloatArray]) -> tuple[FloatArray, NDArray[np.int64]]:
    """Every instant, and how many pods or jobs have samples at it, changes of hands included."""
    number: dict[tuple[object, str], int] = {}
    pod = np.repeat(
        [number.setdefault(owner.pod, len(number)) for owner in owned], [at_s.size for at_s in owned.values()]
    )
    instants, place = np.unique(np.concatenate(list(owned.values())), return_inverse=True)
    pairs = np.unique(place.astype(np.int64) * len(number) + pod)
    return instants, np.bincount(pairs // len(number), minlength=instants.size)


def _union(parts: list[FloatArray]) -> FloatArray:
    return np.unique(np.concatenate(parts)) if parts else np.empty(0)


def _thin(at_s: FloatArray) -> list[int]:
    """Places of the first, the last, and one per ``_SPACING_S`` between."""
    if at_s.size <= 2:
        return list(range(at_s.size))
    kept, last_s = [0], float(at_s[0])
    for place in range(1, at_s.size - 1):
        if at_s[place] - last_s >= _SPACING_S:
            kept.append(place)
            last_s = float(at_s[place])
    return [*kept, at_s.size - 1]
