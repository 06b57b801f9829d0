"""A lasting change of the step time is called soon, and nothing else is."""

import numpy as np
import pytest

from models.step_jump import find_jumps


def steps(n=200, noise=0.02, jobs=8, seed=1):
    return 1.5 * np.exp(noise * np.random.default_rng(seed).normal(size=(jobs, n)))


def test_a_tenth_slower_is_called_within_ten_steps_in_every_job():
    """The jump is named with the step it began at, and how much slower it is."""
    step_s = steps()
    step_s[:, 120:] *= 1.10
    jumps = find_jumps(step_s)
    assert sorted(jump.series for jump in jumps) == list(range(8))
    for jump in jumps:
        assert 120 <= jump.called_at < 130
        assert abs(jump.at - 120) <= 2
        assert jump.ratio == pytest.approx(1.10, abs=0.03)
        assert jump.before_s == pytest.approx(1.5, rel=0.02)


def test_a_job_that_becomes_faster_is_called_with_a_ratio_below_one():
    """After a repair the new pace becomes the usual one."""
    step_s = steps()
    step_s[:, 100:] *= 0.8
    assert {(jump.series, jump.ratio < 0.85) for jump in find_jumps(step_s)} == {(job, True) for job in range(8)}


def test_a_change_and_its_recovery_are_two_changes():
    """Slow for sixty steps, then as before."""
    step_s = steps(300, 0.01)
    step_s[:, 120:180] *= 1.3
    ratios = {job: [round(j.ratio, 1) for j in find_jumps(step_s) if j.series == job] for job in range(8)}
    assert all(found == [1.3, 0.8] for found in ratios.values()), ratios


def test_long_single_steps_raise_nothing():
    """Checkpoints every 20th step, up to six times as long, two in a row."""
    step_s = steps(2000, 0.01)
    step_s[:, 19::20] *= 6.0
    step_s[:, 20::20] *= 3.0
    assert find_jumps(step_s) == []


def test_noise_slow_drift_and_constants_raise_nothing():
    """Nothing lasting happened."""
    assert find_jumps(steps(5000, 0.03)) == []
    assert find_jumps(steps(5000, 0.01) * np.exp(np.linspace(0, 0.3, 5000))) == []
    assert find_jumps(np.full((3, 500), 2.0)) == []


def test_a_shift_too_small_to_matter_raises_nothing():
    """Three per cent is seen clearly in a quiet job and still is no alarm."""
    step_s = steps(400, 0.002)
    step_s[:, 200:] *= 1.03
    assert find_jumps(step_s) == []


@pytest.mark.parametrize("bad", [np.nan, 0.0, -1.0])
def test_steps_that_are_no_time_are_passed_over(bad):
    """Gaps neither hide a jump nor make one."""
    step_s = steps(200, 0.01)
    step_s[:, ::7] = bad
    assert find_jumps(step_s) == []
    step_s[:, 120:] *= 1.2
    assert {jump.series for jump in find_jumps(step_s)} == set(range(8))


def test_too_few_steps_give_no_answer():
    """A young job has no usual pace."""
    step_s = steps(20, 0.0)
    step_s[:, 10:] *= 3
    assert find_jumps(step_s) == []
    assert find_jumps(np.empty((0, 50))) == []
    assert find_jumps(np.empty((4, 0))) == []
