"""Past origins inside a context: where forecasts would have been made, what came, and what each candidate lost."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from features.frame import Context
from models.metrics import quantile_loss
from models.quantiles import Floats

POINTS_BEFORE_AN_ORIGIN = 8
"""A past origin with fewer points behind it than this says nothing about a model."""
MANY_OWNERS, ROWS_FOR_A_CLASS = 8, 3
"""From this many owners on, with fewer rows of a metric each than this, evidence is pooled over owners."""
PRIOR_FORECASTS = 100.0
"""Past forecasts of a class at which a prior factor on a candidate's loss has faded to its square root."""
PRIOR_PAIRS = 24.0
"""Skill is shrunk towards 0 as if this many scored pairs had shown none."""
OWN_EVIDENCE = 0.3
"""How much of a blend weight is decided by the row alone; the rest by its class (same job, same metric)."""


def past_origins(n_points: int, horizon: int, most: int, *, spread: bool = True) -> list[int]:
    """Columns at which past forecasts are made, newest first; the newest ones are scored on their near leads only.

    Args:
        n_points: of the context.
        horizon: steps ahead.
        most: how many at most.
        spread: over the later part of a long context, so that one unusual moment of a job is not in all of them. Rows of
            many owners have no such moment in common, and what suits them changes: only the newest origins count.
    """
    # A short context goes back to an origin whose whole horizon has been seen.
    least = max(POINTS_BEFORE_AN_ORIGIN, min(n_points * 3 // 5, n_points - horizon))
    stride = max(1, horizon // 3, (n_points - least) // most if spread else 1)
    columns = [n_points - stride * (k + 1) for k in range(most)]
    return [column for column in columns if column >= least]


def past_truth(values: Floats, columns: Sequence[int], leads: int | NDArray[np.intp]) -> Floats:
    """(n_origins, n, n_leads) what came after each origin; NaN beyond the cutoff. A number means all leads up to it."""
    leads = np.arange(1, leads + 1) if isinstance(leads, int) else leads
    padded = np.pad(values, ((0, 0), (0, int(leads[-1]))), constant_values=np.nan)
    return np.stack([padded[:, column + leads - 1] for column in columns])


def owners(context: Context) -> NDArray[np.intp]:
    """(n,) number of each row's job for the sharing of evidence: one for all where a class spans all owners."""
    numbers = np.unique(context.group, return_inverse=True)[1]
    result: NDArray[np.intp] = np.zeros_like(numbers) if _spans_owners(context) else numbers
    return result


def _spans_owners(context: Context) -> bool:
    """Whether most owners have only a row or two of a metric, as pods have."""
    groups = context.group.tolist()
    pairs = set(zip(groups, context.metric, strict=True))
    return len(set(groups)) >= MANY_OWNERS and context.n_series < ROWS_FOR_A_CLASS * len(pairs)


def row_classes(context: Context, quiet: NDArray[np.bool_] | None = None) -> NDArray[np.intp]:
    """(n,) number of each row's class: same job, same metric, and both quiet or both busy.

    Where most owners have only a row or two of a metric, as pods have, a class spans all owners.
    """
    state = [False] * context.n_series if quiet is None else quiet.tolist()
    seen: dict[tuple[int, str, bool], int] = {}
    keys = zip(owners(context).tolist(), context.metric, state, strict=True)
    return np.array([seen.setdefault(key, len(seen)) for key in keys], np.intp)


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


def faded_prior(prior: Floats, truth: Floats, classes: NDArray[np.intp]) -> Floats:
    """(k, n) the prior factors (k,), nearer to 1 the more past forecasts a row's class has.

    Args:
        prior: (k,) factor on each candidate's loss before any evidence.
        truth: (n_origins, n, horizon), NaN where not known.
        classes: (n,) class of each row.
    """
    forecasts = np.bincount(classes, np.isfinite(truth).any(axis=2).sum(axis=0))[classes]
    result: Floats = prior[:, None] ** (PRIOR_FORECASTS / (PRIOR_FORECASTS + forecasts))
    return result


def blend_weights(loss: Floats, classes: NDArray[np.intp], sharpness: float, prior: Floats) -> Floats:
    """(k, n, n_buckets) weights that sum to 1 over candidates: own loss and the class's, against persistence's.

    Args:
        loss: (k, n, n_buckets) summed loss at past origins; persistence first.
        classes: (n,) class of each row.
        sharpness: weight is the loss ratio to the minus this.
        prior: (k, n) factor on each candidate's loss; above 1 it must earn its weight.
    """
    own = log_ratio(loss, loss[:1])
    shared = np.moveaxis(class_mean(np.moveaxis(own, 1, 2), classes), 1, 2)
    ratio = np.exp(OWN_EVIDENCE * own + (1.0 - OWN_EVIDENCE) * shared)
    ratio = ratio * prior[:, :, None]
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
