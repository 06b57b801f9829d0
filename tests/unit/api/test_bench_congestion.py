"""The congestion benchmark: its cuts, its questions, its scores."""

from __future__ import annotations

import numpy as np
import pytest

from api.bench.congestion import run
from api.bench.congestion_data import Fabric, simulated_fabric
from api.bench.congestion_rivals import climatology, rivals, seasonal_states
from api.bench.congestion_scores import Scored, best_threshold, figures, leads_s
from api.bench.congestion_served import collect, trained
from api.bench.congestion_superposed import superpose
from api.bench.congestion_tasks import onset, own_period, tasks


def fabric_of(peak: np.ndarray) -> Fabric:
    n = peak.shape[0]
    return Fabric(tuple(f"s p{k}" for k in range(n)), peak * 1e9, peak, peak, np.zeros(n, np.int32), 5.0)


def test_no_bin_is_the_truth_of_two_parts() -> None:
    """Every part's origins speak of bins of that part only, from 315 s on."""
    fabric = simulated_fabric(0)
    seen: set[int] = set()
    for part in ("training", "middle", "scored"):
        mine = {int(t + k) for t in fabric.origins(part, 12) for k in range(1, 13)}
        assert not mine & seen
        seen |= mine
    assert fabric.origins("training", 1)[0] == 62
    assert (fabric.training_end, fabric.middle_end) == (432, 504)


def test_an_onset_needs_a_quiet_minute_and_valid_bins() -> None:
    """Asked only after twelve known quiet bins and before six known ones; yes when one of the six is hot."""
    peak = np.zeros((2, 720))
    peak[:, 100] = 0.9
    peak[1, 95] = np.nan
    truth = onset(fabric_of(peak), (peak >= 0.8) * 1.0 + np.where(np.isnan(peak), np.nan, 0)).truth
    assert truth[0, 93] == 0
    assert (truth[0, 94:100] == 1).all()
    assert np.isnan(truth[0, 100:112]).all()
    assert truth[0, 112] == 0
    assert np.isnan(truth[1, 89:107]).all()


def test_a_lead_counts_from_the_first_alarm_to_the_hot_bin() -> None:
    """An alarm at the end of bin 94 for a burst in bin 100 came 25 s before it; a miss counts 0."""
    hot = np.zeros((2, 200))
    hot[:, [100, 101]] = 1
    asked = np.zeros((2, 200), np.bool_)
    asked[:, 94:100] = True
    alarm = np.zeros((2, 200), np.bool_)
    alarm[0, 94:] = True
    lead, port = leads_s(alarm, asked, hot, 6, 5.0)
    assert lead.tolist() == [25.0, 0.0]
    assert port.tolist() == [0, 1]


def test_scores_agree_with_scikit_learn() -> None:
    """Average precision and AUC with ties, F1 at a threshold, Brier skill against the base."""
    from sklearn.metrics import average_precision_score, f1_score, roc_auc_score

    random = np.random.default_rng(0)
    truth = (random.random(500) < 0.3).astype(float)
    chance = np.round(np.clip(0.4 * truth + 0.6 * random.random(500), 0, 1), 1)
    found = figures(Scored(truth, chance, np.full(500, 0.3), np.arange(500) % 20, 0.45))
    assert found["AP"][0] == pytest.approx(average_precision_score(truth, chance))
    assert found["AUC"][0] == pytest.approx(roc_auc_score(truth, chance))
    assert found["F1"][0] == pytest.approx(f1_score(truth, chance > 0.45))
    assert found["brier_skill"][0] == pytest.approx(1 - ((chance - truth) ** 2).sum() / ((0.3 - truth) ** 2).sum())
    assert found["AP"][1] < found["AP"][0] < found["AP"][2]


def test_the_threshold_is_the_best_of_the_part_it_is_given() -> None:
    """Of .2 and .8, the threshold that separates."""
    assert 0.2 < best_threshold(np.array([0.0, 0, 1, 1]), np.array([0.2, 0.2, 0.8, 0.8])) < 0.8


