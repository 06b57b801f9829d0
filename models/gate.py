"""What the service serves: candidates tried on the recent past of the very series, blended, calibrated and gated.

Law: a forecast that did not beat persistence on the recent past of its own kind of series (same job, same metric) is
not served; persistence is, and says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from features.frame import Context
from models.base import Forecaster
from models.conformal import calibrate_both, lead_buckets
from models.leads import tried_leads
from models.metrics import HIGH80, HIGH95, LOW80, LOW95, inside
from models.persistence import Persistence
from models.quantiles import Floats, keep_laws, last_observed
from models.regime import quiet_moments
from models.rolling import POINTS_BEFORE_AN_ORIGIN, blend, owners, past_origins, past_truth, row_classes
from models.saved import read_state, write_state
from models.seasonal_naive import SeasonalNaive
from models.served import INSUFFICIENT_HISTORY, OK, ServedForecast
from models.trial import Trial, ask, ask_past, maturity, weigh

__all__ = ["INSUFFICIENT_HISTORY", "OK", "Served", "ServedForecast", "default_candidates", "fleet_candidates"]

FEW_OWNERS = 8
"""Up to this many owners in a context, each is known by rows and moments of its own."""
LEAST_SKILL = 1e-9
"""A candidate that only says what persistence says has skill 0 up to rounding."""
NAMED_WEIGHT = 0.15
"""A candidate with less weight than this is not named as part of the model."""


def fleet_candidates() -> tuple[Forecaster, ...]:
    """For rows of many owners, without training: look-alike moments, the very recent level, quiet or busy."""
    from models.analog import Analog
    from models.level import RecentLevel
    from models.regime import Regime

    return (Analog(), RecentLevel(8), Regime(64))


def default_candidates() -> tuple[Forecaster, ...]:
    """For rows of a job, without training: its rhythm too, on which all of its rows vote."""
    from models.phase import PhaseForecaster

    return (PhaseForecaster(), *fleet_candidates())


class Served:
    """The gate over some candidates.

    Args:
        candidates: models to try besides persistence; when None ``default_candidates()``, or ``fleet_candidates()`` for
            a context of more than eight owners, where finding every owner's rhythm would cost more than it gives.
        origins: how many past origins inside the context are scored.
        season_s: a season the user asked for; a context under two seasons is answered, with ``insufficient_history``.
        also: tried beside the candidates in every context, such as models of other packages.
    """

    name = "served"
    version = "1"

    def __init__(
        self,
        candidates: Sequence[Forecaster] | None = None,
        *,
        origins: int = 6,
        season_s: float | None = None,
        also: Sequence[Forecaster] = (),
    ) -> None:
        chosen = tuple(default_candidates() if candidates is None else candidates)
        self.automatic = candidates is None
        self.season = None if season_s is None else SeasonalNaive(season_s)
        self.candidates: tuple[Forecaster, ...] = (Persistence(), *chosen)
        self.origins = origins
        self.also = tuple(also)

    def fit(self, contexts: list[Context], horizon: int) -> None:
        """Nothing to learn: the candidates are fitted by whoever made them."""

    def predict(self, context: Context, horizon: int) -> Floats:
        """Quantile cube (n_series, horizon, n_levels) of what would be served."""
        return self.predict_served(context, horizon).values

    def predict_served(self, context: Context, horizon: int) -> ServedForecast:
        """The forecast with its model, skill, coverage and reason for every row.

        Past origins use only points up to themselves, and are scored only on points up to the cutoff.
        """
        asked = self._asked(context)
        present = np.isfinite(context.values).sum(axis=1)
        needed = np.full(context.n_series, POINTS_BEFORE_AN_ORIGIN + horizon, np.int64)
        if self.season is not None:
            needed = np.maximum(needed, self.season.points_needed(context.step_s))
        few = np.unique(context.group).size <= FEW_OWNERS
        columns = past_origins(context.n_points, horizon, self.origins, spread=few)
        now = ask(asked, context, horizon)
        if not columns:
            return self._naive(context, now[0], present, needed)
        quiet = quiet_moments(context.values)
        classes = row_classes(context, quiet[:, -1])
        owner = owners(context)
        alike = np.stack([quiet[:, column - 1] == quiet[:, -1] for column in columns])  # (r, n)
        leads = tried_leads(horizon)
        bucket = lead_buckets(horizon)
        tried = bucket[leads - 1]
        past = np.stack(ask_past(asked, context, columns, horizon, leads))
        truth = past_truth(context.values, columns, leads)
        trial = weigh(asked, past, truth, alike, classes, tried, maturity(columns, context.n_points))
        heard = np.where(alike[:, :, None], trial.truth, np.nan)
        blended = blend(now, trial.weight, bucket)
        served, shown = calibrate_both(blended, trial.blended, heard, classes, bucket, owner, tried)
        naive, plain = served, shown
        if not ((trial.skill > LEAST_SKILL) & (present >= POINTS_BEFORE_AN_ORIGIN)).all():
            naive, plain = calibrate_both(now[0], trial.past[:, 0], heard, classes, bucket, owner, tried)
        return _gate(asked, context, (served, shown), (naive, plain), trial, present, needed)

    def _asked(self, context: Context) -> tuple[Forecaster, ...]:
        """The candidates for this context."""
        asked = self.candidates
        if self.automatic and np.unique(context.group).size > FEW_OWNERS:
            asked = (self.candidates[0], *fleet_candidates())
        asked = (*asked, *self.also)
        if self.season is None or context.n_points < self.season.points_needed(context.step_s):
            return asked
        return (*asked, self.season)

    def _naive(
        self, context: Context, values: Floats, present: NDArray[np.int64], needed: NDArray[np.int64]
    ) -> ServedForecast:
        """Persistence for a context too short to try anything."""
        n = context.n_series
        nothing = np.full(n, np.nan)
        return ServedForecast(
            values=keep_laws(values, context.low, context.high),
            model=("persistence",) * n,
            version=(self.candidates[0].version,) * n,
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

    def save(self, folder: Path) -> None:
        """Write every candidate in its own folder."""
        for k, candidate in enumerate(self.candidates[1:]):
            candidate.save(folder / f"{k}-{candidate.name}")
        state = {
            "candidates": [candidate.name for candidate in self.candidates[1:]],
            "automatic": self.automatic,
            "origins": self.origins,
            "season_s": None if self.season is None else self.season.season_s,
        }
        write_state(folder, self.name, self.version, state)

    @classmethod
    def load(cls, folder: Path) -> Forecaster:
        """Read back what ``save`` wrote."""
        from models.registry import BUILTIN

        state = read_state(folder, cls.name, cls.version)
        found = [BUILTIN[name]().load(folder / f"{k}-{name}") for k, name in enumerate(state["candidates"])]
        chosen = None if state["automatic"] else found
        return cls(chosen, origins=int(state["origins"]), season_s=state["season_s"])


def _gate(
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
