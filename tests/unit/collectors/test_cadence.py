"""How often a source is read."""

from __future__ import annotations

import itertools
from statistics import fmean, median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.cadence import Cadence, CadenceLimits


def play(cadence: Cadence, refresh_s: float | None, duration_s: float, n_targets: int = 1, start_s: float = 0.0):
    """Read a source that changes every ``refresh_s``; gives (times read, times kept)."""
    read, kept, last, at_s = [], [], None, start_s
    while at_s < start_s + duration_s:
        state = 0 if refresh_s is None else int((at_s + 0.037) / refresh_s)
        read.append(at_s)
        if cadence.observe(at_s, state != last):
            kept.append(at_s)
        last = state
        at_s += cadence.next_interval_s(at_s, n_targets)
    return read, kept


@pytest.mark.parametrize("refresh_s", [0.1, 0.25, 1.0, 5.0, 30.0])
def test_it_learns_the_sources_own_interval(refresh_s):
    cadence = Cadence()
    read, kept = play(cadence, refresh_s, 80 * refresh_s)
    assert cadence.refresh_s == pytest.approx(refresh_s, rel=0.1)
    late = 40 * refresh_s
    assert sum(at_s > late for at_s in read) <= 40 * 1.6
    assert sum(at_s > late for at_s in kept) >= 38  # no refresh is stepped over


def test_it_starts_fast_and_slows_down_where_nothing_changes():
    read, _ = play(Cadence(), 30.0, 25.0)
    gaps = [b - a for a, b in itertools.pairwise(read)]
    assert gaps[0] == pytest.approx(0.1)
    assert max(gaps) == pytest.approx(1.0)


def test_a_repeat_is_no_second_observation():
    cadence = Cadence(CadenceLimits(fixed_s=0.1))
    read, kept = play(cadence, 5.0, 100.0)
    assert len(read) > 900
    later = [at_s for at_s in kept if at_s > 20]
    gaps = [b - a for a, b in itertools.pairwise(later)]
    assert min(gaps) >= 4.8
    assert max(gaps) <= 5.7


def test_a_constant_source_is_observed_to_stay_once_a_second():
    _, kept = play(Cadence(), None, 60.0)
    gaps = [b - a for a, b in itertools.pairwise(kept)]
    assert max(gaps) <= 1.1
    assert min(gaps) >= 0.9


def test_many_targets_share_what_this_machine_can_do():
    limits = CadenceLimits(max_scrapes_per_s=100)
    cadence = Cadence(limits)
    play(cadence, 0.1, 30.0, n_targets=400)
    assert cadence.next_interval_s(30.0, 400) == 4.0


def test_a_fixed_interval_is_kept():
    cadence = Cadence(CadenceLimits(fixed_s=7.0))
    play(cadence, 1.0, 50.0)
    assert cadence.next_interval_s(50.0, 1000) == 7.0


def test_a_dead_source_is_tried_less_often_but_soon_enough():
    cadence = Cadence()
    waits = []
    for _ in range(8):
        cadence.failed()
        waits.append(cadence.next_interval_s(0.0, 1))
    assert waits[0] <= 1.0
    assert waits == sorted(waits)
    assert waits[-1] == 5.0
    cadence.observe(100.0, True)
    assert cadence.next_interval_s(100.0, 1) <= 1.0


def test_a_source_that_became_faster_is_followed():
    cadence = Cadence()
    play(cadence, 10.0, 200.0)
    play(cadence, 1.0, 400.0, start_s=1000.0)
    assert cadence.refresh_s == pytest.approx(1.0, rel=0.3)


@given(st.lists(st.floats(0.01, 1e4), min_size=1, max_size=40))
def test_the_refresh_is_the_mean_of_the_gaps_that_are_no_pauses(gaps_s):
    """After each reading it is that of the gaps known by then, to the last bit."""
    cadence = Cadence()
    at_s = 0.0
    cadence.observe(at_s, True)
    cadence.observe(at_s, True)
    for gap_s in gaps_s:
        at_s += gap_s
        cadence.observe(at_s, True)
        kept = list(cadence._gaps_s)
        assert cadence.refresh_s == fmean(gap for gap in kept if gap <= 2.5 * median(kept))
