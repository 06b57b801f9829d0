"""What the service serves: candidates tried on the recent past of the very series, blended, calibrated and gated.

Law: a forecast that did not beat persistence on the recent past of its own kind of series (same job, same metric) is
not served; persistence is, and says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from features.frame import Context
from models.base import Forecaster
from models.conformal import calibrate, lead_buckets
from models.metrics import HIGH80, HIGH95, LOW80, LOW95, inside, quantile_loss
from models.persistence import Persistence
from models.quantiles import Floats, keep_laws, last_observed
from models.regime import quiet_moments
from models.saved import read_state, write_state

OK = "ok"
INSUFFICIENT_HISTORY = "insufficient_history"
POINTS_BEFORE_AN_ORIGIN = 8
"""A past origin with fewer points behind it than this says nothing about a model."""
PRIORS: dict[str, float] = {"persistence": 1.1, "moving_mean": 1.1, "level": 1.05}
"""Factor on the loss of models that know no rhythm, so that a few lucky origins do not decide for them."""
PRIOR_PAIRS = 24.0
"""Skill is shrunk towards 0 as if this many scored pairs had shown none."""
UNLIKE_WEIGHT = 0.1
"""Weight of a past origin at which the row was busy and is quiet now, or the other way round."""
OWN_EVIDENCE = 0.3
"""How much of a blend weight is decided by the row alone; the rest by its class (same job, same metric)."""
SHARPNESS = 24.0
"""Blend weight of a candidate is (its loss / persistence's loss) to the minus this."""


@dataclass(frozen=True, slots=True, eq=False)
class ServedForecast:
    """Forecasts of several series with what is known about their worth.

    Args:
        values: (n, horizon, n_levels) quantiles at ``LEVELS``, catalogue unit; always finite and inside bounds.
        model: (n,) names of the models inside, largest weight first, joined by ``+``; ``persistence`` when nothing
            beat it; ``constant`` for a row that never moved.
        version: (n,) of the models inside, same order.
        skill: (n,) 1 - WQL / WQL of persistence at past origins inside the context, shrunk towards 0; 0 for persistence.
        coverage80: (n,) share of truths inside the 80 % interval there; NaN when none was scored.
        coverage95: (n,) share inside the 95 % interval.
        scored: (n,) how many (origin, step) pairs that rests on.
        status: (n,) ``ok`` or ``insufficient_history``.
        points_present: (n,) points seen.
        points_needed: (n,) points needed before a model can be scored and chosen.
        reason: (n,) why this model, a sentence with the numbers used.
    """

    values: Floats
    model: tuple[str, ...]
    version: tuple[str, ...]
    skill: Floats
    coverage80: Floats
    coverage95: Floats
    scored: NDArray[np.int64]
    status: tuple[str, ...]
    points_present: NDArray[np.int64]
    points_needed: NDArray[np.int64]
    reason: tuple[str, ...]


def default_candidates() -> tuple[Forecaster, ...]:
    """What the service tries without training: rhythm, look-alikes, recent level and mean."""
    from models.analog import Analog
    from models.level import RecentLevel
    from models.regime import Regime

    found: list[Forecaster] = [Analog(), RecentLevel(8), Regime(64)]
    try:
        from models.phase import PhaseForecaster
    except ImportError:
        return tuple(found)
    return (PhaseForecaster(), *found)


class Served:
    """The gate over some candidates.

    Args:
        candidates: models to try besides persistence; ``default_candidates()`` when None.
        origins: how many past origins inside the context are scored.
    """

    name = "served"
    version = "1"

    def __init__(self, candidates: Sequence[Forecaster] | None = None, *, origins: int = 8) -> None:
        self.candidates: tuple[Forecaster, ...] = (
            Persistence(),
            *(default_candidates() if candidates is None else candidates),
        )
        self.origins = origins
        self.sharp = SHARPNESS
        self.prior = np.array([PRIORS.get(c.name, 1.0) for c in self.candidates])

    def fit(self, contexts: list[Context], horizon: int) -> None:
        """Nothing to learn: the candidates are fitted by whoever made them."""

    def predict(self, context: Context, horizon: int) -> Floats:
        """Quantile cube (n_series, horizon, n_levels) of what would be served."""
        return self.predict_served(context, horizon).values

    def predict_served(self, context: Context, horizon: int) -> ServedForecast:
        """The forecast with its model, skill, coverage and reason for every row.

        Past origins use only points up to themselves, and are scored only on points up to the cutoff.
        """
        present = np.isfinite(context.values).sum(axis=1)
        needed = POINTS_BEFORE_AN_ORIGIN + horizon
        columns = past_origins(context.n_points, horizon, self.origins)
        now = self._ask(context, horizon)
        quiet = quiet_moments(context.values)
        classes = row_classes(context, quiet[:, -1] if context.n_points else None)
        if not columns:
            return self._naive(context, now[0], present, needed)
        past = np.stack([self._ask_then(context, column, horizon) for column in columns])  # (r, k, n, h, levels)
        truth = past_truth(context.values, columns, horizon)
        bucket = lead_buckets(horizon)
        alike = np.stack([quiet[:, column - 1] == quiet[:, -1] for column in columns])  # (r, n)
        loss = bucket_losses(past, truth, bucket, np.where(alike, 1.0, UNLIKE_WEIGHT))
        weight = blend_weights(loss, classes, self.sharp, self.prior)
        blended = blend(now, weight, bucket)
        past_blend = np.stack([blend(p, weight, bucket) for p in past])
        heard = np.where(alike[:, :, None], truth, np.nan)
        blended = calibrate(blended, past_blend, heard, classes, bucket)
        calm = calibrate(now[0], past[:, 0], heard, classes, bucket)
        return self._gate(context, blended, calm, past, past_blend, truth, weight, classes, present, needed)

    def save(self, folder: Path) -> None:
        """Write every candidate in its own folder."""
        for k, candidate in enumerate(self.candidates[1:]):
            candidate.save(folder / f"{k}-{candidate.name}")
        names = [candidate.name for candidate in self.candidates[1:]]
        write_state(folder, self.name, self.version, {"candidates": names, "origins": self.origins})

    @classmethod
    def load(cls, folder: Path) -> Forecaster:
        """Read back what ``save`` wrote."""
        from models.registry import BUILTIN

        state = read_state(folder, cls.name, cls.version)
        found = [BUILTIN[name]().load(folder / f"{k}-{name}") for k, name in enumerate(state["candidates"])]
        return cls(found, origins=int(state["origins"]))

    def _ask(self, context: Context, horizon: int) -> Floats:
        """(k, n, horizon, n_levels) answers of all candidates; one that is not finite or absurd gives persistence's."""
        cubes = [candidate.predict(context, horizon) for candidate in self.candidates]
        limit = _absurd(context)
        for k in range(1, len(cubes)):
            bad = ~np.isfinite(cubes[k]).all(axis=(1, 2)) | (np.abs(cubes[k]).max(axis=(1, 2)) > limit)
            if bad.any():
                cubes[k] = np.where(bad[:, None, None], cubes[0], cubes[k])
        return np.stack(cubes)

    def _ask_then(self, context: Context, column: int, horizon: int) -> Floats:
        """What ``_ask`` would have said after ``column`` points; leads without a truth yet repeat the last one asked."""
        known = min(horizon, context.n_points - column)
        cubes = self._ask(context.until(column), known)
        return np.pad(cubes, ((0, 0), (0, 0), (0, horizon - known), (0, 0)), mode="edge")

    def _naive(self, context: Context, values: Floats, present: NDArray[np.int64], needed: int) -> ServedForecast:
        n = context.n_series
        reason = tuple(
            f"{p} points are present and {needed} are needed to score a model; persistence is served" for p in present
        )
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
            points_needed=np.full(n, needed, np.int64),
            reason=reason,
        )

    def _gate(
        self,
        context: Context,
        blended: Floats,
        calm: Floats,
        past: Floats,
        past_blend: Floats,
        truth: Floats,
        weight: Floats,
        classes: NDArray[np.intp],
        present: NDArray[np.int64],
        needed: int,
    ) -> ServedForecast:
        known = np.isfinite(truth)
        scored = known.sum(axis=(0, 2))
        mine = np.where(known, quantile_loss(past_blend, truth), 0.0).sum(axis=(0, 2))
        naive = np.where(known, quantile_loss(past[:, 0], truth), 0.0).sum(axis=(0, 2))
        skill = shrunk_skill(mine, naive, scored, classes)
        constant = _constant(context.values)
        short = (present < needed) & ~constant
        use = (skill > 0) & ~constant & ~short
        values = np.where(use[:, None, None], blended, calm)
        frozen = last_observed(context.values)[:, None, None]
        values = np.where(constant[:, None, None], frozen, values)
        shown = np.where(use[None, :, None, None], past_blend, past[:, 0])
        names, versions, reasons = self._words(context, weight, use, skill, constant, short, present, needed, scored)
        return ServedForecast(
            values=keep_laws(values, context.low, context.high),
            model=names,
            version=versions,
            skill=np.where(use, skill, 0.0),
            coverage80=_share(inside(shown, truth, LOW80, HIGH80)),
            coverage95=_share(inside(shown, truth, LOW95, HIGH95)),
            scored=scored,
            status=tuple(INSUFFICIENT_HISTORY if s else OK for s in short),
            points_present=present,
            points_needed=np.full(context.n_series, needed, np.int64),
            reason=reasons,
        )

    def _words(
        self,
        context: Context,
        weight: Floats,
        use: NDArray[np.bool_],
        skill: Floats,
        constant: NDArray[np.bool_],
        short: NDArray[np.bool_],
        present: NDArray[np.int64],
        needed: int,
        scored: NDArray[np.int64],
    ) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
        names, versions, reasons = [], [], []
        mean_weight = weight.mean(axis=2)  # (k, n)
        for i in range(context.n_series):
            if constant[i]:
                names.append("constant")
                versions.append("1")
                reasons.append(f"all {present[i]} points are equal")
                continue
            if not use[i]:
                names.append("persistence")
                versions.append(self.candidates[0].version)
                reasons.append(
                    f"{present[i]} points are present and {needed} are needed to score a model"
                    if short[i]
                    else f"no model beat persistence over {scored[i]} scored steps (skill {skill[i]:.2f})"
                )
                continue
            order = [k for k in np.argsort(-mean_weight[:, i]) if mean_weight[k, i] >= 0.15] or [
                int(np.argmax(mean_weight[:, i]))
            ]
            names.append("+".join(self.candidates[k].name for k in order))
            versions.append("+".join(self.candidates[k].version for k in order))
            reasons.append(f"beats persistence over {scored[i]} scored steps (skill {skill[i]:.2f})")
        return tuple(names), tuple(versions), tuple(reasons)


