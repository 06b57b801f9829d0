"""95 % intervals of counts and shares, for the tables of benchmarks."""

from __future__ import annotations

import math


def share_interval(count: int, n: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share (Journal of the American Statistical Association 22, 1927)."""
    z, p = 1.96, count / n
    middle, half = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    scale = 1.0 + z * z / n
    # At none and at all, rounding would leave the share itself just outside.
    return min((middle - half) / scale, p), max((middle + half) / scale, p)


def count_interval(count: int) -> tuple[float, float]:
    """Exact 95 % interval of a Poisson mean (Garwood, Biometrika 28, 1936)."""
    from scipy.stats import chi2

    low = float(chi2.ppf(0.025, 2 * count) / 2) if count else 0.0
    return low, float(chi2.ppf(0.975, 2 * count + 2) / 2)
