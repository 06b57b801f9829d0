"""The trial: every candidate asked at past origins inside the context, and weighed by what it lost there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from features.frame import Context
from models.base import Forecaster
from models.leads import Leads, at_past
from models.metrics import quantile_loss
from models.quantiles import Floats
from models.rolling import blend, blend_weights, bucket_losses, faded_prior, shrunk_skill
from models.rounds import Rounds

PRIORS: dict[str, float] = {"persistence": 1.3, "level": 1.6, "regime": 1.4}
"""Factor on the loss of models without a rhythm, so that a few lucky origins do not decide for them. Chosen on half of
the recorded runs."""
UNLIKE_WEIGHT = 0.1
"""Weight of a past origin at which the row was busy and is quiet now, or the other way round."""
MATURE_SHARE, MATURITY = 0.75, 8.0
"""A past origin that knew less than this share of today's points counts by the ratio to this power: candidates were less
able then."""
SHARPNESS = 12.0
"""Blend weight of a candidate is (its loss / persistence's loss) to the minus this: clear winners speak alone."""


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """Everything learnt at past origins, at the leads that were tried.

    Args:
        past: (r, k, n, n_leads, n_levels) what each candidate said.
        blended: (r, n, n_leads, n_levels) what their blend would have said.
        truth: (r, n, n_leads) what came.
        weight: (k, n, n_buckets) of each candidate in the blend.
        skill: (n,) of the blend, shrunk.
        scored: (n,) pairs that rests on.
    """

    past: Floats
    blended: Floats
    truth: Floats
    weight: Floats
    skill: Floats
    scored: NDArray[np.int64]


def ask(candidates: Sequence[Forecaster], context: Context, horizon: int) -> Floats:
    """(k, n, horizon, n_levels) answers of all candidates; one that is not finite or absurd gives persistence's."""
    return _believed([candidate.predict(context, horizon) for candidate in candidates], context)


def ask_past(
    candidates: Sequence[Forecaster], context: Context, columns: list[int], horizon: int, leads: Leads
) -> list[Floats]:
    """(k, n, n_leads, n_levels) for each column, with nothing after it known to any candidate.

    Leads without a truth yet are not asked; the last one asked stands in, and is never scored.
    """
    known = [leads[leads <= max(1, context.n_points - column)] for column in columns]
    said = [at_past(candidate, context, columns, horizon, known) for candidate in candidates]
    answers = []
    for r, column in enumerate(columns):
        cubes = _believed([answer[r] for answer in said], context.until(column))
        lacking = leads.size - known[r].size
        answers.append(np.concatenate([cubes, np.repeat(cubes[:, :, -1:], lacking, axis=2)], axis=2))
    return answers


@dataclass(frozen=True, slots=True, eq=False)
class PastAnswers:
    """What candidates said at past origins.

    Args:
        columns: the origins, newest first.
        said: (r, k, n, n_leads, n_levels).
        mature: (r,) weight of each by how much was known there.
    """

    columns: list[int]
    said: Floats
    mature: Floats


def past_answers(
    candidates: Sequence[Forecaster],
    context: Context,
    horizon: int,
    wanted: list[int],
    leads: Leads,
    rounds: Rounds | None,
    now: Floats,
) -> PastAnswers:
    """Answers at about the wanted past origins: remembered where somebody asked nearby, asked now elsewhere.

    What is asked now, at the cutoff itself too, is remembered for later rounds.

    Args:
        candidates: persistence first.
        context: what is known.
        horizon: steps ahead.
        wanted: past origins, newest first.
        leads: that are tried.
        rounds: what was said before; None asks at every origin.
        now: (k, n, horizon, n_levels) what they say at the cutoff.
    """
    if rounds is None:
        said = np.stack(ask_past(candidates, context, wanted, horizon, leads))
        return PastAnswers(wanted, said, maturity(wanted, context.n_points))
    question = rounds.question(candidates, context, horizon)
    known = [column for column in rounds.known_columns(question) if column < context.n_points]
    near = (context.n_points - wanted[0]) // 2
    columns = sorted({_nearest(column, known, near) for column in wanted}, reverse=True)
    answers: dict[int, NDArray[np.floating]] = {}
    for column in set(columns) & set(known):
        recalled = rounds.recall(question, column)
        if recalled is not None:
            answers[column] = recalled
    lacking = [column for column in columns if column not in answers]
    for column, cube in zip(lacking, ask_past(candidates, context, lacking, horizon, leads), strict=True):
        answers[column] = cube
        if column + int(leads[-1]) <= context.n_points:
            rounds.keep(question, column, cube)
    if not known or context.n_points - known[-1] >= near:
        rounds.keep(question, context.n_points, now[:, :, leads - 1])
    # An answer given in an earlier round knew as many points then as are known now.
    early = dict(zip(lacking, maturity(lacking, context.n_points), strict=True))
    mature = np.array([early.get(column, 1.0) for column in columns])
    return PastAnswers(columns, np.stack([answers[column] for column in columns]).astype(np.float64), mature)


def _nearest(column: int, known: list[int], near: int) -> int:
    """The known column nearest to this one, or this one where none is near."""
    best = min(known, key=lambda one: abs(one - column), default=column)
    return best if abs(best - column) <= near else column


def _believed(cubes: list[Floats], context: Context) -> Floats:
    """The cubes, stacked; persistence's in place of those that are not finite or absurd."""
    limit = absurd_beyond(context)
    for k in range(1, len(cubes)):
        bad = ~np.isfinite(cubes[k]).all(axis=(1, 2)) | (np.abs(cubes[k]).max(axis=(1, 2)) > limit)
        if bad.any():
            cubes[k] = np.where(bad[:, None, None], cubes[0], cubes[k])
    return np.stack(cubes)


def weigh(
    candidates: Sequence[Forecaster],
    past: Floats,
    truth: Floats,
    alike: NDArray[np.bool_],
    classes: NDArray[np.intp],
    bucket: NDArray[np.intp],
    mature: Floats,
) -> Trial:
    """Weigh every candidate by what it lost at past origins.

    Args:
        candidates: persistence first.
        past: (r, k, n, n_leads, n_levels) what they said.
        truth: (r, n, n_leads) what came, NaN where not known yet.
        alike: (r, n) whether the row was as quiet or busy as it is now.
        classes: (n,) class of each row.
        bucket: (n_leads,) bucket of each lead.
        mature: (r,) weight of each origin by how much was known there.
    """
    loss = bucket_losses(past, truth, bucket, np.where(alike, 1.0, UNLIKE_WEIGHT) * mature[:, None])
    prior = np.array([PRIORS.get(candidate.name, 1.0) for candidate in candidates])
    weight = blend_weights(loss, classes, SHARPNESS, faded_prior(prior, truth, classes))
    blended = np.stack([blend(said, weight, bucket) for said in past])
    known_truth = np.isfinite(truth)
    scored = known_truth.sum(axis=(0, 2))
    mine, naive = (
        np.einsum("rnh,r->n", np.where(known_truth, quantile_loss(said, truth), 0.0), mature)
        for said in (blended, past[:, 0])
    )
    return Trial(past, blended, truth, weight, shrunk_skill(mine, naive, scored, classes), scored)


def maturity(columns: Sequence[int], n_points: int) -> Floats:
    """(r,) weight of each past origin by the share of today's points that it knew."""
    result: Floats = np.minimum(1.0, np.asarray(columns, np.float64) / (MATURE_SHARE * n_points)) ** MATURITY
    return result


def absurd_beyond(context: Context) -> Floats:
    """(n,) magnitude beyond which a quantile is not believed: ten times the largest ever seen."""
    seen = np.where(np.isfinite(context.values), np.abs(context.values), 0.0).max(axis=1, initial=0.0)
    floor = np.where(np.isfinite(context.low), np.abs(context.low), 0.0)
    result: Floats = 10.0 * np.maximum(seen, floor) + 1e-12
    return result
