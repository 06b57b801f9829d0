"""The next occurrence of a phase, from past ones alone."""

from __future__ import annotations

import numpy as np
import pytest

from models.phase_occurrences import STATISTICS, UNITS, Occurrences, rules
from models.phase_replay import replay
from models.phase_sequence import Next, Pace, Unforeseen, foresee


def _every_steps(n: int, seed: int = 0) -> Occurrences:
    """Saves every 50 steps of 2 s, 10 s long in the mean, whose pace wanders by a few per cent between saves."""
    random = np.random.default_rng(seed)
    gap_s = 100.0 * (1 + 0.01 * random.standard_normal(n))
    length_s = 10.0 * (1 + 0.2 * random.standard_normal(n))
    end_s = np.cumsum(gap_s + length_s)
    return Occurrences(end_s - length_s, end_s, 50.0 * np.arange(1, n + 1))


def test_the_rule_that_counts_what_is_constant_speaks_and_beats_plain_intervals() -> None:
    """Saves of uneven length come every so many steps: counting from end to start errs less than from start to start."""
    past = _every_steps(30)
    found = foresee(past, float(past.end_s[-1]))
    assert isinstance(found, Next)
    assert found.unit in ("steps", "gap")
    assert found.skill > 0.2
    assert abs(found.start_s - past.end_s[-1] - 100.0) < 3.0
    assert found.start_low_s < found.start_s < found.start_high_s
    assert found.length_low_s < found.length_s < found.length_high_s


def test_eighty_per_cent_of_starts_fall_inside_eighty_per_cent_intervals() -> None:
    """Over many jobs about four of five next starts lie inside the interval said before them."""
    inside = []
    for seed in range(40):
        played = replay(_every_steps(25, seed))
        good = np.isfinite(played.start_s).all(axis=1) & np.isfinite(played.actual_s)
        actual_s, said = played.actual_s[good], played.start_s[good]
        inside += list((actual_s >= said[:, 0]) & (actual_s <= said[:, 2]))
    assert 0.72 < np.mean(inside) < 0.9


def test_what_is_said_of_the_past_does_not_know_what_came_after() -> None:
    """The replay up to a place is the same whether or not later occurrences are known."""
    past = _every_steps(20)
    whole, part = replay(past), replay(Occurrences(past.start_s[:12], past.end_s[:12], past.step[:12]))
    np.testing.assert_array_equal(whole.start_s[:12], part.start_s)
    np.testing.assert_array_equal(whole.length_s[:12], part.length_s)
    np.testing.assert_array_equal(whole.rule[:12], part.rule)


@pytest.mark.parametrize("n", [0, 1, 2])
def test_fewer_than_three_say_nothing(n: int) -> None:
    """Two intervals are needed: one to know it, one to check it."""
    found = foresee(_every_steps(20).newest(n) if n else _every_steps(0), 1e6)
    assert isinstance(found, Unforeseen)
    assert found.why == "few"
    assert f"{n} seen" in found.reason


def test_uneven_intervals_say_nothing() -> None:
    """Intervals that vary over two decades tell no next start."""
    random = np.random.default_rng(1)
    start_s = np.cumsum(10.0 ** random.uniform(0, 3, 30))
    found = foresee(Occurrences(start_s, start_s + 0.5, np.full(30, np.nan)), float(start_s[-1]) + 0.5)
    assert isinstance(found, Unforeseen)
    assert found.why == "irregular"


def test_the_position_of_the_steps_moves_the_start() -> None:
    """A job that stood still since its last save saves later than its rhythm alone would say."""
    past = _every_steps(30)
    end_s, last = float(past.end_s[-1]), float(past.step[-1])
    on_time = foresee(past, end_s + 60.0, Pace(end_s + 60.0, last + 30, 2.0))
    delayed = foresee(past, end_s + 60.0, Pace(end_s + 60.0, last + 10, 2.0))
    assert isinstance(on_time, Next)
    assert isinstance(delayed, Next)
    assert on_time.unit == "steps"
    assert delayed.start_s - on_time.start_s == pytest.approx(40.0, rel=0.05)


def test_after_a_restart_the_next_save_is_at_the_next_multiple() -> None:
    """A job that saved every 50 steps and started again 30 steps past its last multiple but one saves after 20 more."""
    past = _every_steps(30)
    now_s = float(past.end_s[-1]) + 30.0
    found = foresee(past, now_s, Pace(now_s, float(past.step[-1]) - 20.0, 2.0))
    assert isinstance(found, Next)
    assert found.unit == "steps"
    assert found.start_s == pytest.approx(now_s + 20 * 2.0, abs=2.0)


def test_what_is_overdue_is_never_foreseen_in_the_past() -> None:
    """However late it is, a start said lies ahead; after several turns it has ceased."""
    past = _every_steps(20)
    end_s = float(past.end_s[-1])
    for later_s in (50.0, 99.0, 103.0, 120.0, 150.0, 250.0):
        found = foresee(past, end_s + later_s)
        assert isinstance(found, Next)
        assert end_s + later_s <= found.start_low_s <= found.start_s <= found.start_high_s
        assert found.overdue == (later_s >= 103.0)
    gone = foresee(past, end_s + 1000.0)
    assert isinstance(gone, Unforeseen)
    assert gone.why == "ceased"


def test_a_plain_interval_speaks_where_nothing_beats_it() -> None:
    """Where starts keep exact time, no rule is better than the interval, and the skill says so."""
    start_s = 100.0 * np.arange(1, 20)
    found = foresee(Occurrences(start_s, start_s + 5.0, np.full(19, np.nan)), 1906.0)
    assert isinstance(found, Next)
    assert found.unit == "seconds"
    assert found.skill == 0.0
    assert found.start_s == pytest.approx(2000.0, abs=1.0)


def test_every_rule_uses_what_lay_before_it() -> None:
    """Column k of each statistic is the statistic of the first k intervals."""
    past = _every_steps(9)
    found = rules(past)
    interval_s = np.diff(past.start_s)
    row = {name: UNITS.index("seconds") * len(STATISTICS) + STATISTICS.index(name) for name in STATISTICS}
    for k in range(1, 9):
        assert found.count[row["mean"], k] == pytest.approx(interval_s[:k].mean())
        assert found.count[row["last"], k] == pytest.approx(interval_s[k - 1])
        assert found.count[row["median"], k] == pytest.approx(np.median(interval_s[max(0, k - 5) : k]))
    assert np.isnan(found.count[:, 0]).all()
