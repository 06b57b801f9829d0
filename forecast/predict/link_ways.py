"""The ways of foreseeing a link, tried on its own past, and the outlook of the way that did best."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from features.frame import Context
from forecast.predict.attribution import JobRows, Mixture, mixture, shares_by_job
from forecast.predict.ensembles import bridged, continued, crossing, cycles_of
from forecast.predict.moments import moment_scenarios, moments_profile
from forecast.predict.outlooks import (
    CLIMATOLOGY,
    PERSISTENCE,
    PRIOR,
    Score,
    origins,
    persistence_scenarios,
    score,
    usual_ever,
)
from forecast.predict.room_models import RoomModels
from forecast.predict.settings import PredictSettings
from forecast.predict.types import Cause, Period, Skill
from models.base import LEVELS
from telemetry.ids import JobId

FloatArray = NDArray[np.float64]

RHYTHM = "rhythm"
JOBS = "jobs"
MOMENTS = "moments"
WAYS = (JOBS, RHYTHM, MOMENTS, PERSISTENCE)
LEAST_SKILL = 0.02
"""A lead over climatology smaller than this is luck of a dozen origins."""
LEAST_USE_SKILL = 0.1
"""Who is believed about crossings that were never seen must foresee the use clearly better."""
MAX_SCANNED_ROWS = 128
"""At most this many job rows, largest first, are searched for the period they showed at a past origin."""
MAX_SCANNED_LINKS = 32
"""At most this many links that no job explains are searched for a rhythm of their own."""
MIN_LEAD_SHARE = 0.3
"""A job with at least this share of a link's bytes lends it its period."""


@dataclass(frozen=True, slots=True, eq=False)
class Outlook:
    """What was foreseen for some links; sequences are (n_links,).

    Args:
        probability: chance of a sample above the threshold within the horizon.
        onset_offset_s: expected first crossing after the cutoff, NaN when none is expected.
        overload_s: expected time above within the horizon.
        model: which way is served.
        skill: how it did; None when nothing could be scored.
        on_use: True where the skill is about use because too few crossings were seen.
        crossings: how many were seen in the window.
        causes: jobs by share.
        quantiles: (n_links, horizon, n_levels) of the use at ``models.base.LEVELS``, from the cutoff on.
        path_model: which way those are from; persistence when nothing beat it.
        path_skill: against persistence; None when nothing could be scored.
    """

    probability: FloatArray
    onset_offset_s: FloatArray
    overload_s: FloatArray
    model: tuple[str, ...]
    skill: tuple[Skill | None, ...]
    on_use: NDArray[np.bool_]
    crossings: NDArray[np.int64]
    causes: tuple[tuple[Cause, ...], ...]
    quantiles: FloatArray
    path_model: tuple[str, ...]
    path_skill: tuple[Skill | None, ...]

    def onset_s(self, row: int, data_at_s: float) -> float | None:
        """Unix time of the expected first crossing; None when none is expected."""
        offset = float(self.onset_offset_s[row])
        return data_at_s + offset if np.isfinite(offset) else None

    def sentence(self, row: int, threshold: float, horizon_s: float) -> str:
        """The outlook in words, with the numbers."""
        parts = [
            f"{self.model[row]}: chance {self.probability[row]:.0%} of passing {threshold:.2f} of capacity within {horizon_s:.0f} s"
        ]
        parts.append(self._scored(row, threshold))
        if self.causes[row]:
            named = ", ".join(f"{cause.job} {cause.share_ratio:.0%}" for cause in self.causes[row][:3])
            parts.append(f"bytes of {named}")
        return "; ".join(parts)

    def _scored(self, row: int, threshold: float) -> str:
        """What the choice of the way rests on."""
        skill = self.skill[row]
        if skill is None:
            return "nothing could be scored yet"
        if self.model[row] == CLIMATOLOGY:
            told = f"nothing beat climatology over {skill.scored} pairs"
        else:
            told = f"skill {skill.skill:.2f} against climatology over {skill.scored} pairs"
        if not self.on_use[row]:
            return f"scored on when it next crosses: {told}"
        seen = int(self.crossings[row])
        count = f"no sample passed {threshold:.2f}" if seen == 0 else f"{threshold:.2f} was crossed only {seen} times"
        return f"{count} in the window, so it is scored on use: {told}"


@dataclass(frozen=True, slots=True, eq=False)
class _Sources:
    """Everything from which scenarios are made, as known at one column."""

    use: FloatArray
    link_period: FloatArray
    rows: FloatArray
    row_period: FloatArray
    weight: FloatArray
    background: FloatArray
    profile: FloatArray

    def rhythm(self, column: int, horizon: int) -> FloatArray:
        return cycles_of(self.use[:, :column], self.link_period, horizon)

    def jobs(self, column: int, horizon: int) -> FloatArray:
        if self.rows.shape[0] == 0:
            return np.repeat(self.background[:, None, None], horizon, axis=2)
        ahead = continued(self.rows[:, :column], self.row_period, horizon)
        return np.tensordot(self.weight, ahead, axes=1) + self.background[:, None, None]

    def moments(self, column: int, horizon: int) -> FloatArray:
        return moment_scenarios(self.use, self.profile, column, horizon)

    def persistence(self, column: int, horizon: int) -> FloatArray:
        return persistence_scenarios(self.use, column, horizon)


