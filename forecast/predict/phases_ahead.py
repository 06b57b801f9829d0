"""When a job's checkpoint or evaluation comes next, how long it lasts, and how far such statements held lately."""

from __future__ import annotations

from features.frame import JobFrame
from features.transforms.steps import GAP_RATIO, period_from_steps
from forecast.predict.phases_past import NONE, RARE, PhasePast, reported, under_way, with_steps
from forecast.predict.types import Absence, NextPhase, PhaseName, PhaseNow, Why
from models.phase_occurrences import Occurrences
from models.phase_replay import LEAST
from models.phase_sequence import Next, Pace, Unforeseen, foresee

USUAL_RIGHT = 0.8
"""What an 80 % interval promises; weighs as two scored statements until there are some."""
_WHY = {"few": Why.INSUFFICIENT_HISTORY, "irregular": Why.IRREGULAR, "ceased": Why.IRREGULAR}
_COUNTED = {"steps": "every {:.0f} steps", "gap": "{:.3g} s after the last one ended", "seconds": "every {:.3g} s"}


def next_phases(
    frame: JobFrame, phase: PhaseNow | Absence, past: PhasePast, now_s: float
) -> dict[PhaseName, NextPhase | Absence]:
    """The next checkpoint and the next evaluation, or why they are not told.

    Args:
        frame: the job's recent past.
        phase: what it does now; where that cannot be told, nothing of telemetry's is foreseen.
        past: occurrences read off telemetry, over the job's whole life as far as it was watched.
        now_s: moment of asking, in the source's clock.
    """
    out: dict[PhaseName, NextPhase | Absence] = {}
    for name in RARE:
        own = reported(frame, now_s) if name is PhaseName.CHECKPOINT else None
        if own is not None and own.size:
            out[name] = _one(name, own, frame, now_s, "steps")
        elif isinstance(phase, Absence):
            out[name] = Absence(
                phase.why, f"the job does not report its {name}s and its phase is unseen: {phase.reason}"
            )
        else:
            seen = past.get(name, NONE)
            if phase.phase is name:
                seen = under_way(seen, phase.since_s, now_s)
            out[name] = _one(name, with_steps(seen, frame), frame, now_s, "telemetry")
    return out


def _one(name: PhaseName, past: Occurrences, frame: JobFrame, now_s: float, source: str) -> NextPhase | Absence:
    resolution_s = 0.0 if source == "steps" else frame.totals.step_s
    found = foresee(past, now_s, _pace(frame), resolution_s)
    if isinstance(found, Unforeseen):
        return Absence(
            _WHY[found.why],
            f"{name}: {found.reason}",
            past.size if found.why == "few" else None,
            LEAST if found.why == "few" else None,
        )
    right = USUAL_RIGHT * 2 + (found.right * found.scored if found.scored else 0.0)
    # What is overdue may have been left out; the next turn is then half as sure.
    chance = right / (2 + found.scored) * (0.5 if found.overdue else 1.0)
    rule = _COUNTED[found.unit].format(found.count)
    return NextPhase(
        phase=name,
        start_s=found.start_s,
        start_low_s=found.start_low_s,
        start_high_s=found.start_high_s,
        length_s=found.length_s,
        length_low_s=found.length_low_s,
        length_high_s=found.length_high_s,
        probability=chance,
        rule=rule,
        evidence=_sentence(name, past, found, rule, source),
        skill=found.skill,
        right_ratio=found.right if found.scored else None,
        scored=found.scored,
        source=source,
    )


def _sentence(name: PhaseName, past: Occurrences, found: Next, rule: str, source: str) -> str:
    seen = f"{past.size} {name}s {'reported by the job' if source == 'steps' else 'seen in its telemetry'}"
    length_s = past.end_s - past.start_s
    words = [f"{seen}, {rule}", f"they took {length_s.min():.3g} to {length_s.max():.3g} s"]
    if found.scored:
        words.append(f"of {found.scored} foreseen in this way {found.right:.0%} began inside the 80 % interval")
    words.append(
        f"error {found.skill:.0%} below the best of last, mean and median interval"
        if found.skill > 0
        else "nothing has beaten the plain interval (last, mean or median) here, so it is what speaks"
    )
    if found.overdue:
        words.append("the moment expected has passed: it is late or was left out")
    return "; ".join(words)


def _pace(frame: JobFrame) -> Pace | None:
    """Where the job's steps stand; None where it reports none, or where they have stopped."""
    stamps = frame.steps
    if stamps is None:
        return None
    told = period_from_steps(stamps.at_s, stamps.step)
    if told is None or frame.data_at_s - float(stamps.at_s[-1]) > GAP_RATIO * told[0] + frame.totals.step_s:
        return None
    return Pace(float(stamps.at_s[-1]), float(stamps.step[-1]), told[0])