def past_origins(n_points: int, horizon: int, most: int) -> list[int]:
    """Columns at which past forecasts are made, newest first; the newest ones are scored on their near leads only."""
    stride = max(1, horizon // 3)
    least = max(POINTS_BEFORE_AN_ORIGIN, n_points * 3 // 5)
    columns = [n_points - stride * (k + 1) for k in range(most)]
    return [column for column in columns if column >= least]


def past_truth(values: Floats, columns: Sequence[int], horizon: int) -> Floats:
    """(n_origins, n, horizon) what came after each origin; NaN beyond the cutoff."""
    padded = np.pad(values, ((0, 0), (0, horizon)), constant_values=np.nan)
    return np.stack([padded[:, column : column + horizon] for column in columns])


def row_classes(context: Context, quiet: NDArray[np.bool_] | None = None) -> NDArray[np.intp]:
    """(n,) number of each row's class: same job, same metric, and both quiet or both busy."""
    state = [False] * context.n_series if quiet is None else quiet.tolist()
    pairs = list(zip(context.group.tolist(), context.metric, state, strict=True))
    seen: dict[tuple[int, str, bool], int] = {}
    return np.array([seen.setdefault(pair, len(seen)) for pair in pairs], np.intp)


def bucket_losses(past: Floats, truth: Floats, bucket: NDArray[np.intp], weight: Floats) -> Floats:
    """(k, n, n_buckets) summed quantile loss of each candidate at past origins, origins weighted by (r, n)."""
    loss = np.stack([quantile_loss(past[:, k], truth) for k in range(past.shape[1])])  # (k, r, n, h)
    total = np.einsum("krnh,rn->knh", np.where(np.isfinite(loss), loss, 0.0), weight)
    return np.stack([total[:, :, bucket == b].sum(axis=2) for b in range(int(bucket.max()) + 1)], axis=2)


def log_ratio(loss: Floats, naive: Floats) -> Floats:
    """Logarithm of loss over persistence's loss, kept within a factor of 100; 0 where neither lost anything."""
    tiny = 1e-12 * np.max(naive, initial=0.0) + 1e-300
    result: Floats = np.clip(np.log((loss + tiny) / (naive + tiny)), -np.log(100.0), np.log(100.0))
    return result


def class_mean(values: Floats, classes: NDArray[np.intp]) -> Floats:
    """(..., n) -> (..., n): the mean over each row's class."""
    member = (classes[:, None] == np.arange(int(classes.max()) + 1)[None, :]).astype(np.float64)
    result: Floats = (values @ (member / member.sum(axis=0)))[..., classes]
    return result


def blend_weights(loss: Floats, classes: NDArray[np.intp], sharpness: float, prior: Floats) -> Floats:
    """(k, n, n_buckets) weights that sum to 1 over candidates: own loss and the class's, against persistence's.

    Args:
        loss: (k, n, n_buckets) summed loss at past origins; persistence first.
        classes: (n,) class of each row.
        sharpness: weight is the loss ratio to the minus this.
        prior: (k,) factor on each candidate's loss; above 1 it must earn its weight.
    """
    own = log_ratio(loss, loss[:1])
    shared = np.moveaxis(class_mean(np.moveaxis(own, 1, 2), classes), 1, 2)
    ratio = np.exp(OWN_EVIDENCE * own + (1.0 - OWN_EVIDENCE) * shared)
    ratio = ratio * prior[:, None, None]
    weight = (ratio / ratio.min(axis=0, keepdims=True)) ** -sharpness
    result: Floats = weight / weight.sum(axis=0, keepdims=True)
    return result


def blend(cubes: Floats, weight: Floats, bucket: NDArray[np.intp]) -> Floats:
    """(n, horizon, n_levels) weighted mean of quantiles over candidates (Vincent's average keeps sharpness)."""
    result: Floats = np.einsum("knhq,knh->nhq", cubes, weight[:, :, bucket])
    return result


def shrunk_skill(mine: Floats, naive: Floats, scored: NDArray[np.int64], classes: NDArray[np.intp]) -> Floats:
    """(n,) 1 - loss / persistence's loss, over the row and its class, shrunk towards 0 by ``PRIOR_PAIRS``."""
    own = log_ratio(mine, naive)
    ratio = np.exp(0.5 * own + 0.5 * class_mean(own, classes))
    result: Floats = (1.0 - ratio) * scored / (scored + PRIOR_PAIRS)
    return result


def _constant(values: Floats) -> NDArray[np.bool_]:
    known = np.isfinite(values)
    top = np.where(known, values, -np.inf).max(axis=1, initial=-np.inf)
    bottom = np.where(known, values, np.inf).min(axis=1, initial=np.inf)
    result: NDArray[np.bool_] = (known.sum(axis=1) >= POINTS_BEFORE_AN_ORIGIN) & (top == bottom)
    return result


def _absurd(context: Context) -> Floats:
    """(n,) magnitude beyond which a quantile is not believed: ten times the largest ever seen."""
    seen = np.where(np.isfinite(context.values), np.abs(context.values), 0.0).max(axis=1, initial=0.0)
    floor = np.where(np.isfinite(context.low), np.abs(context.low), 0.0)
    result: Floats = 10.0 * np.maximum(seen, floor) + 1e-12
    return result


def _share(hit: Floats) -> Floats:
    known = np.isfinite(hit)
    count = known.sum(axis=(0, 2))
    total = np.where(known, hit, 0.0).sum(axis=(0, 2))
    result: Floats = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    return result
