"""GPU memory: ECC errors, rows remapped, remapping that waits or failed; and cards that say of themselves they are ill."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from features.store.base import Series
from forecast.predict.health.moves import Move, move_of, node_of_gpu
from forecast.predict.health.types import Evidence, HealthFinding, Severity, Sign, Thing
from telemetry.ids import JobId

KIND = "memory_errors"
SINGLE_BIT_PER_HOUR = 100.0
"""Single-bit errors are mended on the fly; a burst of them precedes remapping. XID 92 speaks of a high rate too."""
SINGLE_BIT_READINGS = 3
"""One jump of the count may be one bad address that was read in a loop."""
RESET = "Reset the card at the next chance, when no job runs on it, so that the remapping takes effect."
RETURN = "Take the host out of service and have the card exchanged: no spare row was left for a bad one."
RESTART = "Let the job restart from its checkpoint, reset the card, and exchange it where it comes again."
WATCH = (
    "Watch the card: keep long jobs away from it while the rate lasts, and run the memory diagnosis when it is free."
)


@dataclass(frozen=True, slots=True)
class _Count:
    """A counter of errors and what its growth means."""

    metric: str
    severity: Severity
    score: float
    words: str
    to_do: str


_COUNTS = (
    _Count("gpu_ecc_dbe_volatile_total", Severity.CRITICAL, 0.9, "double-bit ECC errors", RESTART),
    _Count("gpu_ecc_dbe_total", Severity.CRITICAL, 0.9, "double-bit ECC errors", RESTART),
    _Count(
        "gpu_uncorrectable_remapped_rows_total",
        Severity.WARNING,
        0.6,
        "rows remapped after uncorrectable errors",
        RESET,
    ),
    _Count("gpu_correctable_remapped_rows_total", Severity.INFO, 0.3, "rows remapped after correctable errors", WATCH),
)
_SINGLE = ("gpu_ecc_sbe_volatile_total", "gpu_ecc_sbe_total")
_FLAGS = (
    ("gpu_row_remap_failure_flag", 1.0, Severity.CRITICAL, 1.0, "a row could not be remapped", RETURN),
    ("gpu_row_remap_pending_flag", 1.0, Severity.WARNING, 0.5, "a row waits for a reset to be remapped", RESET),
    ("gpu_health_flag", 0.0, Severity.CRITICAL, 0.9, "the card reports itself as not healthy", RESTART),
)


@dataclass(frozen=True, slots=True)
class _Told:
    """What one metric of a card tells."""

    entity: str
    metric: str
    severity: Severity
    score: float
    words: str
    since_s: float
    text: str
    to_do: str
    numbers: dict[str, float]
    lasts: bool = False


def find(evidence: Evidence) -> list[HealthFinding]:
    """Cards with memory errors in the window, or with a flag that stands."""
    owner = evidence.job_of_gpu()
    found: dict[tuple[str, str], HealthFinding] = {}
    for told in (*_counted(evidence), *_single_bits(evidence), *_flagged(evidence)):
        # Counts of the driver's and of the card's life tell of the same errors.
        found.setdefault((told.entity, told.words), _finding(told, owner.get(told.entity)))
    return list(found.values())


def _counted(evidence: Evidence) -> list[_Told]:
    return [
        _Told(
            move.entity,
            count.metric,
            count.severity,
            count.score,
            count.words,
            move.since_s,
            f"{move.amount:.0f} {count.words} in {move.span_s:.0f} s",
            count.to_do,
            {"count": move.amount, "span_s": move.span_s},
            lasts=count.severity is not Severity.INFO,
        )
        for count in _COUNTS
        for move in _moves(evidence, count.metric)
    ]


def _single_bits(evidence: Evidence) -> list[_Told]:
    return [
        _Told(
            move.entity,
            metric,
            Severity.WARNING,
            float(np.clip(move.per_hour / (20 * SINGLE_BIT_PER_HOUR), 0.3, 0.8)),
            "single-bit ECC errors",
            move.since_s,
            f"{move.amount:.0f} single-bit ECC errors in {move.span_s:.0f} s, {move.per_hour:.0f} an hour",
            WATCH,
            {"count": move.amount, "per_hour": move.per_hour},
        )
        for metric in _SINGLE
        for move in _moves(evidence, metric)
        if move.per_hour >= SINGLE_BIT_PER_HOUR and move.moves >= SINGLE_BIT_READINGS
    ]


def _flagged(evidence: Evidence) -> list[_Told]:
    return [
        _Told(
            one.key.entity,
            metric,
            severity,
            score,
            words,
            _stands_since(one),
            f"{words} ({metric} is {bad:g})",
            to_do,
            {"flag": bad},
        )
        for metric, bad, severity, score, words, to_do in _FLAGS
        for one in evidence.series(metric)
        if one.value[-1] == bad
    ]


def _finding(told: _Told, job: JobId | None) -> HealthFinding:
    return HealthFinding(
        KIND,
        Thing.GPU,
        told.entity,
        told.severity,
        told.score,
        told.since_s,
        told.text,
        told.to_do,
        (told.metric,),
        detail=told.words,
        node=node_of_gpu(told.entity),
        jobs=(job,) if job is not None else (),
        numbers=told.numbers,
        lasts=told.lasts,
    )


def _moves(evidence: Evidence, metric: str) -> list[Move]:
    return [move for one in evidence.series(metric) if (move := move_of(one)) is not None]


def _stands_since(one: Series) -> float:
    other = np.flatnonzero(one.value != one.value[-1])
    return float(one.at_s[int(other[-1]) + 1 if other.size else 0])


SIGN = Sign(
    (
        ("gpu_row_remap_failure_flag", "gpu_uncorrectable_remapped_rows_total"),
        ("gpu_ecc_dbe_volatile_total",),
        ("gpu_ecc_dbe_total",),
        ("gpu_health_flag",),
    ),
    find,
)
