"""Conformal calibration with delayed feedback: a forecast's spread set by the errors that its forecaster made lately.

The score of lead ``h`` becomes known ``h`` steps after a forecast, so only past (origin, lead) pairs whose truth lies at
or before the cutoff are used. Scores are pooled over the rows of one class (same job, same metric), because a single
row shows too few independent errors. Two moves, both shrunk towards none where the evidence is thin:

1. each half of the forecast is stretched about its median by the factor that would have cost least pinball loss;
2. the two outermost levels are shifted by the matching quantile of their own past errors (conformalized quantile
   regression, Romano, Patterson and Candes 2019), per class and bucket of leads.

The first serves the deciles: on counters that stand still most of the time a pure coverage rule would squeeze the
forecast to nothing. The second serves the 95 % interval, whose ends few past samples can place.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from models.quantiles import LEVEL_ARRAY, MEDIAN, Floats, sample_quantiles

STRETCHES: tuple[float, ...] = (0.85, 0.92, 1.0, 1.15, 1.3, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0)
STRETCH_PRIOR = 60.0
"""Past forecasts of a class at which half of its own wanted stretch (in logarithm) is applied; the rest is its job's."""
JOB_PRIOR = 24.0
"""Past forecasts of a job, over all of its metrics, at which half of the stretch that suits them all is applied."""
SHIFT_PRIOR = 30.0
"""Scores of a class and bucket at which half of the wanted shift is applied."""
COVERAGE_COST = 0.06
"""A stretch may cost this share more loss than the cheapest one if the interval then covers what it claims."""
INDEPENDENT_LEADS = 12
"""Leads of one forecast that count as independent errors, at most."""
NOMINAL_MISS = 0.1
"""Share of truths that lie beyond either end of the 80 % interval."""
LEAST_MISS = 0.06
"""Share of misses that is asked for at least, however few scores there are."""
TENTH, NINETIETH = 1, MEDIAN - 2
"""Where the ends of the 80 % interval lie in the lower and in the upper half."""
LOWER, UPPER = slice(0, MEDIAN), slice(MEDIAN + 1, len(LEVEL_ARRAY))
TAILS = (0, len(LEVEL_ARRAY) - 1)
TAIL_LEVELS = (0.01, 0.99)
"""Quantile of past scores asked for at the outermost levels (0.025 and 0.975). Leads and rows err together, so that a
few hundred scores are worth a few dozen, and the nominal quantile of so few covers less of what comes next."""


def lead_buckets(horizon: int) -> NDArray[np.intp]:
    """(horizon,) bucket number of each lead: near, middle, far, with edges at a twelfth and a third of the horizon."""
    lead = np.arange(1, horizon + 1)
    number = (lead > max(1.0, horizon / 12)).astype(np.intp) + (lead > max(2.0, horizon / 3)).astype(np.intp)
    result: NDArray[np.intp] = np.unique(number, return_inverse=True)[1]
    return result


def calibrate(
    cube: Floats,
    past: Floats,
    truth: Floats,
    rows: NDArray[np.intp],
    bucket: NDArray[np.intp],
    owner: NDArray[np.intp] | None = None,
) -> Floats:
    """The cube with its spread set by past errors; quantiles stay in order.

    Args:
        cube: (n, horizon, n_levels) the forecast to calibrate.
        past: (n_origins, n, horizon, n_levels) what the same forecaster said at past origins.
        truth: (n_origins, n, horizon) what came; NaN where missing or not known yet at the cutoff.
        rows: (n,) class number of each row.
        bucket: (horizon,) bucket number of each lead.
        owner: (n,) number of each row's job, from which a class with little evidence borrows; one job when None.
    """
    return calibrate_both(cube, past, truth, rows, bucket, owner)[0]


