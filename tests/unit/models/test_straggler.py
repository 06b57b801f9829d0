"""Members that fall behind their peers are told; differences that the group shares, or that are small, are not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.straggler import LEAST_MEMBERS, find_stragglers, over_peers, straggler_alarms


def _group(seed: int, members: int = 8, readings: int = 120, noise: float = 0.02) -> np.ndarray:
    random = np.random.default_rng(seed)
    shared = np.exp(0.3 * np.sin(np.arange(readings) / 7.0))
    return shared * np.exp(noise * random.standard_normal((members, readings)))


@pytest.mark.parametrize("seed", range(6))
def test_a_group_that_swings_together_has_no_straggler(seed: int) -> None:
    """What all do at once cancels, however large."""
    assert find_stragglers(_group(seed)) == []


def test_who_fell_behind_is_told_with_its_beginning_and_size() -> None:
    """A lasting 25 % is told as that member's alone, since about the reading at which it began."""
    cost = _group(1)
    cost[5, 80:] *= 1.25
    (one,) = find_stragglers(cost)
    assert (one.member, one.jumped) == (5, True)
    assert abs(one.since - 80) <= 2
    assert one.called_at - 80 < 10
    assert one.ratio == pytest.approx(0.25, abs=0.05)


def test_who_was_always_behind_is_told_so() -> None:
    """A member that stands behind from the first reading on is told, and not as one that fell."""
    cost = _group(2)
    cost[3] *= 1.3
    (one,) = find_stragglers(cost)
    assert (one.member, one.jumped, one.since) == (3, False, 0)


def test_who_recovered_is_no_straggler() -> None:
    """Only what still holds at the last reading counts."""
    cost = _group(3, readings=200)
    cost[2, 60:130] *= 1.4
    assert find_stragglers(cost) == []
    assert straggler_alarms(cost)[2, 60:75].any()


def test_half_of_a_group_is_no_straggler() -> None:
    """Where half of the members do other work nobody is the odd one."""
    cost = _group(4)
    cost[:4] *= 2.0
    assert find_stragglers(cost) == []


def test_one_long_reading_is_no_straggler() -> None:
    """A checkpoint of one member, however long, raises nothing."""
    cost = _group(5)
    cost[1, 70] *= 50.0
    assert find_stragglers(cost) == []
    assert not straggler_alarms(cost).any()


def test_too_few_members_or_readings_say_nothing() -> None:
    """Among three there is no telling; nor in the first readings."""
    cost = _group(6, members=LEAST_MEMBERS - 1)
    cost[0] *= 3.0
    assert find_stragglers(cost) == []
    assert find_stragglers(_group(6)[:, :5]) == []


@settings(deadline=None, max_examples=40)
@given(
    st.integers(0, 10_000),
    st.integers(0, 12),
    st.integers(0, 60),
    st.sampled_from([np.nan, 0.0, -1.0, np.inf, 1e-300, 1e300]),
)
def test_any_readings_are_lived_with(seed: int, members: int, readings: int, odd: float) -> None:
    """Holes, zeros, infinities and extremes raise nothing; what is told is finite and of a member of the group."""
    random = np.random.default_rng(seed)
    cost = np.exp(random.standard_normal((members, readings)))
    cost[random.random(cost.shape) < 0.3] = odd
    for one in find_stragglers(cost):
        assert 0 <= one.member < members
        assert 0 <= one.since <= one.called_at < readings
        assert one.ratio > 0.0
    assert straggler_alarms(cost).shape == cost.shape


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 1000), st.floats(1e-6, 1e6))
def test_units_do_not_matter(seed: int, scale: float) -> None:
    """Seconds or milliseconds: the same members are told."""
    cost = _group(seed)
    cost[4, 70:] *= 1.3
    assert [one.member for one in find_stragglers(cost * scale)] == [one.member for one in find_stragglers(cost)]


def test_over_peers_needs_four() -> None:
    """A moment with fewer than four readings has no median to compare with."""
    cost = np.ones((5, 3))
    cost[:2, 1] = np.nan
    assert np.isnan(over_peers(cost)[:, 1]).all()
    assert (over_peers(cost)[:, 0] == 0.0).all()


def test_a_change_inside_of_the_peers_spread_is_no_straggler() -> None:
    """A member that falls back by less than its peers differ among each other is not the odd one."""
    cost = _group(7) * np.array([0.5, 0.7, 0.85, 1.0, 1.0, 1.2, 1.5, 2.0])[:, None]
    cost[3, 80:] *= 1.3
    assert find_stragglers(cost) == []
