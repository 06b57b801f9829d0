"""One device's samples from several label sets, made one series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from collectors.attribution import Owner
from collectors.quality import Limits
from telemetry.catalogue import ACTIVE_PORT_STATE, BY_NAME, PER_WORKLOAD, Level, Metric, Source
from telemetry.ids import GpuId, SeriesKey
from telemetry.samples import CodeArray, FloatArray, Problem, Reason

_STATE_METRIC = "port_state_id"
_WHOLE_ONLY = (Level.NODE, Level.HOST_DEVICE)
"""A core or protocol without a sample still counts, so the sum is unknown; an error code without one did not occur."""
Columns = tuple[FloatArray, FloatArray, CodeArray]
"""Times in order, values, reasons."""


@dataclass(frozen=True, slots=True, eq=False)
class Meaning:
    """What one label set stands for; ``part`` tells kinds of a window count apart."""

    key: SeriesKey
    metric: Metric
    source: Source
    limits: Limits
    part: str
    gpu: GpuId | None
    owner: Owner | None


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """One label set's samples, judged."""

    meaning: Meaning
    at_s: FloatArray
    value: FloatArray
    reason: CodeArray


def merge_pieces(pieces: list[Piece], notes: dict[tuple[Problem, str], int]) -> Columns:
    """One series from several label sets of one device."""
    if len(pieces) == 1:
        piece = pieces[0]
        return piece.at_s, piece.value, piece.reason
    parts = sorted({piece.meaning.part for piece in pieces})
    merged = [_merge_part([p for p in pieces if p.meaning.part == part], notes) for part in parts]
    if len(merged) == 1:
        return merged[0]
    at_s = np.unique(np.concatenate([columns[0] for columns in merged]))
    value, reason = np.zeros(at_s.shape), np.zeros(at_s.shape, np.uint8)
    present = np.zeros(at_s.shape, np.int64)
    for part_at_s, part_value, part_reason in merged:
        place = np.searchsorted(at_s, part_at_s)
        value[place] += part_value
        reason[place] = np.maximum(reason[place], part_reason)
        present[place] += 1
    if pieces[0].meaning.metric.level in _WHOLE_ONLY:
        reason[present < len(merged)] = np.maximum(reason[present < len(merged)], Reason.NOT_OBSERVED)
    value[reason != 0] = np.nan
    return at_s, value, reason


def _merge_part(pieces: list[Piece], notes: dict[tuple[Problem, str], int]) -> Columns:
    """Where label sets overlap the one that began later wins, unless one is the device's own line."""
    beside = _beside(pieces)
    places = sorted(range(len(pieces)), key=lambda place: _precedence(pieces[place], beside[place]))
    ordered = [pieces[place] for place in places]
    rank = np.repeat(np.arange(len(ordered)), [piece.at_s.size for piece in ordered])
    at_s = np.concatenate([piece.at_s for piece in ordered])
    value = np.concatenate([piece.value for piece in ordered])
    reason = np.concatenate([piece.reason for piece in ordered])
    order = np.lexsort((rank, reason == 0, at_s))
    at_s, value, reason, rank = at_s[order], value[order], reason[order], rank[order]
    same = at_s[1:] == at_s[:-1]
    clash = same & (value[1:] != value[:-1]) & (reason[1:] == 0) & (reason[:-1] == 0)
    owned = [piece.meaning.owner is not None for piece in ordered]
    alike = len(set(owned)) == 1 and not any(p.meaning.gpu and p.meaning.gpu.mig for p in ordered)
    if alike and int(clash.sum()) > 1:  # once is a change of hands
        text = f"{pieces[0].meaning.key.metric} comes in several series for one device, with different numbers"
        notes[(Problem.DUPLICATE_SERIES, text)] = int(clash.sum())
    last = np.append(~same, True)
    return at_s[last], value[last], reason[last]


def _precedence(piece: Piece, beside: bool) -> tuple[bool, bool, float]:
    """Sort key, weakest first: a MIG line, then pods' lines, then the device's own line where it stays beside them."""
    sliced = piece.meaning.gpu is not None and bool(piece.meaning.gpu.mig)
    return not sliced, beside, float(piece.at_s[0])


def workloads_own(pieces: Sequence[Piece]) -> list[Piece]:
    """Pods' own numbers that stand beside the device's own line, each as a series of its own.

    Time slicing repeats the device's number for every pod; only where a line without an owner stays beside them are the
    pods' lines numbers of their own.
    """
    metric = PER_WORKLOAD.get(pieces[0].meaning.metric.name)
    if metric is None or not any(_beside(pieces)):
        return []
    found = []
    for piece in pieces:
        meaning = piece.meaning
        sliced = meaning.gpu is not None and bool(meaning.gpu.mig)
        if meaning.owner is not None and not (sliced and meaning.metric.level is Level.GPU):
            who = meaning.owner.workload or str(meaning.owner.job)
            key = SeriesKey(metric, f"{meaning.key.entity}@{who}")
            found.append(replace(piece, meaning=replace(meaning, key=key, metric=BY_NAME[metric])))
    return found


def _beside(pieces: Sequence[Piece]) -> list[bool]:
    """For each, whether it is the device's own line and shares more than one instant with a line of a pod."""
    owned = [piece.at_s for piece in pieces if piece.meaning.owner is not None]
    if not owned or len(owned) == len(pieces):
        return [False] * len(pieces)
    at_s, of = np.concatenate(owned), np.repeat(np.arange(len(owned)), [part.size for part in owned])
    return [
        piece.meaning.owner is None and int(np.bincount(of[np.isin(at_s, piece.at_s)], minlength=1).max()) > 1
        for piece in pieces
    ]


def close_down_ports(columns: dict[SeriesKey, Columns]) -> None:
    """A port that is not active has no traffic figures: they are missing, not 0."""
    states = {key.entity: data for key, data in columns.items() if key.metric == _STATE_METRIC}
    for key, (at_s, value, reason) in columns.items():
        if key.entity not in states or key.metric in (_STATE_METRIC, "port_physical_state_id"):
            continue
        state_at_s, state, _ = states[key.entity]
        latest = np.searchsorted(state_at_s, at_s, side="right") - 1
        known = state[np.maximum(latest, 0)]
        down = np.isfinite(known) & (known != ACTIVE_PORT_STATE)
        value[down], reason[down] = np.nan, Reason.NOT_MEASURED