def test_a_season_repeats_the_last_whole_cycle() -> None:
    """With period 4 the state three bins ahead is the one of one bin ago."""
    state = np.tile([1.0, 0, 0, 0], 10)[None]
    said = seasonal_states(state, np.full(state.shape, 4, np.intp), (3,))
    np.testing.assert_array_equal(said[0, 8:30], state[0, 11:33])


def test_own_period_finds_the_cycle_beside_gaps() -> None:
    """A square wave of 12 points with a hole of ten points."""
    wave = np.tile(np.repeat([5.0, 1.0], [4, 8]), 30)[None].copy()
    wave[0, 100:110] = np.nan
    lag, height = own_period(wave)
    assert lag[0] % 12 == 0
    assert height[0] > 0.9


def test_climatology_of_a_known_port_rests_on_the_training_part_only() -> None:
    """Changing what comes after the training part changes nothing."""
    fabric = simulated_fabric(1)
    later = fabric.traffic.copy()
    later[:, fabric.training_end :] = 0.0
    changed = Fabric(fabric.names, later, fabric.use, fabric.peak, fabric.switch, fabric.step_s)
    first, second = (next(t for t in tasks(f) if t.name == "lull-5s") for f in (fabric, changed))
    np.testing.assert_array_equal(climatology(fabric, first)[:, 0], climatology(changed, second)[:, 0])


def test_links_carry_one_port_of_each_of_three_runs() -> None:
    """The total of a link is the sum of its rows; about 3 % of the first part passes its capacity."""
    random = np.random.default_rng(2)
    runs = {f"r{k}": [random.random(400) * 1e9 for _ in range(3)] for k in range(4)}
    links = superpose(runs, 0)
    np.testing.assert_allclose(links.total[5], links.rows[links.link == 5].sum(axis=0))
    share = (links.total[:, :228] > links.capacity[:, None]).mean()
    assert 0.02 < share < 0.04


def test_simulated_ports_print_every_model() -> None:
    """Without data: losers too, intervals that hold together, and what is served beats climatology on mean use."""
    result = run(None, quick=True, task="mean-use")
    rows = {(row.model, row.metric): row for row in result.rows if row.task == "mean-use"}
    models = {"always_yes", "climatology", "seasonal_naive", "persistence", "served", "lightgbm", "blend"}
    assert {model for model, _ in rows} == models
    for metric in ("AP", "F1", "brier_skill"):
        assert {model for model, found in rows if found == metric} == models
    row = rows["served", "AP"]
    assert row.ci_low <= row.value <= row.ci_high
    assert row.value > rows["climatology", "AP"].value


@pytest.mark.parametrize("name", ["lull-5s", "lull-unseen-5s"])
def test_what_comes_after_an_origin_changes_no_answer_before_it(name: str) -> None:
    """With everything after a scored bin shuffled, every model says the same up to that bin."""
    fabric = simulated_fabric(2, 400)
    fabric = fabric.rows(np.arange(0, len(fabric.names), 4))
    now = fabric.middle_end + 40
    order = np.append(np.arange(now + 1), np.random.default_rng(0).permutation(np.arange(now + 1, fabric.n_bins)))
    # Sums over another memory layout would differ in the last digit.
    parts = [np.ascontiguousarray(one[:, order]) for one in (fabric.traffic, fabric.use, fabric.peak)]
    answers = []
    for one in (fabric, Fabric(fabric.names, *parts, fabric.switch, fabric.step_s)):
        task = next(task for task in tasks(one) if task.name == name)
        examples = collect(one, [task], "scored", lambda _: None)[name]
        answers.append({**rivals(one, task), **trained(one, task, examples, 0)})
    for model, before in answers[0].items():
        until, after = before[:, : now + 1], answers[1][model][:, : now + 1]
        both = np.isfinite(until) & np.isfinite(after)
        assert both[:, fabric.middle_end :].any()
        np.testing.assert_array_equal(until[both], after[both], err_msg=model)


def test_each_source_that_lacks_is_named(tmp_path) -> None:
    """A folder without ports does not keep the recorded links from being looked for, and the other way round."""
    result = run(tmp_path)
    assert result.rows == ()
    assert [note.partition(" left out")[0] for note in result.notes] == ["ports", "superposed"]
