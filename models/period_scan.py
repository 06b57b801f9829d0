"""A quick look at very many series, each alone: which repeat at all, and about how often. No vote and no verdict."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from models.period_acf import FLAT_RATIO, fast_length

CHUNK_ROWS = 512
SHORTEST_POINTS = 4.0
LONGEST_SHARE = 0.25
LEAST_PEAK = 0.35
"""Autocorrelation that a peak and its double need."""
LEAST_DIP = 0.1
"""Half a period away a series resembles itself this much less; what only drifts has no such dip."""
EARLIER_SHARE = 0.65
"""The first peak this near to the highest is the period; later ones are its multiples."""


@dataclass(frozen=True, slots=True, eq=False)
class Scan:
    """What a scan found, per series.

    Args:
        points: (n,) samples of its period, NaN where nothing repeats.
        score: (n,) autocorrelation there, 0 where nothing repeats.
    """

    points: NDArray[np.float32]
    score: NDArray[np.float32]


def scan_periods(values: NDArray[np.floating]) -> Scan:
    """About how often each series repeats, alone; some 20 us a series.

    A peak of the autocorrelation whose double is one too, between the lags by a parabola. Flat series are left at once.

    Args:
        values: (n, n_points); NaN counts as the mean.
    """
    n, n_points = values.shape
    points, score = np.full(n, np.nan, np.float32), np.zeros(n, np.float32)
    last = int(n_points * LONGEST_SHARE)
    if last <= SHORTEST_POINTS:
        return Scan(points, score)
    length = fast_length(n_points + 2 * last + 2)
    pairs = (n_points / (n_points - np.arange(2 * last + 2))).astype(np.float32)
    for start in range(0, n, CHUNK_ROWS):
        y = values[start : start + CHUNK_ROWS].astype(np.float32)
        alive = _centre(y)
        if not alive.size:
            continue
        spectrum = fft.rfft(y[alive], length, axis=1, workers=1, overwrite_x=True)
        power = spectrum.real**2
        power += spectrum.imag**2
        acf = fft.irfft(power, length, axis=1, workers=1, overwrite_x=True)[:, : 2 * last + 2]
        acf *= pairs / acf[:, :1]
        found, height = _first_peak(acf, last)
        points[start + alive], score[start + alive] = found, height
    return Scan(points, score)


def _centre(y: NDArray[np.float32]) -> NDArray[np.intp]:
    """Take the mean off in place, missing values to 0; rows that move."""
    if np.isnan(y.sum()):
        missing = np.isnan(y)
        count = np.maximum(y.shape[1] - missing.sum(axis=1, keepdims=True), 1)
        y[missing] = 0.0
        mean = y.sum(axis=1, keepdims=True) / count
        y -= mean
        y[missing] = 0.0
    else:
        mean = y.mean(axis=1, keepdims=True)
        y -= mean
    spread = np.sqrt(np.einsum("nt,nt->n", y, y) / y.shape[1])
    return np.flatnonzero(spread > np.maximum(10 * FLAT_RATIO * np.abs(mean[:, 0]), np.finfo(np.float32).tiny))


def _first_peak(acf: NDArray[np.float32], last: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Place and height of each row's first high peak whose double is high too; NaN and 0 where there is none."""
    rows = np.arange(acf.shape[0])
    inner = acf[:, 1 : last + 1]
    peak = (inner >= acf[:, :last]) & (inner > acf[:, 2 : last + 2])
    peak[:, : int(SHORTEST_POINTS) - 1] = False
    height = np.where(peak, inner, -1.0)
    top = height.max(axis=1)
    first = (height >= EARLIER_SHARE * top[:, None]).argmax(axis=1)
    lag = first + 1
    before, here, after = acf[rows, lag - 1], acf[rows, lag], acf[rows, lag + 1]
    bend = before - 2 * here + after
    place = lag + np.where(bend < 0, 0.5 * (before - after) / np.where(bend < 0, bend, 1.0), 0.0)
    around = np.clip(np.rint(2 * place).astype(np.intp)[:, None] + np.arange(-2, 3), 0, 2 * last + 1)
    near = acf[rows[:, None], around]
    second = 1 + near[:, 1:4].argmax(axis=1)
    left, tip, right = near[rows, second - 1], near[rows, second], near[rows, second + 1]
    turn = left - 2 * tip + right
    double = around[rows, second] + np.where(turn < 0, 0.5 * (left - right) / np.where(turn < 0, turn, 1.0), 0.0)
    dip = acf[rows, lag // 2]
    good = (top > 0) & (here >= LEAST_PEAK) & (tip >= LEAST_PEAK) & (dip <= here - LEAST_DIP)
    # The double says twice as finely where the peak lies.
    found = np.where(good, double / 2, np.nan).astype(np.float32)
    return found, np.where(good, here, 0.0).astype(np.float32)
