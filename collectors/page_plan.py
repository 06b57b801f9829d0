"""What each line of a page means, worked out once per layout."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from collectors.attribution import BUSY_METRICS, Owner, OwnerRules, owner_of, sharers_of
from collectors.custom_map import CustomMap
from collectors.entities import Place, clean_labels, entity_of, gpu_of, part_of, uuid_of
from collectors.exposition import Layout
from collectors.quality import Limits
from telemetry.catalogue import (
    BY_NAME,
    NODE_NAME_FIELD,
    PER_WORKLOAD,
    UPLINK_FIELD,
    Level,
    Metric,
    Source,
    left_out,
    meaning_of,
)
from telemetry.ids import GpuId, JobId, SeriesKey
from telemetry.samples import Finding, IntArray, Problem

_STATE_METRICS = ("port_state_id", "port_physical_state_id")
_OF_A_GPU = (Level.GPU, Level.DEVICE)


@dataclass(frozen=True, slots=True)
class Owned:
    """One user of one device."""

    gpu: GpuId
    job: JobId
    workload: str
    sharers: int


@dataclass(frozen=True, slots=True, eq=False)
class PagePlan:
    """Which lines become samples of which series, and by which rules.

    Args:
        keys: the series.
        rows: (n,) page line of each sample row.
        series: (n,) index into ``keys``.
        parts: True when some key has several rows that are to be added.
        limits: n rows of the catalogue's rules.
        zero_first: (n,) True where the first zero means "no earlier reading".
        never_measured: (n,) True where the device cannot give the field; None where there is no such row.
        zero_unmeasured: (n,) True where a 0 means that the device cannot give the field; None likewise.
        state_row: (n,) page line that tells the state of the row's port, -1 where there is none; None likewise.
        same_a: page lines that ought to repeat the number of ``same_b``.
        same_b: see ``same_a``.
        owned: users of devices.
        ownerless: devices without one, and the keys that tell whether they are busy.
        unknown: families outside the catalogue.
        findings: what is wrong with the layout itself.
    """

    keys: tuple[SeriesKey, ...]
    rows: NDArray[np.intp]
    series: IntArray
    parts: bool
    limits: Limits
    zero_first: NDArray[np.bool_]
    never_measured: NDArray[np.bool_] | None
    zero_unmeasured: NDArray[np.bool_] | None
    state_row: NDArray[np.intp] | None
    same_a: NDArray[np.intp]
    same_b: NDArray[np.intp]
    owned: tuple[Owned, ...]
    ownerless: tuple[tuple[GpuId, IntArray], ...]
    unknown: tuple[str, ...]
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class _Line:
    """A usable line: where it stands and what it says."""

    row: int
    key: SeriesKey
    part: str
    metric: Metric
    source: Source
    mig: bool
    owner: Owner | None

    @property
    def owned(self) -> bool:
        """Whether the line names a user."""
        return self.owner is not None


def plan_page(
    layout: Layout,
    source: str,
    place: Place,
    rules: OwnerRules,
    previous: PagePlan | None = None,
    custom: CustomMap | None = None,
) -> PagePlan:
    """The plan of a layout; ``keys`` is the previous plan's object when nothing changed in it."""
    custom = custom or CustomMap()
    place = _with_own_name(layout, place)
    lines: list[_Line] = []
    owners: dict[GpuId, set[Owner]] = {}
    unknown: dict[str, None] = {}
    nowhere: dict[tuple[Problem, str], int] = {}
    for row, (name, raw) in enumerate(zip(layout.names, layout.labels, strict=True)):
        known = custom.meaning_of(name, raw) or meaning_of(name, raw)
        if known is None:
            if not left_out(name) and name not in custom.fields and name not in (UPLINK_FIELD, NODE_NAME_FIELD):
                unknown[name] = None
            continue
        metric, field = known
        labels = clean_labels(raw)
        entity = entity_of(metric, labels, place, field)
        if not entity:
            why = _why_nowhere(metric, name, labels, field)
            nowhere[why] = nowhere.get(why, 0) + 1
            continue
        owner = owner_of(labels, rules)
        gpu = gpu_of(labels, place) if metric.level in _OF_A_GPU else None
        if gpu is not None:
            owners.setdefault(gpu, set()).update({owner} if owner else ())
        part = part_of(metric, name, labels)
        mig = gpu is not None and bool(gpu.mig)
        lines.append(_Line(row, SeriesKey(metric.name, entity), part, metric, field, mig, owner))
    findings = tuple(Finding(problem, source, text, count) for (problem, text), count in nowhere.items())
    return _assemble(lines, owners, tuple(unknown), findings, previous)


