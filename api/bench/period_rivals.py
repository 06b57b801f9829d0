"""What the estimator is measured against: the served answer and three plain ones that lose."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from features.frame import Context, JobFrame
from forecast.predict.rhythm import job_rhythm
from forecast.predict.room_models import default_models
from forecast.predict.types import Period
from models.period import active_rows, detect_periods
from models.period_acf import acf_batch, standardise
from telemetry.ids import JobId
from telemetry.jobs import JobView

Estimator = Callable[[Context], float]
Floats = NDArray[np.float64]
NONE = float("nan")
LEAST_PEAK = 0.3
"""Autocorrelation or share of power from which the plain estimators call a peak a period."""
FABRIC = {"port_tx_bytes_per_s": "job_fabric_tx_bytes_per_s", "port_rx_bytes_per_s": "job_fabric_rx_bytes_per_s"}
"""A host's ports are a job's fabric where the job has the host to itself."""
VIEW = JobView(JobId("slurm", "1"), ("node-0",), (), 0.0, 1e9)


def served(context: Context) -> float:
    """What the service says of a job with these rows: the detector behind the rules for idle jobs and changed paces."""
    cards = np.array([not name.startswith("port_") for name in context.metric])
    names = tuple(dict.fromkeys(context.metric))
    rows = np.stack(
        [_mean(context.values[[i for i, one in enumerate(context.metric) if one == name]]) for name in names]
    )
    zero = np.zeros(len(names))
    ours = tuple(FABRIC.get(name, name) for name in names)
    totals = Context(rows, context.step_s, ours, zero.astype(np.int32), zero, zero + np.inf)
    devices = context.rows(np.flatnonzero(cards))
    frame = JobFrame(VIEW, 0.0, 0.0, devices, (), totals)
    period = job_rhythm(frame, default_models(), 20).period
    return period.period_s if isinstance(period, Period) else NONE


def detector(context: Context) -> float:
    """The detector on the whole window."""
    found = detect_periods(context)
    return found[0].period_s if found else NONE


def fft_peak(context: Context) -> float:
    """The highest peak of the mean spectrum."""
    y = _alive(context)
    if y is None:
        return NONE
    power = (np.abs(np.fft.rfft(y, 4 * y.shape[1], axis=1)) ** 2).mean(axis=0)
    power[:8] = 0.0
    top = int(power.argmax())
    # A line of a spectrum padded fourfold is about four bins wide on each side.
    if power[max(0, top - 4) : top + 5].sum() < LEAST_PEAK * power.sum():
        return NONE
    return float(4 * y.shape[1] / top * context.step_s)


def acf_first_peak(context: Context) -> float:
    """The first peak of the mean autocorrelation that is high enough."""
    acf = _mean_acf(context)
    if acf is None:
        return NONE
    peak = np.flatnonzero((acf[1:-1] > acf[:-2]) & (acf[1:-1] >= acf[2:]) & (acf[1:-1] > LEAST_PEAK)) + 1
    peak = peak[peak >= 2]
    return float(peak[0]) * context.step_s if peak.size else NONE


def without_comb(context: Context) -> float:
    """The highest peak of the mean autocorrelation after its first zero, between the lags: no comb, no vote, no verdict."""
    acf = _mean_acf(context)
    if acf is None:
        return NONE
    below = np.flatnonzero(acf < 0)
    if not below.size or below[0] >= acf.size - 2:
        return NONE
    first = int(below[0])
    top = first + int(acf[first:-1].argmax())
    if acf[top] < LEAST_PEAK:
        return NONE
    bend = acf[top - 1] - 2 * acf[top] + acf[top + 1]
    return float(top + (0.5 * (acf[top - 1] - acf[top + 1]) / bend if bend < 0 else 0.0)) * context.step_s


ESTIMATORS: dict[str, Estimator] = {
    "served": served,
    "detector": detector,
    "no-comb": without_comb,
    "acf-first-peak": acf_first_peak,
    "fft-peak": fft_peak,
}


def _mean(rows: Floats) -> Floats:
    known = np.isfinite(rows)
    count = known.sum(axis=0)
    return np.asarray(np.where(count > 0, np.where(known, rows, 0.0).sum(axis=0) / np.maximum(count, 1), np.nan))


def _alive(context: Context) -> Floats | None:
    rows = active_rows(context.values, context.metric)
    return standardise(context.values[rows])[0].astype(np.float64) if rows.any() else None


def _mean_acf(context: Context) -> Floats | None:
    rows = active_rows(context.values, context.metric)
    if not rows.any():
        return None
    acf = acf_batch(context.values[rows], context.n_points // 2)
    acf = acf[np.isfinite(acf[:, 0])]
    return acf.mean(axis=0).astype(np.float64) if acf.shape[0] else None