def calibrate_both(
    cube: Floats,
    past: Floats,
    truth: Floats,
    rows: NDArray[np.intp],
    bucket: NDArray[np.intp],
    owner: NDArray[np.intp] | None = None,
    past_bucket: NDArray[np.intp] | None = None,
) -> tuple[Floats, Floats]:
    """The cube and the past cubes, both with the spread that the past errors ask for; arguments as ``calibrate``.

    ``past_bucket`` (n_past_leads,) tells the buckets of the past cubes' leads where only some leads were tried.
    """
    past_bucket = bucket if past_bucket is None else past_bucket
    factor = stretch_factors(past, truth, rows, owner)
    cube, past = stretch(cube, factor[rows]), stretch(past, factor[rows])
    scale = row_scale(past)
    shift = tail_shifts(past, truth, rows, past_bucket, scale)[rows]
    for said, leads in ((cube, bucket), (past, past_bucket)):
        said[..., TAILS] += shift[:, leads] * scale[:, None, None]
        said.sort(axis=-1)
    return cube, past


def stretch(cube: Floats, factor: Floats) -> Floats:
    """(..., n, horizon, n_levels) with each row's lower and upper half scaled about the median by ``factor`` (n, 2)."""
    middle = cube[..., MEDIAN : MEDIAN + 1]
    result = cube - middle
    result[..., LOWER] *= factor[:, 0, None, None]
    result[..., UPPER] *= factor[:, 1, None, None]
    result += middle
    return result