def _assemble(
    lines: list[_Line],
    owners: dict[GpuId, set[Owner]],
    unknown: tuple[str, ...],
    findings: tuple[Finding, ...],
    previous: PagePlan | None,
) -> PagePlan:
    chosen, same = _choose(lines)
    index: dict[SeriesKey, int] = {}
    series = np.array([index.setdefault(line.key, len(index)) for line in chosen], np.int32)
    keys = tuple(index)
    if previous is not None and previous.keys == keys:
        keys = previous.keys
    never = np.array([_not_on_mig(line) for line in chosen], np.bool_)
    unmeasured = np.array([line.mig and line.source.zero_on_slice for line in chosen], np.bool_)
    state_of = {line.key.entity: line.row for line in chosen if line.metric.name == _STATE_METRICS[0]}
    state_row = np.array(
        [-1 if line.metric.name in _STATE_METRICS else state_of.get(line.key.entity, -1) for line in chosen], np.intp
    )
    owned, ownerless = _users(owners, index)
    return PagePlan(
        keys=keys,
        rows=np.array([line.row for line in chosen], np.intp),
        series=series,
        parts=len(chosen) > len(keys),
        limits=Limits.of([(line.metric, line.source) for line in chosen]),
        zero_first=np.array([line.source.zero_first for line in chosen], np.bool_),
        never_measured=never if never.any() else None,
        zero_unmeasured=unmeasured if unmeasured.any() else None,
        state_row=state_row if (state_row >= 0).any() else None,
        same_a=np.array([a for a, _ in same], np.intp),
        same_b=np.array([b for _, b in same], np.intp),
        owned=owned,
        ownerless=ownerless,
        unknown=unknown,
        findings=findings,
    )


def _choose(lines: list[_Line]) -> tuple[list[_Line], list[tuple[int, int]]]:
    """One line per (series, part), and the pairs of lines that ought to agree.

    A card's number is repeated on each MIG instance and for each pod. The card's own line is the best one, then one
    without an owner (newer exporters print true per-pod numbers beside the device's own), then the first. Instances
    are read a moment apart and may differ a little. Pods' own numbers beside the device's become series of their own.
    """
    groups: dict[tuple[SeriesKey, str], list[_Line]] = {}
    for line in lines:
        groups.setdefault((line.key, line.part), []).append(line)
    chosen: list[_Line] = []
    same: list[tuple[int, int]] = []
    for group in groups.values():
        best = min(group, key=lambda line: (line.mig, line.owned, line.metric.sources.index(line.source), line.row))
        chosen.append(best)
        if best.key.metric in PER_WORKLOAD and not best.owned:
            chosen += [_workloads_own(line) for line in group if line.owner is not None and line.mig is best.mig]
        same += [
            (best.row, line.row)
            for line in group
            if line is not best and line.mig is False and best.owned is line.owned and line.source is best.source
        ]
    return chosen, same


def _workloads_own(line: _Line) -> _Line:
    """A pod's line as a series of the pod's own."""
    assert line.owner is not None
    metric = BY_NAME[PER_WORKLOAD[line.key.metric]]
    who = line.owner.workload or str(line.owner.job)
    return replace(line, key=SeriesKey(metric.name, f"{line.key.entity}@{who}"), metric=metric)


def _users(
    owners: dict[GpuId, set[Owner]], index: dict[SeriesKey, int]
) -> tuple[tuple[Owned, ...], tuple[tuple[GpuId, IntArray], ...]]:
    owned: list[Owned] = []
    ownerless: list[tuple[GpuId, IntArray]] = []
    sliced = {gpu.card for gpu in owners if gpu.mig}
    for gpu, users in owners.items():
        if users:
            sharers = sharers_of(users)
            owned += [Owned(gpu, user.job, user.workload, sharers) for user in sorted(users)]
        elif gpu not in sliced:  # the card of MIG instances is no device of its own
            telling = [index.get(SeriesKey(metric, str(gpu)), -1) for metric in BUSY_METRICS]
            ownerless.append((gpu, np.array([i for i in telling if i >= 0], np.int32)))
    return tuple(owned), tuple(ownerless)


def _not_on_mig(line: _Line) -> bool:
    """Whole-card utilisation does not exist for a MIG instance; older exporters print 0."""
    return line.mig and line.metric.level is Level.GPU and line.metric.unit == "ratio"


def _with_own_name(layout: Layout, place: Place) -> Place:
    """The host's own name from the page itself, where the user gave none."""
    if place.node or NODE_NAME_FIELD not in layout.names:
        return place
    own = layout.labels[layout.names.index(NODE_NAME_FIELD)].get("nodename", "")
    return Place(place.node, own or place.fallback, place.nodenames)


def _why_nowhere(metric: Metric, name: str, labels: dict[str, str], source: Source) -> tuple[Problem, str]:
    if source.entity:
        return Problem.MALFORMED_LINE, f"{name} lacks a label that its entity {source.entity} needs"
    if metric.level is Level.PORT and not (labels.get("port") and (labels.get("device") or labels.get("switch"))):
        return Problem.MALFORMED_LINE, f"{name} names no device and port"
    if metric.level is Level.COLLECTIVE and not (labels.get("collective") or labels.get("p2p_operation")):
        return Problem.MALFORMED_LINE, f"{name} names no operation"
    if metric.level in (*_OF_A_GPU, Level.LANE) and not uuid_of(labels):
        return Problem.MALFORMED_LINE, f"{name} names no GPU UUID"
    return Problem.NO_NODE, f"{name} does not tell its host; name the node in the target's settings"
