"""Prior and telemetry, merged as telemetry arrives: precision-weighted on the logarithm.

The prior is log-normal with its 80 % interval; what is observed is a sample of values of one job (step times, bytes of memory)
whose own scatter and whose bias against the quantity asked for both limit how much they can say. Normal updating on the
logarithm: Gelman et al., "Bayesian Data Analysis" (2013), section 2.5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forecast.priors.types import Figure

Z80 = 1.2815515655446004
MIN_SCATTER = 0.01
"""Observed values are never trusted more than this, on the logarithm: one value has no scatter to show."""


@dataclass(frozen=True, slots=True)
class Blended:
    """A figure after telemetry.

    Args:
        low: lower end of the 80 % interval.
        middle: median.
        high: upper end.
        prior_weight: share of the prior in the median, 1 before anything was seen, towards 0 as telemetry arrives.
        surprise: how many standard deviations of both the observed median lies from the prior's; NaN without values.
        because: a sentence with the numbers used.
    """

    low: float
    middle: float
    high: float
    prior_weight: float
    surprise: float
    because: str


def blend(
    prior: Figure, observed: NDArray[np.float64], *, values_per_independent: float = 1.0, floor_sd: float = 0.02
) -> Blended:
    """The prior and what was observed, together.

    Args:
        prior: a positive figure with its interval; an exact one is taken as sure to 2 %.
        observed: (n,) values in the prior's unit; those that are not finite and positive are left out.
        values_per_independent: how many successive values say as much as one independent one (autocorrelation).
        floor_sd: standard deviation, on the logarithm, that no number of values goes below: what is observed now is
            not exactly what will be later.

    Raises:
        ValueError: the prior is not positive, or a setting is not.
    """
    if not 0 < prior.low <= prior.middle <= prior.high or values_per_independent < 1 or floor_sd <= 0:
        raise ValueError(f"cannot blend {prior.name}: its interval must be positive and settings sensible")
    prior_sd = max(0.02, (math.log(prior.high) - math.log(prior.low)) / (2 * Z80))
    values = observed[np.isfinite(observed) & (observed > 0)]
    if values.size == 0:
        return Blended(prior.low, prior.middle, prior.high, 1.0, math.nan, "nothing observed yet; the prior alone")
    logs = np.log(values)
    centre = float(np.median(logs))
    # The median's scatter from the median absolute deviation, so that one stall does not move it.
    scatter = max(MIN_SCATTER, 1.4826 * float(np.median(np.abs(logs - centre))))
    independent = max(1.0, values.size / values_per_independent)
    few = 1.0 if values.size >= 8 else math.sqrt(8.0 / values.size)
    seen_sd = math.hypot(1.2533 * few * scatter / math.sqrt(independent), floor_sd)
    weight = seen_sd**-2 / (seen_sd**-2 + prior_sd**-2)
    middle = (1.0 - weight) * math.log(prior.middle) + weight * centre
    sd = (seen_sd**-2 + prior_sd**-2) ** -0.5
    surprise = abs(centre - math.log(prior.middle)) / math.hypot(seen_sd, prior_sd)
    # Where both disagree beyond what their spreads allow, the interval says so instead of averaging it away.
    sd *= max(1.0, surprise / 2.0)
    because = (
        f"{values.size} value(s) with median {math.exp(centre):.4g} (weight {weight:.0%}) and the prior "
        f"{prior.middle:.4g} ({prior.low:.4g} to {prior.high:.4g})"
    )
    return Blended(
        math.exp(middle - Z80 * sd), math.exp(middle), math.exp(middle + Z80 * sd), 1.0 - weight, surprise, because
    )
