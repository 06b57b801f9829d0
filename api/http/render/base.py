"""Domain values as API models: NaN becomes null, arrays become lists, times get their RFC 3339 twin."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from api.http import schemas
from api.reads import History
from forecast.predict.types import Absence, QuantilePath, Skill


def rfc3339(at_s: float) -> str:
    """``2026-11-30T21:30:00.250Z``."""
    return datetime.fromtimestamp(at_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def number(value: float | None) -> float | None:
    """A finite number, or None."""
    return None if value is None or not math.isfinite(value) else float(value)


def numbers(values: NDArray[np.float64]) -> list[float | None]:
    """A row of numbers with six significant digits (no exporter is more exact), None where not finite."""
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = 10.0 ** (5.0 - np.floor(np.log10(np.abs(values))))
        short = np.where(np.isfinite(scale), np.round(values * scale) / scale, values)
    row: list[float | None] = short.tolist()
    if not np.isfinite(short).all():
        row = [v if v is not None and math.isfinite(v) else None for v in row]
    return row


def absent(absence: Absence) -> schemas.Absent:
    """An honest absence."""
    return schemas.Absent(
        why=str(absence.why),
        reason=absence.reason,
        points_present=absence.points_present,
        points_needed=absence.points_needed,
    )


def skill(value: Skill) -> schemas.SkillOut:
    """Skill and coverage."""
    return schemas.SkillOut(
        skill=number(value.skill),
        coverage80=number(value.coverage80),
        coverage95=number(value.coverage95),
        scored=value.scored,
    )


def path(value: QuantilePath | Absence) -> schemas.QuantilePathOut | schemas.Absent:
    """A quantile path; the matrix is turned so that each level is one row."""
    if isinstance(value, Absence):
        return absent(value)
    return schemas.QuantilePathOut(
        metric=value.metric,
        unit=value.unit,
        start_at=rfc3339(value.start_s),
        start_s=value.start_s,
        step_s=value.step_s,
        levels=list(value.levels),
        values=[numbers(row) for row in value.values.T],
        model=value.model,
        model_version=value.model_version,
        skill=skill(value.skill),
        reason=value.reason,
    )


def history(owner: str, value: History, max_points: int) -> schemas.HistoryOut:
    """Actual values; the oldest are left out beyond ``max_points``."""
    at_s = np.round(value.at_s[-max_points:], 3)
    return schemas.HistoryOut(
        id=owner,
        metric=value.metric,
        unit=value.unit,
        at_s=at_s.tolist(),
        value=numbers(value.value[-max_points:]),
        truncated=len(value.at_s) > max_points,
    )
