"""Conformal calibration with delayed feedback: quantiles moved by the errors that the same forecaster made lately.

The score of lead ``h`` becomes known ``h`` steps after a forecast, so only past (origin, lead) pairs whose truth lies at
or before the cutoff are used. Scores are pooled over the rows of one class (same job, same metric) and over a bucket of
leads, because a single row shows too few independent errors to place a tail.

Source: conformalized quantile regression (Romano, Patterson, Candes 2019), here per level instead of per interval, and
shrunk towards no move where the evidence is thin.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from models.quantiles import MEDIAN, Floats, sample_quantiles

EVIDENCE_HALF = 30.0
"""With this many independent scores a level is moved half the way that the scores ask for."""


def lead_buckets(horizon: int) -> NDArray[np.intp]:
    """(horizon,) bucket number of each lead: near, middle, far, with edges at a twelfth and a third of the horizon."""
    lead = np.arange(1, horizon + 1)
    return (lead > max(1.0, horizon / 12)).astype(np.intp) + (lead > max(2.0, horizon / 3)).astype(np.intp)


def row_scale(past: Floats) -> Floats:
    """(n,) unit in which errors of a row are compared with errors of its class: typical half-width of its forecasts.

    Args:
        past: (n_origins, n, horizon, n_levels) past forecasts.
    """
    width = (past[..., -2] - past[..., 1]).mean(axis=(0, 2)) / 2
    typical = np.abs(past[..., MEDIAN]).mean(axis=(0, 2))
    result: Floats = np.maximum(width, 1e-6 * typical + 1e-12)
    return result


def level_shifts(
    past: Floats, truth: Floats, rows: NDArray[np.intp], bucket: NDArray[np.intp], scale: Floats
) -> Floats:
    """(n_classes, n_buckets, n_levels) how far to move each level, in units of ``scale``.

    Args:
        past: (n_origins, n, horizon, n_levels) what the forecaster said at past origins.
        truth: (n_origins, n, horizon) what came; NaN where missing or not known yet at the cutoff.
        rows: (n,) class number of each row.
        bucket: (horizon,) bucket number of each lead.
        scale: (n,) unit of each row's errors.
    """
    n_classes, n_buckets = int(rows.max()) + 1, int(bucket.max()) + 1
    error = (truth[..., None] - past) / scale[None, :, None, None]
    shifts = np.zeros((n_classes, n_buckets, past.shape[-1]))
    levels = _level_columns(past.shape[-1])
    for c in range(n_classes):
        of_class = error[:, rows == c]
        for b in range(n_buckets):
            scores = of_class[:, :, bucket == b].reshape(-1, past.shape[-1])
            scores = scores[np.isfinite(scores[:, 0])]
            if not scores.shape[0]:
                continue
            # Leads of one forecast err together: count a forecast's bucket as a few scores, not as many.
            origins = np.isfinite(truth[:, rows == c][:, :, bucket == b]).any(axis=(1, 2)).sum()
            trust = scores.shape[0] / (scores.shape[0] + EVIDENCE_HALF) * origins / (origins + 1.0)
            wanted = np.array([sample_quantiles(scores[:, k], [level])[0] for k, level in enumerate(levels)])
            shifts[c, b] = trust * wanted
    return shifts


def _level_columns(count: int) -> Floats:
    from models.quantiles import LEVEL_ARRAY

    return LEVEL_ARRAY[:count]


def calibrate(cube: Floats, past: Floats, truth: Floats, rows: NDArray[np.intp], bucket: NDArray[np.intp]) -> Floats:
    """The cube with every level moved by its own past errors; quantiles stay in order.

    Args:
        cube: (n, horizon, n_levels) the forecast to calibrate.
        past: (n_origins, n, horizon, n_levels) the same forecaster's past forecasts.
        truth: (n_origins, n, horizon), NaN where not known.
        rows: (n,) class of each row.
        bucket: (horizon,) bucket of each lead.
    """
    scale = row_scale(past)
    shifts = level_shifts(past, truth, rows, bucket, scale)
    moved = cube + shifts[rows][:, bucket] * scale[:, None, None]
    return np.sort(moved, axis=-1)
