"""Autocorrelation of many gappy series at once, and its value between the samples."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]

CHUNK_ROWS = 256
"""Rows per transform: the work arrays of one chunk stay in the processor's cache."""
CLIP_SD = 5.0
"""Standardised values are held to this many standard deviations, so that one checkpoint does not own the correlation."""
FLAT_RATIO = 1e-7
"""A row whose spread is below this share of its level is constant to float32 arithmetic."""
LANCZOS_A = 4
"""Half width in samples of the interpolation window."""


def fast_length(n: int) -> int:
    """The least length >= ``n`` with only the factors 2, 3 and 5, which the transform handles best."""
    best = 1 << max(n - 1, 1).bit_length()
    five = 1
    while five < best:
        three = five
        while three < best:
            rest = -(-n // three)
            best = min(best, three * (1 << max(rest - 1, 0).bit_length()))
            three *= 3
        five *= 5
    return best


def standardise(values: Floats) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Rows without their linear trend, in standard deviations, 0 where missing; and where a value was present.

    Args:
        values: (n_rows, n_points), NaN where nothing was observed.

    Returns:
        (n_rows, n_points) float32 and the mask of the same shape. Constant and near-empty rows are all 0.
    """
    present = np.isfinite(values)
    gappy = not present.all()
    count = present.sum(axis=1) if gappy else np.full(values.shape[0], values.shape[1])
    divisor = np.maximum(count, 1)[:, None]
    filled = np.where(present, values, 0.0) if gappy else values
    level = filled.sum(axis=1, keepdims=True) / divisor
    # Centring before the cast keeps the digits that float32 would lose on large levels.
    y = (filled - level).astype(np.float32)
    t = np.linspace(-1.0, 1.0, values.shape[1], dtype=np.float32)
    if gappy:
        weight = present.astype(np.float32)
        y *= weight
        t_centred = (t - (weight @ t)[:, None] / divisor.astype(np.float32)) * weight
        slope = np.einsum("nt,nt->n", y, t_centred) / np.maximum(np.einsum("nt,nt->n", t_centred, t_centred), 1e-9)
        y -= slope[:, None] * t_centred
    else:
        y -= (y @ t / np.maximum(t @ t, 1e-9))[:, None] * t
    sd = np.sqrt(np.einsum("nt,nt->n", y, y)[:, None] / divisor)
    alive = (sd > np.maximum(FLAT_RATIO * np.abs(level), np.finfo(np.float32).tiny)) & (count >= 4)[:, None]
    y *= np.where(alive, 1.0 / np.where(alive, sd, 1.0), 0.0).astype(np.float32)
    np.clip(y, -CLIP_SD, CLIP_SD, out=y)
    return y, present


def acf_batch(values: Floats, max_lag: int) -> NDArray[np.float32]:
    """Autocorrelation of each row at lags 0..max_lag, corrected lag by lag for the pairs that gaps take away.

    Args:
        values: (n_rows, n_points), NaN where nothing was observed.
        max_lag: the greatest lag in points, below n_points.

    Returns:
        (n_rows, max_lag + 1) float32. Constant and near-empty rows are NaN; a lag without pairs is 0.
    """
    n_rows, n_points = values.shape
    max_lag = min(max_lag, n_points - 1)
    out = np.empty((n_rows, max_lag + 1), dtype=np.float32)
    length = fast_length(n_points + max_lag)
    full = (n_points - np.arange(max_lag + 1)).astype(np.float32)
    for start in range(0, n_rows, CHUNK_ROWS):
        y, present = standardise(values[start : start + CHUNK_ROWS])
        sums = _self_products(y, length, max_lag)
        sums[:, :] /= full
        gappy = np.flatnonzero(~present.all(axis=1))
        if gappy.size:
            pairs = np.rint(_self_products(present[gappy].astype(np.float32), length, max_lag))
            sums[gappy] = np.where(pairs >= 1, sums[gappy] * full / np.maximum(pairs, 1), 0)
        power = sums[:, :1].copy()
        flat = power <= 0
        np.divide(sums, np.where(flat, 1, power), out=out[start : start + CHUNK_ROWS])
        out[start : start + CHUNK_ROWS][flat[:, 0]] = np.nan
    return out


def _self_products(y: NDArray[np.float32], length: int, max_lag: int) -> NDArray[np.float32]:
    spectrum = np.fft.rfft(y, length, axis=1)
    power = spectrum.real**2
    power += spectrum.imag**2
    return np.asarray(np.fft.irfft(power, length, axis=1)[:, : max_lag + 1], dtype=np.float32)


def upsample_acf(acf: Floats, factor: int) -> NDArray[np.float64]:
    """Autocorrelation between the samples, by a windowed sinc.

    Args:
        acf: (n_rows, n_lags), even about lag 0.
        factor: points per lag in the answer.

    Returns:
        (n_rows, (n_lags - 1) * factor + 1): column ``i`` is lag ``i / factor``.
    """
    n_lags = acf.shape[1]
    # White noise adds a spike at lag 0 alone, which would ring into its neighbours; a smooth top replaces it.
    x = acf.astype(np.float64, copy=True)
    if n_lags > 2:
        x[:, 0] = np.clip(2 * x[:, 1] - x[:, 2], x[:, 1], 1.0)
    a = LANCZOS_A
    padded = np.concatenate([x[:, a:0:-1], x, np.repeat(x[:, -1:], a, axis=1)], axis=1)
    out = np.empty((x.shape[0], (n_lags - 1) * factor + 1))
    out[:, ::factor] = x
    for phase in range(1, factor):
        offset = phase / factor
        taps = np.arange(-a + 1, a + 1) - offset
        weight = np.sinc(taps) * np.sinc(taps / a)
        weight /= weight.sum()
        total = np.zeros((x.shape[0], n_lags - 1))
        for tap, w in zip(range(-a + 1, a + 1), weight, strict=True):
            total += w * padded[:, a + tap : a + tap + n_lags - 1]
        out[:, phase::factor] = total
    return out
