"""Look-alike moments of links: nothing from the future, whole horizons, a short past."""

from __future__ import annotations

import numpy as np

from forecast.predict.ensembles import SCENARIOS
from forecast.predict.moments import moment_scenarios, moments_profile


def test_scenarios_foresee_a_burst_and_do_not_look_past_their_column() -> None:
    """What comes after the column changes nothing; a fractional rhythm's next burst is in nearly every scenario."""
    use = np.where((np.arange(300) % 13.7) < 5, 0.9, 0.1)[None]
    column = 250
    said = moment_scenarios(use, moments_profile(use, column), column, 6)
    other = use.copy()
    other[:, column:] = 0.5
    np.testing.assert_array_equal(said, moment_scenarios(other, moments_profile(other, column), column, 6))
    assert said.shape == (1, SCENARIOS, 6)
    truth = use[0, column : column + 6] > 0.5
    assert (np.abs((said[0] > 0.5).mean(axis=0) - truth) < 0.35).all()


def test_a_short_past_is_answered_as_persistence_would() -> None:
    """Too few moments: the last use with the moves seen, finite and of the right shape."""
    use = np.linspace(0, 1, 12)[None]
    said = moment_scenarios(use, moments_profile(use, 12), 12, 6)
    assert said.shape[0] == 1
    assert said.shape[2] == 6
    assert np.isfinite(said).all()
