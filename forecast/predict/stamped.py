"""A job's period from stamps of its own: its steps, or the collectives of its communication library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from features.frame import CollectiveStamps, Context, JobFrame
from features.transforms.steps import GAP_RATIO, period_from_steps
from forecast.predict.room_models import RoomModels
from forecast.predict.types import Absence, OtherPeriod, Period, Why

MOST_POINTS = 4096
"""Slots that the stamps of collectives are laid on."""
NARROWER = (1, 8, 64)
"""The newest parts of the window that are asked, each on slots that much finer."""
LEAST_COLLECTIVES = 32
LOOSE_RATIO = 0.05
"""Stamps whose interval is wider than this share of the period go by their width alone, as telemetry does."""
LEAST_SAMPLES = 4.0
"""Samples that a period needs before anything can be folded on it."""
COLLECTIVE_ROW = "nccl_collective_bytes_per_s"


def from_steps(frame: JobFrame) -> Period | None:
    """The pace of the job's own reports; None where there are too few, or where they have stopped."""
    if frame.steps is None:
        return None
    told = period_from_steps(frame.steps.at_s, frame.steps.step)
    if told is None:
        return None
    period_s, low_s, high_s, n = told
    usual_gap_s = float(np.median(np.diff(frame.steps.at_s)))
    # A job that says nothing any more may have another pace by now.
    if frame.data_at_s - float(frame.steps.at_s[-1]) > GAP_RATIO * usual_gap_s + frame.devices.step_s:
        return None
    return Period(period_s, low_s, high_s, score=1.0, votes=n, voters=n, source="steps")


def from_collectives(frame: JobFrame, models: RoomModels) -> Period | None:
    """The period with which the job's collectives repeat; None where none is found."""
    stamps = frame.collectives
    if stamps is None or stamps.at_s.size < LEAST_COLLECTIVES:
        return None
    for share in NARROWER:
        finding = next(iter(models.detect_periods(_on_slots(stamps, share))), None)
        if finding is not None and finding.status == "found":
            return Period(
                finding.period_s,
                finding.low_s,
                finding.high_s,
                finding.score,
                finding.votes,
                finding.voters,
                source="collectives",
            )
    return None


def _on_slots(stamps: CollectiveStamps, share: int) -> Context:
    """Bytes per second of the newest part of the stamps, on slots that divide it evenly."""
    end_s = float(stamps.at_s[-1])
    span_s = max((end_s - float(stamps.at_s[0])) / share, 1e-3)
    step_s = span_s / MOST_POINTS
    place = np.floor((stamps.at_s - (end_s - span_s)) / step_s).astype(np.intp)
    inside = place >= 0
    size = np.bincount(np.minimum(place[inside], MOST_POINTS - 1), stamps.size_bytes[inside], minlength=MOST_POINTS)
    one = np.zeros(1)
    return Context(size[None, :] / step_s, step_s, (COLLECTIVE_ROW,), np.zeros(1, np.int32), one, one + np.inf)


def most_exact(stamped: Sequence[Period], telemetry: Period | Absence) -> Period | Absence:
    """The period known best, with what the other sources say beside it; telemetry's answer where it is alone."""
    known = [*stamped, *([telemetry] if isinstance(telemetry, Period) else [])]
    if not stamped:
        return telemetry
    ranked = sorted(known, key=_doubt)
    others = [OtherPeriod(one.source, one.period_s) for one in ranked[1:]]
    if isinstance(telemetry, Absence):
        others.append(OtherPeriod("telemetry", None, telemetry.reason))
    return replace(ranked[0], others=tuple(others))


def _doubt(one: Period) -> tuple[bool, float]:
    """What a period is ranked by. Telemetry may settle on a multiple, which its interval does not show; stamps cannot."""
    width = (one.high_s - one.low_s) / one.period_s
    return one.source == "telemetry" or width > LOOSE_RATIO, width


def foldable(period: Period | Absence, step_s: float) -> Period | Absence:
    """The period where samples ``step_s`` apart show what happens inside it; else why nothing can be folded on it."""
    if isinstance(period, Absence) or period.period_s >= LEAST_SAMPLES * step_s:
        return period
    return Absence(
        Why.SAMPLING_TOO_COARSE,
        f"an iteration of {period.period_s:.3g} s, known from the job's {period.source}, holds only"
        f" {period.period_s / step_s:.1f} samples {step_s:.3g} s apart; {LEAST_SAMPLES:.0f} are needed to see inside it",
    )