def stretch_factors(
    past: Floats, truth: Floats, rows: NDArray[np.intp], owner: NDArray[np.intp] | None = None
) -> Floats:
    """(n_classes, 2) factor for the lower and the upper half, 1 where nothing is known.

    A class is believed as far as it has past forecasts of its own; the rest of its factor is the one that suits all
    classes of its job, each counted by the share of its own loss that a factor costs or saves.
    """
    owner = np.zeros(rows.size, np.intp) if owner is None else owner
    n_classes = int(rows.max()) + 1
    thin = max(1, past.shape[2] // INDEPENDENT_LEADS)
    # Neighbouring leads err together, so every few of them tell as much as all.
    past, truth = past[:, :, ::thin], truth[:, :, ::thin]
    scale = row_scale(past)[None, :, None]
    error = (truth - past[..., MEDIAN]) / scale
    known = np.isfinite(error)
    job = np.zeros(n_classes, np.intp)
    job[rows] = owner
    in_class = (rows[:, None] == np.arange(n_classes)).astype(np.float64)
    at_origin = known.any(axis=2) @ in_class  # (r, n_classes) past forecasts
    forecasts = at_origin.sum(axis=0)
    count = np.bincount(rows, known.sum(axis=(0, 2)), n_classes).astype(np.float64)
    of_job = np.bincount(job, forecasts)[job]
    own_trust, job_trust = forecasts / (forecasts + STRETCH_PRIOR), of_job / (of_job + JOB_PRIOR)
    # Split conformal prediction with n scores covers as asked at the level (1 - miss)(n + 1) / n. Rows err together, so
    # that only the points of one row count as independent.
    fewer = min(1.0, INDEPENDENT_LEADS / past.shape[2])
    independent = fewer * np.bincount(job, count)[job] / np.bincount(owner)[job]
    target = np.maximum(NOMINAL_MISS - (1.0 - NOMINAL_MISS) / np.maximum(independent, 1.0), LEAST_MISS)
    factors = np.ones((n_classes, 2))
    for side, part in enumerate((LOWER, UPPER)):
        offset = (past[..., part] - past[..., MEDIAN : MEDIAN + 1]) / scale[..., None]
        level = LEVEL_ARRAY[part]
        cost = np.empty((len(STRETCHES), past.shape[0], n_classes))
        missed = np.empty((len(STRETCHES), n_classes))
        for k, wide in enumerate(STRETCHES):
            miss = error[..., None] - wide * offset
            loss = np.maximum(level * miss, (level - 1.0) * miss).sum(axis=-1)
            cost[k] = np.where(known, loss, 0.0).sum(axis=2) @ in_class
            past_end = miss[..., TENTH] < 0 if part is LOWER else miss[..., NINETIETH] > 0
            missed[k] = np.bincount(rows, (past_end & known).sum(axis=(0, 2)), n_classes)
        # One unusual moment must not decide: each past origin and class counts by the share of its own loss.
        plain = cost[STRETCHES.index(1.0)]
        relative = (at_origin * cost / np.where(plain > 0, plain, 1.0)).sum(axis=1)
        shared, shared_missed, shared_count = (_by_job(part, job) for part in (relative, missed, count[None]))
        own_wish = _wished(cost.sum(axis=1), missed / np.maximum(count, 1), target)
        job_wish = _wished(shared, shared_missed / np.maximum(shared_count, 1), target)
        factors[:, side] = np.exp(own_trust * own_wish + (1.0 - own_trust) * job_trust * job_wish)
    return factors


def _by_job(values: Floats, job: NDArray[np.intp]) -> Floats:
    """(k, n_classes) -> (k, n_classes): the sum over all classes of each class's job."""
    return np.stack([np.bincount(job, row)[job] for row in values])


def _wished(cost: Floats, missed: Floats, target: Floats) -> Floats:
    """(n,) logarithm of the stretch whose share of misses is nearest to the target among those that cost little.

    Args:
        cost: (n_stretches, n) loss.
        missed: (n_stretches, n) share of truths beyond the tenth or the ninetieth percentile.
        target: (n,) share wanted.
    """
    stretches = np.log(np.asarray(STRETCHES))
    allowed = cost <= (1.0 + COVERAGE_COST) * cost.min(axis=0) + 1e-12
    away = np.abs(missed - target) + 1e-6 * np.abs(stretches)[:, None]
    result: Floats = stretches[np.argmin(np.where(allowed, away, np.inf), axis=0)]
    return result


def row_scale(past: Floats) -> Floats:
    """(n,) unit in which errors of a row are compared with errors of its class: typical half-width of its forecasts."""
    width = (past[..., -2] - past[..., 1]).mean(axis=(0, 2)) / 2
    typical = np.abs(past[..., MEDIAN]).mean(axis=(0, 2))
    result: Floats = np.maximum(width, 1e-6 * typical + 1e-12)
    return result


def tail_shifts(past: Floats, truth: Floats, rows: NDArray[np.intp], bucket: NDArray[np.intp], scale: Floats) -> Floats:
    """(n_classes, n_buckets, 2) how far to move the outermost levels, in units of ``scale`` (n,)."""
    n_classes, n_buckets = int(rows.max()) + 1, int(bucket.max()) + 1
    error = (truth[..., None] - past[..., TAILS]) / scale[None, :, None, None]
    member = _members(rows)
    shifts = np.zeros((n_classes, n_buckets, 2))
    for b in range(n_buckets):
        part = error[:, :, bucket == b]
        part = np.concatenate([part, np.full_like(part[:, :1], np.nan)], axis=1)[
            :, member
        ]  # (r, n_classes, most, h, 2)
        scores = np.moveaxis(part, (1, 4), (0, 1)).reshape(n_classes, 2, -1)
        known = np.isfinite(part[..., 0])
        count, origins = known.sum(axis=(0, 2, 3)), known.any(axis=(2, 3)).sum(axis=0)
        # Leads of one forecast err together: a bucket seen from one origin only is half believed.
        trust = count / (count + SHIFT_PRIOR) * origins / (origins + 1.0)
        for k, level in enumerate(TAIL_LEVELS):
            wanted = sample_quantiles(scores[:, k], [level])[:, 0]
            shifts[:, b, k] = np.where(count > 0, trust * np.nan_to_num(wanted), 0.0)
    return shifts


def _members(rows: NDArray[np.intp]) -> NDArray[np.intp]:
    """(n_classes, most) the rows of each class, filled up with the number after the last row."""
    size = np.bincount(rows)
    member = np.full((size.size, int(size.max())), rows.size, np.intp)
    order = np.argsort(rows, kind="stable")
    first = np.cumsum(size) - size
    member[rows[order], np.arange(rows.size) - first[rows[order]]] = order
    return member
