"""Cards whose clocks are held down: by heat, by their board, by a brake; and by power where their peers are not.

A training card at its power limit is a card at work: that alone is no finding. It is one where the card is held for
much more of the time than the others of its job *and* runs slower than they do.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from features.store.base import Series
from forecast.predict.health.moves import Move, move_of, node_of_gpu
from forecast.predict.health.types import Evidence, HealthFinding, Severity, Sign, Thing

KIND = "throttled"
_CAUSES: dict[str, tuple[str, float]] = {
    "gpu_thermal_throttle_seconds_total": ("heat", 0.01),
    "gpu_board_limit_throttle_seconds_total": ("a limit of the board", 0.01),
    "gpu_reliability_throttle_seconds_total": ("a reliability limit", 0.05),
}
"""Counter -> cause, and the share of the time from which on it is told."""
_POWER = "gpu_power_throttle_seconds_total"
POWER_OVER_PEERS = 0.25
POWER_CLOCK_RATIO = 0.97
CLOCK = "gpu_sm_clock_hertz"
REASONS = "gpu_clock_event_reasons_bits"
_BITS: tuple[tuple[int, str], ...] = (
    (0x08, "a hardware slow-down"),
    (0x20, "heat, told by the driver"),
    (0x40, "heat, told by the hardware"),
    (0x80, "the hardware's power brake"),
)
"""Of nvmlClocksEventReasons (nvml.h). Idle clocks 0x1, set clocks 0x2, the power cap 0x4, sync boost 0x10 and display 0x100
are usual at work and no sickness."""
BITS_SHARE = 0.05
TEMPERATURE = "gpu_temperature_celsius"
MEMORY_TEMPERATURE = "gpu_memory_temperature_celsius"
NEAR_CELSIUS = {TEMPERATURE: 85.0, MEMORY_TEMPERATURE: 95.0}
"""Data-centre cards slow down at 87 to 90 °C of the die (H100: T.limit 0 at 87) and about 105 °C of the memory."""
HOT_READINGS = 5
COOL = "Look at the host's fans, inlet air and neighbouring slots, and at the card's seating; clear dust or heat at its source."
BOARD = "Look at the host's power supplies and cables, and compare the card's power limit with its peers'."


@dataclass(frozen=True, slots=True)
class _Held:
    """A card that was held down."""

    entity: str
    cause: str
    share: float
    since_s: float
    metric: str
    to_do: str
    extra: str = ""


def find(evidence: Evidence) -> list[HealthFinding]:
    """Cards that are held down, or nearly so hot that they will be."""
    held = _by_counters(evidence) + _by_bits(evidence) + _by_power(evidence)
    found: dict[tuple[str, str], HealthFinding] = {}
    for one in held:
        found.setdefault((one.entity, one.cause), _finding(evidence, one))
    slow = {entity for entity, _ in found}
    return [*found.values(), *(hot for hot in _hot(evidence) if hot.entity not in slow)]


def _share(move: Move) -> float:
    return min(1.0, move.amount / max(move.span_s, 1.0))


def _by_counters(evidence: Evidence) -> list[_Held]:
    return [
        _Held(move.entity, cause, _share(move), move.since_s, metric, COOL if cause == "heat" else BOARD)
        for metric, (cause, least) in _CAUSES.items()
        for one in evidence.series(metric)
        if (move := move_of(one)) is not None and _share(move) >= least
    ]


def _by_bits(evidence: Evidence) -> list[_Held]:
    found: list[_Held] = []
    for one in evidence.series(REASONS):
        bits = one.value.astype(np.int64)
        for bit, cause in _BITS:
            on = (bits & bit) != 0
            if on.sum() >= 2 and on.mean() >= BITS_SHARE:
                since_s = float(one.at_s[int(np.argmax(on))])
                to_do = COOL if "heat" in cause else BOARD
                found.append(_Held(one.key.entity, cause, float(on.mean()), since_s, REASONS, to_do))
    return found


def _by_power(evidence: Evidence) -> list[_Held]:
    """Only where the card is held far more than the others of its job, and is slower than they are."""
    moves = {move.entity: move for one in evidence.series(_POWER) if (move := move_of(one)) is not None}
    clocks = {one.key.entity: float(np.median(one.value[-32:])) for one in evidence.series(CLOCK)}
    found: list[_Held] = []
    for frame in evidence.jobs if moves else ():
        cards = [str(gpu) for gpu in frame.job.gpus if not gpu.mig]
        if len(cards) < 4:
            continue
        usual = float(np.median([_share(moves[card]) if card in moves else 0.0 for card in cards]))
        read = [clocks[card] for card in cards if card in clocks]
        pace = float(np.median(read)) if read else float("nan")
        for card in cards:
            slow = clocks.get(card, float("nan")) < POWER_CLOCK_RATIO * pace
            if card in moves and _share(moves[card]) >= usual + POWER_OVER_PEERS and slow:
                extra = (
                    f", against {100 * usual:.0f} % at the median of its job's {len(cards)} GPUs, "
                    f"with a clock of {clocks[card] / 1e6:.0f} MHz against {pace / 1e6:.0f}"
                )
                move = moves[card]
                found.append(_Held(card, "a power limit", _share(move), move.since_s, _POWER, BOARD, extra))
    return found


def _hot(evidence: Evidence) -> list[HealthFinding]:
    found: list[HealthFinding] = []
    for metric, limit in NEAR_CELSIUS.items():
        for one in evidence.series(metric):
            recent = one.value[-HOT_READINGS:]
            if recent.size >= HOT_READINGS and float(recent.min()) >= limit:
                found.append(_heat(evidence, one, limit))
    return found


def _heat(evidence: Evidence, one: Series, limit: float) -> HealthFinding:
    cool = np.flatnonzero(one.value < limit)
    since_s = float(one.at_s[int(cool[-1]) + 1 if cool.size else 0])
    now = float(np.median(one.value[-HOT_READINGS:]))
    part = "memory" if one.key.metric == MEMORY_TEMPERATURE else "die"
    job = evidence.job_of_gpu().get(one.key.entity)
    return HealthFinding(
        KIND,
        Thing.GPU,
        one.key.entity,
        Severity.INFO,
        float(np.clip((now - limit) / 20.0 + 0.3, 0.3, 0.6)),
        since_s,
        f"its {part} is at {now:.0f} °C, at or above {limit:.0f} °C for {HOT_READINGS} readings: near where clocks are cut",
        COOL,
        (one.key.metric,),
        detail=f"hot {part}",
        node=node_of_gpu(one.key.entity),
        jobs=(job,) if job is not None else (),
        numbers={"celsius": now},
    )


def _finding(evidence: Evidence, one: _Held) -> HealthFinding:
    job = evidence.job_of_gpu().get(one.entity)
    return HealthFinding(
        KIND,
        Thing.GPU,
        one.entity,
        Severity.WARNING,
        float(np.clip(0.3 + one.share, 0.3, 1.0)),
        one.since_s,
        f"its clocks were held down by {one.cause} for {100 * one.share:.0f} % of the time read{one.extra}",
        one.to_do,
        (one.metric,),
        detail=one.cause,
        node=node_of_gpu(one.entity),
        jobs=(job,) if job is not None else (),
        numbers={"share_ratio": one.share},
    )


SIGN = Sign((("gpu_thermal_throttle_seconds_total",), (REASONS,), (TEMPERATURE,)), find)
