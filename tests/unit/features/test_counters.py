"""Counters that reset, dip, glitch and pause give honest growth."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from features.transforms.counters import growth, increase, rate, rates_on_grid
from telemetry.samples import Reason


def _counter(series, values, step_s=15.0):
    return series(np.arange(len(values)) * step_s, values, "port_tx_bytes_total", "n:mlx5_0:1")


def test_a_reset_counts_what_the_counter_shows(series):
    """After a restart from 0 the growth is the new value."""
    grown = growth(_counter(series, [1000, 2000, 300, 400]))
    assert grown.total.tolist() == [0, 1000, 1300, 1400]
    assert grown.resets == (30.0,)


def test_a_dip_waits_for_the_earlier_high(series):
    """A step back of less than 1 % adds nothing until the high is passed."""
    grown = growth(_counter(series, [10_000, 9_990, 9_995, 10_010]))
    assert grown.total.tolist() == [0, 0, 0, 10]
    assert (grown.dips, grown.resets) == ((15.0, 30.0), ())


def test_a_single_low_reading_is_a_glitch(series):
    """One reading far below that is followed by one at the old height is left out."""
    grown = growth(_counter(series, [5000, 5100, 0, 5200]))
    assert grown.total.tolist() == [0, 100, 200]
    assert (grown.glitches, grown.resets) == ((30.0,), ())


def test_a_last_drop_is_undecided(series):
    """The newest reading alone cannot tell a reset from a glitch: it gives no growth and no rate."""
    one = _counter(series, [5000, 5100, 0])
    assert growth(one).undecided
    assert increase(one) == 100
    assert rate(one).reason.tolist() == [Reason.NO_RATE, Reason.OK, Reason.NO_RATE]


def test_rate_is_per_second_and_missing_where_unknown(series):
    """Rates stand at their reading; missing readings keep their reason."""
    got = rate(_counter(series, [0, 30, np.nan, 90, 120]))
    np.testing.assert_array_equal(got.value, [np.nan, 2, np.nan, 2, 2])
    assert got.reason.tolist() == [Reason.NO_RATE, 0, Reason.NOT_FINITE, 0, 0]


def test_increase_needs_two_readings(series):
    """One reading has not grown by 0: its growth is unknown."""
    assert math.isnan(increase(_counter(series, [7])))
    assert math.isnan(increase(_counter(series, [])))


def test_slots_share_the_average_between_two_readings(series):
    """A counter read every 5 s gives the slots in between its average; rates follow slot edges."""
    one = series([0, 5, 10], [0, 50, 150])
    values, reason = rates_on_grid([one], 1.0, 10.0, 10)
    np.testing.assert_allclose(values, [[10.0] * 5 + [20.0] * 5])
    assert not reason.any()


def test_slots_that_straddle_readings_mix_their_rates(series):
    """A slot half before and half after a reading takes half of each rate."""
    values, _ = rates_on_grid([series([0, 1.5, 3], [0, 15, 45])], 1.0, 3.0, 3)
    np.testing.assert_allclose(values, [[10.0, 15.0, 20.0]])


def test_the_newest_rate_holds_for_less_than_two_spacings(series):
    """A counter read a moment before the end has a last value; a silent one has not."""
    values, _ = rates_on_grid([series([0, 1, 2], [0, 10, 20])], 1.0, 6.0, 6)
    np.testing.assert_array_equal(values, [[10, 10, 10, np.nan, np.nan, np.nan]])


def test_a_long_pause_stays_missing_also_between_two_edges(series):
    """Slots in a pause are missing, whether their edges are readings or not."""
    one = series([0, 1, 2, 20, 21, 22], [0, 1, 2, 20, 21, 22])
    fine, _ = rates_on_grid([one], 1.0, 22.0, 22)
    assert np.flatnonzero(~np.isnan(fine[0])).tolist() == [0, 1, 20, 21]
    coarse, _ = rates_on_grid([one], 18.0, 20.0, 1, max_gap_s=5.0)
    assert np.isnan(coarse).all()


def test_many_counters_at_once_equal_each_alone(series):
    """Counters with the same and other times, clean and not, give what each gives alone."""
    rng = np.random.default_rng(5)
    times = np.arange(40.0)
    rows = [series(times, np.cumsum(rng.random(40))) for _ in range(4)]
    rows.append(series(times, np.r_[np.cumsum(rng.random(20)), np.cumsum(rng.random(20))]))
    rows.append(series(times[::3] + 0.2, np.cumsum(rng.random(14))))
    rows.append(series([], []))
    together, reason = rates_on_grid(rows, 1.0, 39.0, 30)
    for row, one in enumerate(rows):
        alone, why = rates_on_grid([one], 1.0, 39.0, 30)
        np.testing.assert_array_equal(together[row], alone[0])
        np.testing.assert_array_equal(reason[row], why[0])
    assert not (together < 0).any()


def test_a_port_that_is_down_is_missing_with_its_reason(series):
    """Readings that are all missing say why, and never 0."""
    one = series([0, 1, 2], [np.nan] * 3)
    values, reason = rates_on_grid([one], 1.0, 2.0, 2)
    assert np.isnan(values).all()
    assert (reason == Reason.NOT_FINITE).all()


@pytest.mark.shared
def test_field_case_of_reset_dip_glitch_and_gap(series, shared_dir: Path):
    """The recorded counters grow by what really passed, and a ten minute pause is not written as points."""
    text = (shared_dir / "cases/11-counter-reset-and-dip/query_range.json").read_text()
    by_name = {}
    for one in json.loads(text)["data"]["result"]:
        at_s, value = zip(*one["values"], strict=True)
        by_name[one["metric"]["__name__"]] = series(map(float, at_s), map(float, value))
    a, b, c = (by_name[name] for name in ("a_reset_and_dip_total", "b_zero_glitch_total", "c_gap_total"))
    assert [increase(one) for one in (a, b, c)] == [15500, 40, 6000]
    assert (growth(a).resets, growth(a).dips) == ((1767225645.0,), (1767225690.0,))
    assert (growth(b).resets, growth(b).glitches) == ((), (1767225630.0,))
    assert growth(c).resets == ()
    end_s = float(c.at_s[-1])
    values, _ = rates_on_grid([c], 15.0, end_s, 41)
    assert np.flatnonzero(np.isnan(values[0])).tolist() == list(range(1, 40))
    (average,) = rate(c, max_gap_s=1e9).value[2:3]
    assert average == pytest.approx(5800 / 585)
    for one in (a, b, c):
        values, _ = rates_on_grid([one], 15.0, end_s, 60)
        assert not (values < 0).any()
