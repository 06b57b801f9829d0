"""What the gate decides for each row, and the words that say why."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from features.frame import Context
from models.base import Forecaster
from models.metrics import HIGH80, HIGH95, LOW80, LOW95, inside
from models.quantiles import Floats, keep_laws, last_observed
from models.rolling import POINTS_BEFORE_AN_ORIGIN
from models.served import INSUFFICIENT_HISTORY, OK, ServedForecast
from models.trial import Trial

LEAST_SKILL = 1e-9
"""A candidate that only says what persistence says has skill 0 up to rounding."""
NAMED_WEIGHT = 0.15
"""A candidate with less weight than this is not named as part of the model."""


def only_persistence(
    context: Context, values: Floats, version: str, present: NDArray[np.int64], needed: NDArray[np.int64]
) -> ServedForecast:
    """Persistence for a context too short to try anything."""
    n = context.n_series
    nothing = np.full(n, np.nan)
    return ServedForecast(
        values=keep_laws(values, context.low, context.high),
        model=("persistence",) * n,
        version=(version,) * n,
        skill=np.zeros(n),
        coverage80=nothing,
        coverage95=nothing.copy(),
        scored=np.zeros(n, np.int64),
        status=(INSUFFICIENT_HISTORY,) * n,
        points_present=present,
        points_needed=needed,
        reason=tuple(
            f"{p} points are present and {m} are needed to score a model; persistence is served"
            for p, m in zip(present, needed, strict=True)
        ),
    )


def let_through(
    candidates: Sequence[Forecaster],
    context: Context,
    served: tuple[Floats, Floats],
    naive: tuple[Floats, Floats],
    trial: Trial,
    present: NDArray[np.int64],
    needed: NDArray[np.int64],
) -> ServedForecast:
    """Let the blend through where it earned it; persistence elsewhere; the constant where nothing ever moved.

    ``served`` and ``naive`` are each what is said now, and what would have been said at past origins.
    """
    constant = _constant(context.values)
    short = (present < needed) & ~constant
    use = (trial.skill > LEAST_SKILL) & ~constant & (present >= POINTS_BEFORE_AN_ORIGIN)
    values = np.where(use[:, None, None], served[0], naive[0])
    values = np.where(constant[:, None, None], last_observed(context.values)[:, None, None], values)
    shown = np.where(use[None, :, None, None], served[1], naive[1])
    words = [
        _words(candidates, trial.weight[:, i].mean(axis=1), bool(use[i]), bool(constant[i]))
        for i in range(context.n_series)
    ]
    reasons = tuple(
        _reason(word[0], int(present[i]), int(needed[i]), int(trial.scored[i]), float(trial.skill[i]), bool(short[i]))
        for i, word in enumerate(words)
    )
    return ServedForecast(
        values=keep_laws(values, context.low, context.high),
        model=tuple(word[0] for word in words),
        version=tuple(word[1] for word in words),
        skill=np.where(use, trial.skill, 0.0),
        coverage80=_share(inside(shown, trial.truth, LOW80, HIGH80)),
        coverage95=_share(inside(shown, trial.truth, LOW95, HIGH95)),
        scored=trial.scored,
        status=tuple(INSUFFICIENT_HISTORY if s else OK for s in short),
        points_present=present,
        points_needed=needed,
        reason=reasons,
    )


def _words(candidates: Sequence[Forecaster], weight: Floats, use: bool, constant: bool) -> tuple[str, str]:
    """Name and version of what one row is served."""
    if constant:
        return "constant", "1"
    if not use:
        return candidates[0].name, candidates[0].version
    order = [int(k) for k in np.argsort(-weight, kind="stable")]
    named = [k for k in order if weight[k] >= NAMED_WEIGHT] or order[:1]
    return "+".join(candidates[k].name for k in named), "+".join(candidates[k].version for k in named)


def _reason(model: str, present: int, needed: int, scored: int, skill: float, short: bool) -> str:
    """A sentence with the numbers behind the choice."""
    if model == "constant":
        return f"all {present} points are equal"
    if short:
        return f"{present} points are present and {needed} are needed for a full trial; {model} is served"
    if model == "persistence":
        return f"no model beat persistence over {scored} scored steps (skill {skill:.2f}); persistence is served"
    return f"{model} beats persistence over {scored} scored steps (skill {skill:.2f})"


def _constant(values: Floats) -> NDArray[np.bool_]:
    known = np.isfinite(values)
    top = np.where(known, values, -np.inf).max(axis=1, initial=-np.inf)
    bottom = np.where(known, values, np.inf).min(axis=1, initial=np.inf)
    result: NDArray[np.bool_] = (known.sum(axis=1) >= POINTS_BEFORE_AN_ORIGIN) & (top == bottom)
    return result


def _share(hit: Floats) -> Floats:
    known = np.isfinite(hit)
    count = known.sum(axis=(0, 2))
    total = np.where(known, hit, 0.0).sum(axis=(0, 2))
    result: Floats = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    return result
