"""Grading: what an advice predicted against what was measured afterwards."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from forecast.advisor.types import Advice, Effect, Grade

MIN_SAMPLES = 5
"""Fewer samples than this measure nothing."""
MIN_PRESENT = 0.6
"""Of the samples that the window should hold, this share must be there."""


def effect_window_s(advice: Advice, applied_at_s: float) -> tuple[float, float]:
    """When the effect is measured, Unix seconds.

    It begins once the job has come to the end of its iteration, at most a period later, and has paused; it lasts for
    the predicted window.
    """
    pause = advice.action.get("offset_s", 0.0)
    wait_s = advice.numbers.get("period_moved_s", 0.0)
    start_s = applied_at_s + wait_s + (float(pause) if not isinstance(pause, str) else 0.0)
    return start_s, start_s + (advice.predicted.window_s if advice.predicted else 0.0)


def grade(
    advice: Advice,
    at_s: NDArray[np.float64],
    use_ratio: NDArray[np.float64],
    *,
    threshold_ratio: float,
    applied_at_s: float,
    now_s: float,
) -> Grade | None:
    """The verdict, or None while the effect's window has not passed.

    Args:
        advice: what was carried out.
        at_s: (n,) times of the link's use, Unix seconds of the source's clock, ascending.
        use_ratio: (n,) NaN where missing.
        threshold_ratio: use that counts as congested.
        applied_at_s: when it was carried out, in the clock of ``at_s``.
        now_s: the present, same clock.
    """
    effect = advice.predicted
    if effect is None:
        return Grade(advice.id, "inconclusive", None, "a hold predicts nothing that could be graded", now_s)
    start_s, end_s = effect_window_s(advice, applied_at_s)
    if now_s < end_s:
        return None
    inside = (at_s > start_s) & (at_s <= end_s)
    seen = use_ratio[inside & np.isfinite(use_ratio)]
    expected = _expected(at_s, effect.window_s)
    if seen.size < max(MIN_SAMPLES, MIN_PRESENT * expected):
        reason = (
            f"{seen.size} samples lie in the {effect.window_s:.0f} s after the pause, about {expected} were expected"
        )
        return Grade(advice.id, "inconclusive", None, reason, now_s)
    measured = float((seen > threshold_ratio).mean())
    return _verdict(advice.id, effect, measured, int(seen.size), now_s)


def _expected(at_s: NDArray[np.float64], window_s: float) -> int:
    """How many samples a window of this length usually holds."""
    if at_s.size < 2:
        return MIN_SAMPLES
    return max(MIN_SAMPLES, int(window_s / float(np.median(np.diff(at_s)))))


def _verdict(advice_id: str, effect: Effect, measured: float, n: int, now_s: float) -> Grade:
    """Inside, better or worse; half a sample of the measured share is not a difference."""
    slack = 0.5 / n
    if measured > effect.high + slack:
        verdict = "worse"
    elif measured < effect.low - slack:
        verdict = "better"
    else:
        verdict = "inside"
    reason = (
        f"{verdict}: {measured:.1%} of {n} samples passed the threshold, predicted {effect.low:.1%} to {effect.high:.1%}, "
        f"before {effect.baseline:.1%}"
    )
    return Grade(advice_id, verdict, measured, reason, now_s)
