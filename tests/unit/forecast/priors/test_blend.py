"""Prior and telemetry, merged."""

from __future__ import annotations

import math

import numpy as np
import pytest

from forecast.priors.blend import blend
from forecast.priors.types import Figure

PRIOR = Figure("step_time", "seconds", 2.0, 4.0, 8.0, "")


def test_telemetry_takes_over_as_it_arrives() -> None:
    """The weight of the prior falls, the interval narrows, the median moves to what is seen."""
    random = np.random.default_rng(0)
    seen = 3.0 * np.exp(0.05 * random.standard_normal(200))
    stages = [blend(PRIOR, seen[:n], values_per_independent=2.0) for n in (0, 1, 5, 50, 200)]
    weights = [stage.prior_weight for stage in stages]
    assert weights == sorted(weights, reverse=True)
    widths = [math.log(stage.high / stage.low) for stage in stages]
    assert widths[0] > widths[2] > widths[3]
    assert stages[-1].middle == pytest.approx(3.0, rel=0.02)


def test_no_number_of_values_makes_it_certain() -> None:
    """What is observed now is not exactly what will be later."""
    sure = blend(PRIOR, np.full(100_000, 4.0), floor_sd=0.05)
    assert math.log(sure.high / sure.low) > 2 * 0.05


def test_one_stall_does_not_move_it() -> None:
    """The median is used, not the mean."""
    calm = blend(PRIOR, np.full(20, 3.0))
    stalled = blend(PRIOR, np.append(np.full(20, 3.0), 900.0))
    assert stalled.middle == pytest.approx(calm.middle, rel=0.01)


def test_a_contradiction_widens_the_interval() -> None:
    """Telemetry far outside of a narrow prior is told, not averaged away."""
    narrow = Figure("step_time", "seconds", 3.9, 4.0, 4.1, "")
    agreeing, contradicting = blend(narrow, np.full(10, 4.0)), blend(narrow, np.full(10, 8.0))
    assert contradicting.surprise > 3 > agreeing.surprise
    assert math.log(contradicting.high / contradicting.low) > math.log(agreeing.high / agreeing.low)


def test_values_that_are_none_are_left_out() -> None:
    """NaN, infinite and non-positive values say nothing."""
    assert blend(PRIOR, np.array([np.nan, np.inf, 0.0, -1.0])).prior_weight == 1.0


def test_a_prior_that_is_not_positive_is_refused() -> None:
    """Its logarithm would not exist."""
    with pytest.raises(ValueError, match="step_time"):
        blend(Figure("step_time", "seconds", 0.0, 1.0, 2.0, ""), np.array([1.0]))
