"""A communicator that moves bytes more slowly than it did, or than its peers of the same operation, size and ranks."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from features.store.base import Series
from forecast.predict.health.types import CommunicatorPeers, Evidence, HealthFinding, Severity, Sign, Thing
from models.step_jump import JumpRule, find_jumps

KIND = "slow_link"
BANDWIDTH = "nccl_busbw_bytes_per_s"
SIZE = "nccl_message_bytes"
LEAST_BYTES = 4 * 1024**2
"""Below a few MiB latency rules, and bandwidth says little of a link (nccl-tests, doc/PERFORMANCE.md)."""
SLOWER = 1.3
"""Bandwidth of one operation swings by a fifth between neighbours; a third of time more is a link, not noise."""
PEERS = 4
PEER_RATIO = 0.6
RECENT = 8
RULE = JumpRule(least_ratio=SLOWER - 1.0, target_ratio=SLOWER - 1.0, patience=22.0)
TO_DO = (
    "Compare the port counters of its hosts (errors, marks, speed) and look for other jobs on the same uplinks; "
    "repeat an nccl-tests run over these hosts in pairs once the job is done to find the link."
)


@dataclass(frozen=True, slots=True)
class _Flow:
    """One operation of one communicator at one size."""

    communicator: str
    operation: str
    octave: int
    at_s: NDArray[np.float64]
    bytes_per_s: NDArray[np.float64]

    @property
    def recent(self) -> float:
        return float(np.median(self.bytes_per_s[-RECENT:]))


def find(evidence: Evidence) -> list[HealthFinding]:
    """Communicators that are slow."""
    sizes = {one.key.entity: one for one in evidence.series(SIZE)}
    flows = [flow for one in evidence.series(BANDWIDTH) for flow in _flows(one, sizes.get(one.key.entity))]
    found: dict[tuple[str, str], HealthFinding] = {}
    for flow in flows:
        if one := _against_its_past(flow, evidence):
            _keep(found, one)
    groups: dict[tuple[str, int, int, str], list[_Flow]] = {}
    for flow in flows:
        about = _about(flow, evidence)
        if about.rank_count and flow.bytes_per_s.size >= RECENT:
            key = (flow.operation, flow.octave, about.rank_count, str(about.job))
            groups.setdefault(key, []).append(flow)
    for group in groups.values():
        for one in _against_peers(group, evidence):
            _keep(found, one)
    return list(found.values())


def _keep(found: dict[tuple[str, str], HealthFinding], one: HealthFinding) -> None:
    known = found.get((one.entity, one.detail))
    if known is None or one.score > known.score:
        found[one.entity, one.detail] = one


def _flows(one: Series, size: Series | None) -> list[_Flow]:
    """Split by size, an octave each; where no size is told, all readings stand together."""
    parts = one.key.entity.split(":")
    if len(parts) not in (3, 5) or (len(parts) == 5 and parts[3]):
        return []  # a single rank's view of an operation waits for the others
    communicator, operation = ":".join(parts[:2]), parts[2]
    if size is None or not size.at_s.size:
        return [_Flow(communicator, operation, -1, one.at_s, one.value)] if not parts[4:] else []
    place = np.clip(np.searchsorted(size.at_s, one.at_s), 0, size.at_s.size - 1)
    size_bytes = size.value[place]
    big = np.isfinite(size_bytes) & (size_bytes >= LEAST_BYTES) & (one.value > 0)
    octave = np.full(size_bytes.shape, -1)
    octave[big] = np.round(np.log2(size_bytes[big])).astype(np.int64)
    return [
        _Flow(communicator, operation, int(this), one.at_s[octave == this], one.value[octave == this])
        for this in np.unique(octave[big])
    ]


def _about(flow: _Flow, evidence: Evidence) -> CommunicatorPeers:
    return evidence.communicators.get(flow.communicator, CommunicatorPeers())


def _against_its_past(flow: _Flow, evidence: Evidence) -> HealthFinding | None:
    jumps = find_jumps((1.0 / flow.bytes_per_s)[None, :], RULE)
    if not jumps or jumps[-1].ratio < SLOWER:
        return None
    usual = 1.0 / jumps[-1].before_s
    if flow.recent > usual / SLOWER:
        return None
    said = f"than the {usual / 1e9:.3g} GB/s before"
    return _finding(flow, evidence, usual, float(flow.at_s[jumps[-1].at]), said)


def _against_peers(group: list[_Flow], evidence: Evidence) -> list[HealthFinding]:
    if len(group) < PEERS:
        return []
    recent = np.array([flow.recent for flow in group])
    middle = float(np.median(recent))
    spread = 1.4826 * float(np.median(np.abs(np.log(recent / middle))))
    bar = min(PEER_RATIO, math.exp(-5.0 * spread))
    said = (
        f"than the median {middle / 1e9:.3g} GB/s of {len(group)} communicators of the same size, operation and ranks"
    )
    return [
        _finding(flow, evidence, middle, float(flow.at_s[max(0, flow.at_s.size - RECENT)]), said)
        for flow, mine in zip(group, recent, strict=True)
        if mine < bar * middle
    ]


def _finding(flow: _Flow, evidence: Evidence, usual: float, since_s: float, said: str) -> HealthFinding:
    about = _about(flow, evidence)
    lost = 1.0 - flow.recent / usual
    size = f" of {2.0**flow.octave / 1024**2:.0f} MiB" if flow.octave >= 0 else ""
    hosts = f" on {', '.join(about.hosts[:4])}" if about.hosts else ""
    return HealthFinding(
        KIND,
        Thing.COMMUNICATOR,
        flow.communicator,
        Severity.WARNING,
        float(np.clip(lost / 0.6, 0.2, 1.0)),
        since_s,
        f"{flow.operation}{size}{hosts} runs at {flow.recent / 1e9:.3g} GB/s, {100 * lost:.0f} % less {said}",
        TO_DO,
        (BANDWIDTH,),
        detail=f"{flow.operation}{size}",
        jobs=(about.job,) if about.job is not None else (),
        numbers={"bytes_per_s": flow.recent, "usual_bytes_per_s": usual},
    )


SIGN = Sign(((BANDWIDTH,),), find)