def foresee(
    context: Context,
    capacity_bytes_per_s: FloatArray,
    rows: JobRows,
    allowed: NDArray[np.bool_],
    periods: Mapping[JobId, Period],
    age_s: float,
    settings: PredictSettings,
    models: RoomModels,
) -> Outlook:
    """Outlook of every link of ``context``.

    Args:
        context: use per link, each link its own group.
        capacity_bytes_per_s: (n_links,).
        rows: the jobs' traffic on the same points.
        allowed: (n_links, n_rows) which rows may cross which link.
        periods: the jobs' periods as known now.
        age_s: how old the last column is; the horizon starts after it.
        settings: horizon and threshold.
        models: where periods come from.
    """
    use, filled = context.values, bridged(context.values)
    horizon = settings.link_steps(context.step_s)
    skip = min(int(age_s / context.step_s), 4 * horizon)
    first = (origins(context.n_points, horizon) or [context.n_points])[0]
    then, _ = _sources(context, filled, first, capacity_bytes_per_s, rows, allowed, {}, models)
    now, mix = _sources(context, filled, context.n_points, capacity_bytes_per_s, rows, allowed, periods, models)
    scores = score(use, filled, [getattr(then, way) for way in WAYS], settings.threshold_ratio, horizon)
    able = {
        JOBS: mix.share.sum(axis=1) >= MIN_LEAD_SHARE,
        RHYTHM: np.isfinite(now.link_period) & np.isfinite(then.link_period),
    }
    scores = [_only(s, able[way]) if way in able else s for way, s in zip(WAYS, scores, strict=True)]
    best, skill = _choose(scores)
    path_best, path_skill = _choose_path(scores)
    ever, onset, overload = _usual(use, horizon, settings.threshold_ratio)
    quantiles = np.zeros((context.n_series, horizon, len(LEVELS)))
    for index, way in enumerate(WAYS):
        mine, shown = best == index, path_best == index
        if not (mine.any() or shown.any()):
            continue
        scenarios = getattr(now, way)(context.n_points, horizon + skip)
        if shown.any():
            quantiles[shown] = np.moveaxis(np.quantile(scenarios[shown][:, :, :horizon], LEVELS, axis=1), 0, 2)
        if mine.any():
            ahead = scenarios[mine][:, :, skip:]
            above, some, when = crossing(ahead, settings.threshold_ratio)
            n = ahead.shape[1]
            ever[mine] = (some * n + PRIOR * ever[mine]) / (n + PRIOR)
            onset[mine] = when
            overload[mine] = above.sum(axis=1)
    onset_offset_s = np.where(ever >= 0.5, (onset + skip + 1) * context.step_s, np.nan)
    return Outlook(
        probability=np.clip(ever, 0.0, 1.0),
        onset_offset_s=onset_offset_s,
        overload_s=overload * context.step_s,
        model=tuple(WAYS[b] if b >= 0 else CLIMATOLOGY for b in best),
        skill=skill,
        on_use=scores[0].on_use,
        crossings=scores[0].crossings,
        causes=tuple(
            tuple(Cause(job, part) for job, part in shares_by_job(mix.share[link], rows.jobs))
            for link in range(context.n_series)
        ),
        quantiles=quantiles,
        path_model=tuple(WAYS[b] for b in path_best),
        path_skill=path_skill,
    )


