"""The period benchmark: its truths are right, its windows are what their tasks say, and plain ways lose on it."""

from __future__ import annotations

import numpy as np
import pytest

from api.bench.period import _rows, multiples
from api.bench.period_jobs import KIND, Sampling, line_of, seen
from api.bench.period_recorded import recorded
from api.bench.period_rivals import ESTIMATORS
from api.bench.period_tracking import follow
from api.bench.period_windows import aliased, chance, simulated
from api.bench.random_jobs import random_spec


def test_multiples_and_fractions_are_told_from_other_errors():
    ratio = np.array([1.0, 2.0, 1.97, 0.5, 0.34, 3.5, 1.3, np.nan, 15.9])
    assert multiples(ratio).tolist() == [False, True, True, True, True, False, False, False, True]


def test_a_window_is_the_mean_of_what_its_job_did():
    """Read without noise, jitter or loss, the port's row holds all the bytes of the time line."""
    random = np.random.default_rng(5)
    line = line_of(random_spec(random, 4.0, KIND, pauses=False), random, 200.0)
    how = Sampling(0.5, 200, 0.5, 0.0, 0.0, 0.0, 1, True)
    context = seen(line, how, 20.0, random)
    port = context.values[context.metric.index("port_tx_bytes_per_s")]
    bytes_sent = np.interp([20.0, 120.0], line.edge_s, line.total[:, -1])
    assert port.sum() * 0.5 == pytest.approx(bytes_sent[1] - bytes_sent[0], rel=0.01)


def test_windows_hold_what_their_task_says():
    for window in simulated(101, 14):
        n = window.context.n_points * window.context.step_s / window.true_s
        assert window.true_s >= 4 * window.context.step_s
        assert n >= 4.0
    assert all(np.isnan(w.true_s) for w in [*aliased(101, 7), *chance(101, 10)])


def test_the_same_seed_gives_the_same_windows():
    first, second = next(simulated(101, 1)), next(simulated(101, 1))
    assert np.array_equal(first.context.values, second.context.values, equal_nan=True)
    assert not np.array_equal(first.context.values[0, :50], next(simulated(102, 1)).context.values[0, :50])


def test_the_served_answer_beats_the_plain_ones():
    windows = list(simulated(101, 28))
    true_s = np.array([w.true_s for w in windows])
    near = {}
    for name in ("served", "fft-peak", "acf-first-peak"):
        answers = np.array([ESTIMATORS[name](w.context) for w in windows])
        near[name] = float((np.abs(answers / true_s - 1) <= 0.02).mean())
    assert near["served"] > max(near["fft-peak"], near["acf-first-peak"])
    assert near["served"] >= 0.8


def test_no_answer_counts_as_a_miss_and_an_answer_as_false_where_nothing_repeats():
    windows = list(simulated(101, 4))
    rows = {r.metric: r for r in _rows("sim", "x", windows, np.full(4, np.nan))}
    assert rows["within2"].value == 0.0
    assert rows["answered"].value == 0.0
    nothing = list(chance(101, 4))
    assert _rows("none", "x", nothing, np.array([1.0, np.nan, np.nan, np.nan]))[0].value == 0.25


def test_a_change_of_pace_is_followed_within_a_few_turns():
    found = [follow(ESTIMATORS["served"], 101, number) for number in range(4)]
    assert max(one.turns for one in found) <= 10
    assert max(one.flaps for one in found) <= 0.2


@pytest.mark.shared
def test_the_truth_of_recorded_runs_agrees_with_their_logs(shared_dir):
    """t6: 85 steps in 308 s, warm-up included, is 3.62 s; its steady part is a little faster."""
    notes: list[str] = []
    mine = [w for w in recorded(shared_dir / "data", False, notes) if w.task == "recorded-tuned"]
    true_s = np.array([w.true_s for w in mine if w.true_s > 1.0])
    assert true_s.size
    assert np.median(true_s) == pytest.approx(3.5, rel=0.04)
