"""Views over devices: what is counted once per card, what per device, and what is a job's own.

Exporters repeat a card's value for every pod, job or MIG slice. The series of a store are keyed by card or device,
so a value is there once; these views add them up without counting a card twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from features.store.base import Reader, Series
from features.transforms.counters import growth
from telemetry.ids import GpuId, JobId
from telemetry.jobs import Allocation
from telemetry.samples import Sighting

ACTIVITY = "gpu_gr_engine_active_ratio"
UTIL = "gpu_util_ratio"
POWER = "gpu_power_watts"
ENERGY = "gpu_energy_joules_total"
IDLE_RATIO = 0.01


@dataclass(frozen=True, slots=True)
class JobPower:
    """What a job draws.

    Args:
        certain_watts: of the cards that are the job's alone.
        shared_watts: an even split of the cards it shares; an estimate.
        shared_cards: how many cards it shares; 0 when the figure is certain.
        unread_cards: how many of its cards gave no reading.
    """

    certain_watts: float
    shared_watts: float
    shared_cards: int
    unread_cards: int

    @property
    def watts(self) -> float:
        """Both together; an estimate when ``shared_cards`` is above 0."""
        return self.certain_watts + self.shared_watts


def newest_by_device(reader: Reader, metric: str, as_of_s: float, window_s: float) -> dict[GpuId, float]:
    """Newest good value of a metric per device, in the catalogue's unit; devices without one are left out."""
    keys = reader.keys((metric,))
    found: dict[GpuId, float] = {}
    for key, series in zip(keys, reader.read(keys, as_of_s, window_s), strict=True):
        good = series.value[series.reason == 0]
        if good.shape[0]:
            found[GpuId.parse(key.entity)] = float(good[-1])
    return found


def once_per_card(by_device: Mapping[GpuId, float]) -> dict[GpuId, float]:
    """A card's own figure where slices repeat it: the greatest, for slices are read a moment apart."""
    cards: dict[GpuId, float] = {}
    for gpu, value in by_device.items():
        cards[gpu.card] = max(value, cards.get(gpu.card, value))
    return cards


def sum_per_card(by_device: Mapping[GpuId, float]) -> dict[GpuId, float]:
    """Sum over the slices of each card, for figures that each slice has of its own (memory)."""
    cards: dict[GpuId, float] = {}
    for gpu, value in by_device.items():
        cards[gpu.card] = cards.get(gpu.card, 0.0) + value
    return cards


def sum_per_node(by_card: Mapping[GpuId, float]) -> dict[str, float]:
    """Host name -> sum over its cards."""
    nodes: dict[str, float] = {}
    for gpu, value in by_card.items():
        nodes[gpu.node] = nodes.get(gpu.node, 0.0) + value
    return nodes


def node_power_watts(reader: Reader, as_of_s: float, window_s: float) -> dict[str, float]:
    """Host name -> power of its cards, each once, from the newest readings."""
    return sum_per_node(once_per_card(newest_by_device(reader, POWER, as_of_s, window_s)))


def energy_power_watts(reader: Reader, as_of_s: float, window_s: float) -> dict[GpuId, float]:
    """Card -> mean power over the window from its energy counter, J/s; cards without two readings are left out."""
    keys = reader.keys((ENERGY,))
    powers: dict[GpuId, float] = {}
    for key, series in zip(keys, reader.read(keys, as_of_s, window_s), strict=True):
        grown = growth(series)
        if grown.at_s.shape[0] > 1:
            powers[GpuId.parse(key.entity)] = float(grown.total[-1] / (grown.at_s[-1] - grown.at_s[0]))
    return once_per_card(powers)


def activity_by_device(reader: Reader, as_of_s: float, window_s: float) -> dict[GpuId, float]:
    """Device -> how busy it is, 0..1: engine activity where measured, else the coarser utilisation.

    A slice of a MIG card has engine activity only; its card's utilisation is missing, not 0.
    """
    return newest_by_device(reader, UTIL, as_of_s, window_s) | newest_by_device(reader, ACTIVITY, as_of_s, window_s)


def mean_over(by_device: Mapping[GpuId, float], devices: Iterable[GpuId] | None = None) -> float:
    """Mean over devices that have a value, each once; NaN when none has."""
    values = [by_device[gpu] for gpu in (by_device if devices is None else devices) if gpu in by_device]
    return float(np.mean(values)) if values else float("nan")


def idle_devices(by_device: Mapping[GpuId, float]) -> list[GpuId]:
    """Devices that do nothing, sorted."""
    return sorted(gpu for gpu, value in by_device.items() if value < IDLE_RATIO)


def known_devices(reader: Reader) -> list[GpuId]:
    """Schedulable devices that report anything, sorted: a card with slices is its slices, not itself."""
    every = reader.keys()
    seen = {GpuId.parse(entity) for entity in {key.entity for key in every if key.metric.startswith("gpu_")}}
    sliced = {gpu.card for gpu in seen if gpu.mig}
    return sorted(seen - sliced)


def owners_now(allocations: Iterable[Allocation]) -> dict[GpuId, tuple[JobId, ...]]:
    """Device -> the jobs that have it now, sorted; more than one are co-located and may disturb each other."""
    owners: dict[GpuId, set[JobId]] = {}
    for allocation in allocations:
        if allocation.to_s is None:
            owners.setdefault(allocation.gpu, set()).add(allocation.job)
    return {gpu: tuple(sorted(jobs)) for gpu, jobs in owners.items()}


def unallocated(devices: Iterable[GpuId], owners: Mapping[GpuId, Sequence[JobId]]) -> list[GpuId]:
    """Devices that nobody has, sorted; they exist, and count in a node's figures."""
    return sorted(gpu for gpu in devices if gpu not in owners)


def job_power(by_card: Mapping[GpuId, float], allocations: Iterable[Allocation]) -> dict[JobId, JobPower]:
    """Job -> its power: certain for cards of its own, an even split for shared ones.

    A MIG slice shares its card with all other slices that are in use.
    """
    now = [allocation for allocation in allocations if allocation.to_s is None]
    users: dict[GpuId, int] = {}
    for card in {a.gpu.card for a in now}:
        here = [a for a in now if a.gpu.card == card]
        users[card] = max(len({(a.job, a.gpu) for a in here}), max(a.sharers for a in here))
    powers: dict[JobId, JobPower] = {}
    for job in sorted({a.job for a in now}):
        mine = {a.gpu: a.gpu.card for a in now if a.job == job}
        read = {gpu: card for gpu, card in mine.items() if card in by_card}
        alone = [by_card[card] for card in read.values() if users[card] == 1]
        split = [by_card[card] / users[card] for card in read.values() if users[card] > 1]
        shared = {card for card in mine.values() if users[card] > 1}
        unread = {card for card in mine.values() if card not in by_card}
        powers[job] = JobPower(float(sum(alone)), float(sum(split)), len(shared), len(unread))
    return powers


def workload_points(sightings: Iterable[Sighting], device: Series) -> dict[str, Series]:
    """Workload -> the device's readings at the moments when it was seen there.

    Args:
        sightings: who was seen on this device; several at one moment share its one value.
        device: the device's series.
    """
    moments: dict[str, list[float]] = {}
    for sighting in sightings:
        name = sighting.workload or (str(sighting.job) if sighting.job else "")
        if name and sighting.known:
            moments.setdefault(name, []).append(sighting.at_s)
    points = {}
    for name, at_s in moments.items():
        there = np.isin(device.at_s, at_s)
        points[name] = Series(device.key, device.at_s[there], device.value[there], device.reason[there])
    return points