def _usual(use: FloatArray, horizon: int, threshold: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Climatology's chance, no onset, and its steps above; the start of every outlook."""
    ever, count = usual_ever(use, threshold, horizon)
    return ever, np.full(use.shape[0], np.nan), count


def _sources(
    context: Context,
    filled: FloatArray,
    column: int,
    capacity_bytes_per_s: FloatArray,
    rows: JobRows,
    allowed: NDArray[np.bool_],
    periods: Mapping[JobId, Period],
    models: RoomModels,
) -> tuple[_Sources, Mixture]:
    """Periods and weights as known at ``column``."""
    step_s = context.step_s
    past = JobRows(rows.jobs, rows.leaf, rows.nodes, rows.values[:, :column])
    mix = mixture(filled[:, :column] * capacity_bytes_per_s[:, None], past, allowed)
    row_period = _row_periods(past, mix, step_s, periods, models)
    own = np.full(context.n_series, np.nan)
    if len(rows.jobs):
        leading = mix.share.argmax(axis=1)
        own = np.where(mix.share.max(axis=1) >= MIN_LEAD_SHARE, row_period[leading], np.nan)
    alone = np.flatnonzero(np.isnan(own))
    if alone.size > MAX_SCANNED_LINKS:
        tops = filled[alone].max(axis=1)
        alone = np.sort(alone[np.argsort(-tops, kind="stable")[:MAX_SCANNED_LINKS]])
    own[alone] = _found(models, context.until(column).rows(alone))
    sources = _Sources(
        use=filled,
        link_period=own / step_s,
        rows=rows.values,
        row_period=row_period / step_s,
        weight=mix.weight / capacity_bytes_per_s[:, None],
        background=mix.background / capacity_bytes_per_s,
        profile=moments_profile(filled, column),
    )
    return sources, mix


def _row_periods(
    rows: JobRows, mix: Mixture, step_s: float, periods: Mapping[JobId, Period], models: RoomModels
) -> FloatArray:
    """Period of each job row in seconds: the job's own where given, else what its traffic shows; NaN where none."""
    n = len(rows.jobs)
    given = np.array([periods[job].period_s if job in periods else np.nan for job in rows.jobs], np.float64)
    unknown = np.flatnonzero(np.isnan(given) & (mix.weight > 0.0).any(axis=0))
    if unknown.size > MAX_SCANNED_ROWS:
        size = rows.values[unknown].mean(axis=1)
        unknown = np.sort(unknown[np.argsort(-size, kind="stable")[:MAX_SCANNED_ROWS]])
    if unknown.size and rows.values.shape[1]:
        ones = np.zeros(n)
        seen = Context(
            rows.values, step_s, ("job_fabric_tx_bytes_per_s",) * n, np.arange(n, dtype=np.int32), ones, ones + np.inf
        )
        given[unknown] = _found(models, seen.rows(unknown))
    return given


def _found(models: RoomModels, context: Context) -> FloatArray:
    """Period of each row in seconds by the detector, each row alone; NaN where it abstains."""
    out = np.full(context.n_series, np.nan)
    if context.n_series == 0 or context.n_points < 2:
        return out
    alone = Context(
        context.values,
        context.step_s,
        context.metric,
        np.arange(context.n_series, dtype=np.int32),
        context.low,
        context.high,
    )
    for finding in models.detect_periods(alone):
        # A repetition too fast to be called a period still foretells the samples; the score decides whether it does.
        repeats_s = finding.period_s if np.isfinite(finding.period_s) else finding.candidate_s
        out[finding.group] = repeats_s
    return out


def _only(one: Score, able: NDArray[np.bool_]) -> Score:
    """A score that counts only for links that this way can speak about."""
    return replace(one, skill=np.where(able, one.skill, np.nan), use_loss=np.where(able, one.use_loss, np.inf))


def _choose(scores: list[Score]) -> tuple[NDArray[np.intp], tuple[Skill | None, ...]]:
    """Index into ``WAYS`` per link, -1 for climatology, and the skill that goes with it."""
    skills = np.stack([s.skill for s in scores])
    known = np.isfinite(skills)
    ranked = np.where(known, skills, -np.inf)
    least = np.where(scores[0].on_use, LEAST_USE_SKILL, LEAST_SKILL)
    # What a link has never shown its own rhythm cannot foresee either; where that is asked, the jobs need only beat
    # the two that know nothing.
    jobs, naive = ranked[WAYS.index(JOBS)], ranked[WAYS.index(PERSISTENCE)]
    trusted = scores[0].on_use & (jobs > LEAST_USE_SKILL) & (jobs >= naive)
    first = np.where(trusted, WAYS.index(JOBS), ranked.argmax(axis=0))
    served = np.where(np.take_along_axis(ranked, first[None], axis=0)[0] > least, first, -1)
    out: list[Skill | None] = []
    for link, way in enumerate(served.tolist()):
        if not known[:, link].any():
            out.append(None)
        elif way < 0:
            out.append(Skill(0.0, None, None, int(scores[0].scored[link])))
        else:
            out.append(_skill(scores[way], link, float(skills[way, link])))
    return served, tuple(out)


def _choose_path(scores: list[Score]) -> tuple[NDArray[np.intp], tuple[Skill | None, ...]]:
    """Index into ``WAYS`` per link of the way whose use loss is least, and its skill against persistence."""
    loss = np.stack([s.use_loss for s in scores])
    naive = WAYS.index(PERSISTENCE)
    best = np.where(loss.min(axis=0) < loss[naive], loss.argmin(axis=0), naive)
    out: list[Skill | None] = []
    for link, way in enumerate(best.tolist()):
        scored = bool(np.isfinite(scores[way].coverage80[link])) and loss[naive, link] > 0.0
        out.append(_skill(scores[way], link, 1.0 - float(loss[way, link] / loss[naive, link])) if scored else None)
    return best, tuple(out)


def _skill(score_: Score, link: int, skill: float) -> Skill:
    """One link's score as a value; coverage that was not scored is None."""
    coverage = [float(c[link]) for c in (score_.coverage80, score_.coverage95)]
    known = [c if np.isfinite(c) else None for c in coverage]
    return Skill(skill, known[0], known[1], int(score_.scored[link]))
