"""Whether what repeats could be the echo of something faster than the sampling: a bound that an echo cannot pass.

A value that is the mean over ``w`` samples' time of something that repeats ``f`` times a sample keeps ``sinc(f w)`` of it.
What is seen to repeat every ``n`` samples either does, or it is an alias of ``k - 1/n`` or ``k + 1/n`` repeats a sample,
``k`` at least 1. No Fourier component of something that never falls below zero is larger than twice its mean (Fejer). So
a swing beyond ``2 |sinc((1 - 1/n) w)|`` of the mean proves that the samples see the repeat itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

COUNTED = ("port_", "job_fabric_", "nccl_")
"""Rates that come from counters: their mean over a sample is exact. A gauge's mean is over its exporter's interval, which
may be far shorter than a sample."""
COUNTED_MARGIN = 1.1
"""The bound is exact; a short window's mean is not."""
GAUGE_MARGIN = 1.8
POWER_MEAN_S = 1.0
"""A card's power is a mean over at most about this long."""
SEGMENT_CYCLES = 4.0
"""A rhythm keeps its phase for about so long, whatever its drift."""
HARMONICS = (1, 2, 3)
MOST_OFTEN = 6
"""Aliases of more repeats a sample than this are weaker than those of fewer."""


def proof(values: Floats, points: float, metrics: Sequence[str], step_s: float) -> float:
    """How far the rows' swings pass what an alias could show, above 1 being proof.

    Counters decide where there are any, by the best of them: they see all that passes. Among gauges the best metric
    decides, by its middle row, and it has to pass the bound further, since a gauge may be a mean over less than a sample.

    Args:
        values: (n_rows, n_points) of one job, each row alive.
        points: samples of the period.
        metrics: (n_rows,) catalogue names.
        step_s: spacing of the samples.
    """
    beyond = swing_over_bound(values, points, mean_over(metrics, step_s))
    counted = is_counted(metrics)
    if counted.any():
        return float(beyond[counted].max()) / COUNTED_MARGIN
    names = np.array(metrics)
    return max(float(np.median(beyond[names == name])) for name in set(metrics)) / GAUGE_MARGIN


def is_counted(metrics: Sequence[str]) -> NDArray[np.bool_]:
    """(n_rows,) which rows come from counters."""
    return np.array([name.startswith(COUNTED) for name in metrics], bool)


def mean_over(metrics: Sequence[str], step_s: float) -> Floats:
    """(n_rows,) over how many samples' time each row's values are means, at most."""
    return np.array([min(1.0, POWER_MEAN_S / step_s) if name.endswith("_watts") else 1.0 for name in metrics])


def swing_over_bound(values: Floats, points: float, over: Floats) -> Floats:
    """How large each row's swing with the period is, as a multiple of the largest that an alias could show.

    Args:
        values: (n_rows, n_points) never below zero, NaN where missing.
        points: samples of the period.
        over: (n_rows,) samples' time that a value is the mean of.

    Returns:
        (n_rows,) above 1 is proof; the best of the first harmonics that the samples resolve.
    """
    known = np.isfinite(values)
    count = np.maximum(known.sum(axis=1), 1)
    mean = np.where(known, values, 0.0).sum(axis=1) / count
    centred = np.where(known, values - mean[:, None], 0.0)
    variance = (centred**2).sum(axis=1) / count
    best = np.zeros(values.shape[0])
    for harmonic in HARMONICS:
        often = harmonic / points
        if often > 0.25 + 1e-9:
            break
        swing = _amplitude(centred, known, points, harmonic, variance) / np.maximum(mean, 1e-300)
        best = np.maximum(best, swing / (2.0 * alias_share(often, over)))
    return best


def alias_share(often: float, over: Floats) -> Floats:
    """(n_rows,) largest share of an amplitude that a mean keeps of an alias seen ``often`` times a sample."""
    order = np.arange(1, MOST_OFTEN + 1)[:, None]
    true = np.concatenate([order - often, order + often])
    return np.asarray(np.abs(np.sinc(true * over[None, :])).max(axis=0))


def _amplitude(centred: Floats, known: NDArray[np.bool_], points: float, harmonic: int, variance: Floats) -> Floats:
    """(n_rows,) amplitude at a harmonic, over stretches of a few cycles so that drift takes little of it."""
    n = centred.shape[1]
    pieces = max(1, int(n / (SEGMENT_CYCLES * points)))
    edge = np.linspace(0, n, pieces + 1).astype(np.intp)[:-1]
    wave = np.exp(-2j * np.pi * harmonic / points * np.arange(n))
    total = np.add.reduceat(centred * wave, edge, axis=1)
    seen = np.maximum(np.add.reduceat(known, edge, axis=1, dtype=np.float64), 1.0)
    # What chance alone would show in a stretch of this many values.
    square = 4.0 * np.abs(total / seen) ** 2 - 4.0 * variance[:, None] / seen
    return np.asarray(np.sqrt(np.maximum(square, 0.0).mean(axis=1)))
