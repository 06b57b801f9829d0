"""What a printed number is worth: blank, out of range, not finite, or a value in the catalogue's unit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from telemetry.catalogue import FLOAT_BLANKS, INT32_BLANKS, INT64_BLANK_FROM, Blank, Metric, Source
from telemetry.samples import CodeArray, FloatArray, Problem, Reason

_BLANK_RANGE = {Blank.FLOAT: FLOAT_BLANKS, Blank.INT32: INT32_BLANKS, Blank.ZERO: (0.0, 0.0)}
PROBLEM_OF = {
    Reason.BLANK: Problem.BLANK_VALUE,
    Reason.OUT_OF_RANGE: Problem.OUT_OF_RANGE,
    Reason.NOT_FINITE: Problem.NOT_FINITE,
}
"""Reasons that are the source's fault and worth a finding."""
_HAIR = 1e-9
_MOST_FINE = 1e290
"""Far from where a product overflows."""


@dataclass(frozen=True, slots=True, eq=False)
class Limits:
    """The catalogue's rules as columns, one row per sample row (or one row for a whole series).

    Args:
        scale: printed number -> catalogue's unit.
        low: least legal value.
        high: greatest legal value; what lies within the tolerance above is clipped to it.
        top: ``high`` plus tolerance.
        blank_low: first number that means blank; NaN where none does.
        blank_high: last one.
        blank_from: from here on everything is an int64 blank; inf where that does not apply.
        fine_low: printed numbers from here to ``fine_high`` are good by every rule; ``fine_high`` is less where no
            such span is known.
        fine_high: see ``fine_low``.
    """

    scale: FloatArray
    low: FloatArray
    high: FloatArray
    top: FloatArray
    blank_low: FloatArray
    blank_high: FloatArray
    blank_from: FloatArray
    fine_low: FloatArray
    fine_high: FloatArray

    @classmethod
    def of(cls, rows: Sequence[tuple[Metric, Source]]) -> Limits:
        """The rules of each row."""

        def column(values: list[float]) -> FloatArray:
            return np.array(values, np.float64)

        blanks = [_BLANK_RANGE.get(metric.blank, (np.nan, np.nan)) for metric, _ in rows]
        fine = [_fine(metric, source, blank) for (metric, source), blank in zip(rows, blanks, strict=True)]
        return cls(
            scale=column([source.scale for _, source in rows]),
            low=column([metric.low for metric, _ in rows]),
            high=column([metric.high for metric, _ in rows]),
            top=column([metric.high + metric.tolerance for metric, _ in rows]),
            blank_low=column([low for low, _ in blanks]),
            blank_high=column([high for _, high in blanks]),
            blank_from=column([np.inf if m.blank is Blank.NONE else INT64_BLANK_FROM for m, _ in rows]),
            fine_low=column([low for low, _ in fine]),
            fine_high=column([high for _, high in fine]),
        )


def _fine(metric: Metric, source: Source, blank: tuple[float, float]) -> tuple[float, float]:
    """First and last printed number that are surely good."""
    if not source.scale > 0.0:
        return np.inf, -np.inf
    low = max(metric.low / source.scale, -_MOST_FINE)
    high = min(metric.high / source.scale, _MOST_FINE)
    # Rounding never turns the order of two products round, so that the ends speak for all between them.
    low += abs(low) * _HAIR if low * source.scale < metric.low else 0.0
    high -= abs(high) * _HAIR if high * source.scale > metric.high else 0.0
    if metric.blank is not Blank.NONE:
        high = min(high, INT64_BLANK_FROM * (1.0 - _HAIR))
    if blank[0] <= high and blank[1] >= low:
        below, above = (low, np.nextafter(blank[0], -np.inf)), (np.nextafter(blank[1], np.inf), high)
        low, high = max(below, above, key=lambda span: span[1] - span[0])
    return low, high


def judge(printed: FloatArray, limits: Limits) -> tuple[FloatArray, CodeArray]:
    """Values in the catalogue's unit and why some are missing.

    Args:
        printed: (n,) numbers as the source wrote them.
        limits: n rows, or one row for all.

    Returns:
        (n,) values, NaN where missing, and (n,) ``Reason`` codes.
    """
    if bool(((printed >= limits.fine_low) & (printed <= limits.fine_high)).all()):
        return printed * limits.scale, np.zeros(printed.shape, np.uint8)
    with np.errstate(over="ignore"):
        value = printed * limits.scale
    blank = ((printed >= limits.blank_low) & (printed <= limits.blank_high)) | (printed >= limits.blank_from)
    outside = (value > limits.top) | (value < limits.low)
    infinite = ~np.isfinite(value)
    reason = np.zeros(value.shape, np.uint8)
    if outside.any() or infinite.any() or blank.any():
        reason[outside] = Reason.OUT_OF_RANGE
        reason[~np.isfinite(printed) | (infinite & ~outside)] = Reason.NOT_FINITE
        reason[blank & np.isfinite(printed)] = Reason.BLANK
        value[reason != 0] = np.nan
    return np.minimum(value, limits.high), reason
