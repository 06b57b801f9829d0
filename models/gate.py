"""What the service serves: candidates tried on the recent past of the very series, blended, calibrated and gated.

Law: a forecast that did not beat persistence on the recent past of its own kind of series (same job, same metric) is
not served; persistence is, and says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from features.frame import Context
from models.base import Forecaster
from models.conformal import calibrate_both, lead_buckets
from models.leads import tried_leads
from models.persistence import Persistence
from models.quantiles import Floats
from models.regime import quiet_moments
from models.rolling import POINTS_BEFORE_AN_ORIGIN, blend, owners, past_origins, past_truth, row_classes
from models.rounds import Rounds
from models.saved import read_state, write_state
from models.seasonal_naive import SeasonalNaive
from models.served import INSUFFICIENT_HISTORY, OK, ServedForecast
from models.trial import ask, past_answers, weigh
from models.verdicts import LEAST_SKILL, let_through, only_persistence

__all__ = ["INSUFFICIENT_HISTORY", "OK", "Served", "ServedForecast", "default_candidates", "fleet_candidates"]

FEW_OWNERS = 8
"""Up to this many owners in a context, each is known by rows and moments of its own."""


def fleet_candidates() -> tuple[Forecaster, ...]:
    """For rows of many owners, without training: look-alike moments, the very recent level, quiet or busy."""
    from models.analog import Analog
    from models.level import RecentLevel
    from models.regime import Regime

    return (Analog(), RecentLevel(8), Regime(64))


def default_candidates(*, remember: bool = False) -> tuple[Forecaster, ...]:
    """For rows of a job, without training: its rhythm too, on which all of its rows vote, looked for now and then only
    where it may be remembered.
    """
    from models.looks import Looks
    from models.phase import PhaseForecaster

    return (PhaseForecaster(Looks()) if remember else PhaseForecaster(), *fleet_candidates())


class Served:
    """The gate over some candidates.

    Args:
        candidates: models to try besides persistence; when None ``default_candidates()``, or ``fleet_candidates()`` for
            a context of more than eight owners, where finding every owner's rhythm would cost more than it gives.
        origins: how many past origins inside the context are scored.
        season_s: a season the user asked for; a context under two seasons is answered, with ``insufficient_history``.
        also: tried beside the candidates in every context, such as models of other packages.
        rounds: remembers what candidates said, so that they are asked once a round; None asks them anew each time.
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
        rounds: Rounds | None = None,
    ) -> None:
        chosen = tuple(default_candidates(remember=rounds is not None) if candidates is None else candidates)
        self.automatic = candidates is None
        self.season = None if season_s is None else SeasonalNaive(season_s)
        self.candidates: tuple[Forecaster, ...] = (Persistence(), *chosen)
        self.origins = origins
        self.also = tuple(also)
        self.rounds = rounds

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
            return only_persistence(context, now[0], self.candidates[0].version, present, needed)
        leads = tried_leads(horizon)
        bucket = lead_buckets(horizon)
        tried = bucket[leads - 1]
        origins = past_answers(asked, context, horizon, columns, leads, self.rounds, now)
        truth = past_truth(context.values, origins.columns, leads)
        quiet = quiet_moments(context.values)
        classes = row_classes(context, quiet[:, -1])
        owner = owners(context)
        alike = np.stack([quiet[:, column - 1] == quiet[:, -1] for column in origins.columns])  # (r, n)
        trial = weigh(asked, origins.said, truth, alike, classes, tried, origins.mature)
        heard = np.where(alike[:, :, None], trial.truth, np.nan)
        blended = blend(now, trial.weight, bucket)
        served, shown = calibrate_both(blended, trial.blended, heard, classes, bucket, owner, tried)
        naive, plain = served, shown
        if not ((trial.skill > LEAST_SKILL) & (present >= POINTS_BEFORE_AN_ORIGIN)).all():
            naive, plain = calibrate_both(now[0], trial.past[:, 0], heard, classes, bucket, owner, tried)
        return let_through(asked, context, (served, shown), (naive, plain), trial, present, needed)

    def _asked(self, context: Context) -> tuple[Forecaster, ...]:
        """The candidates for this context."""
        asked = self.candidates
        if self.automatic and np.unique(context.group).size > FEW_OWNERS:
            asked = (self.candidates[0], *fleet_candidates())
        asked = (*asked, *self.also)
        if self.season is None or context.n_points < self.season.points_needed(context.step_s):
            return asked
        return (*asked, self.season)

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
