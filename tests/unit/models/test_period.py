"""Periods are found where they are, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest

from features.frame import Context
from models.period import detect_periods, find_repeats
from models.period_voters import MOST_VOTERS, evenly_spread

METRICS = ("gpu_tensor_active_ratio", "gpu_nvlink_tx_bytes_per_s", "gpu_pcie_rx_bytes_per_s")
SCALE = np.array([1.0, 1e11, 1e10])


def make_context(values, step_s=0.1, metric=METRICS, group=None):
    n = values.shape[0]
    names = tuple(metric[i % len(metric)] for i in range(n))
    group = np.zeros(n, np.int32) if group is None else np.asarray(group, np.int32)
    return Context(values, step_s, names, group, np.zeros(n), np.full(n, np.inf))


def job(seed, period_points, n_points, *, gpus=3, jitter=0.01, noise=0.15, micro_batches=1, exchange=0.2):
    """Rows of a made job: compute, then exchange, iterations of uneven length; averages over each sample."""
    rng = np.random.default_rng(seed)
    length = period_points * (1 + jitter * rng.standard_normal(int(n_points / period_points * 1.3) + 10))
    start = np.concatenate([[0.0], np.cumsum(length)]) - rng.uniform(0, period_points)
    fine = (np.arange(n_points)[:, None] - (np.arange(8) + 0.5) / 8).ravel()
    which = np.clip(np.searchsorted(start, fine, side="right") - 1, 0, length.size - 1)
    phase = (fine - start[which]) / length[which]
    sending = phase >= 1 - exchange
    batch = np.mod(phase / (1 - exchange) * micro_batches, 1.0)
    computing = ~sending & ((batch < 0.75) | (micro_batches == 1))
    shapes = np.array([computing, sending, phase < 0.15], float).reshape(3, n_points, 8).mean(axis=2)
    rows = [
        SCALE[k] * np.maximum(shapes[k] + noise * shapes[k].std() * rng.standard_normal(n_points), 0.0)
        for _ in range(gpus)
        for k in range(3)
    ]
    return np.array(rows)


@pytest.mark.parametrize("period_points", [5.3, 8.7, 17.25, 34.55, 61.0])
@pytest.mark.parametrize("cycles", [8, 25])
@pytest.mark.parametrize("seed", [1, 2])
def test_period_within_two_percent(period_points, cycles, seed):
    """Fractional periods are found within 2 % from eight cycles on, without doubling or halving."""
    found = detect_periods(make_context(job(seed, period_points, round(cycles * period_points)), step_s=0.25))[0]
    assert found.status == "found"
    assert found.period_s == pytest.approx(0.25 * period_points, rel=0.02)
    assert found.low_s < found.period_s < found.high_s
    assert found.votes <= found.voters == 9


@pytest.mark.parametrize("micro_batches", [4, 8])
def test_micro_batches_are_not_the_iteration(micro_batches):
    """Equal bursts inside an iteration with one exchange: the iteration is the answer."""
    values = job(3, 64.0, 900, micro_batches=micro_batches, exchange=0.1)
    assert detect_periods(make_context(values))[0].period_s == pytest.approx(6.4, rel=0.02)


def test_one_exchange_after_many_equal_bursts():
    """A few rows that repeat only with the whole iteration outvote many that repeat with its parts."""
    rng = np.random.default_rng(4)
    t = np.arange(1000)
    compute = np.tile(((t % 12) < 6).astype(float), (10, 1)) + 0.05 * rng.standard_normal((10, 1000))
    send = np.tile(1e11 * ((t % 96) < 8), (2, 1)) * (1 + 0.05 * rng.standard_normal((2, 1000)))
    context = make_context(
        np.vstack([compute, send]), metric=("gpu_tensor_active_ratio",) * 10 + ("gpu_nvlink_tx_bytes_per_s",) * 2
    )
    assert detect_periods(context)[0].period_s == pytest.approx(9.6, rel=0.02)


def test_gaps_do_not_matter():
    """A tenth of the points missing, whole columns among them, leaves the period where it is."""
    values = job(5, 22.4, 600)
    rng = np.random.default_rng(5)
    values[:, rng.random(600) < 0.05] = np.nan
    values[rng.random(values.shape) < 0.05] = np.nan
    assert detect_periods(make_context(values))[0].period_s == pytest.approx(2.24, rel=0.02)


def _noise(kind, rng, n):
    white = rng.standard_normal((9, n))
    if kind == "white":
        return white
    if kind == "walk":
        return np.cumsum(white, axis=1)
    common = np.zeros(n)
    for i in range(1, n):
        common[i] = 0.9 * common[i - 1] + rng.standard_normal()
    return common[None] + 0.3 * white


@pytest.mark.parametrize("kind", ["white", "walk", "common"])
def test_noise_has_no_period(kind):
    """At most one window of noise in fifty gets a period, whether its rows move together or not."""
    found = 0
    for seed in range(50):
        rng = np.random.default_rng(seed)
        values = _noise(kind, rng, (80, 200, 512)[seed % 3])
        values = (values - values.min(axis=1, keepdims=True)) * np.tile(SCALE, 3)[:, None]
        found += detect_periods(make_context(values))[0].status == "found"
    assert found <= 1


def test_idle_is_said():
    """Constants and the chatter of an idle machine are idle, not periodic."""
    rng = np.random.default_rng(6)
    chatter = 0.001 * ((np.arange(400) % 20) < 2) + 1e-4 * rng.random(400)
    values = np.vstack([chatter, np.zeros(400), 1e5 * rng.random(400)])
    finding = detect_periods(make_context(values))[0]
    assert finding.status == "idle"
    assert np.isnan(finding.period_s)


def test_short_windows_say_what_they_need():
    """Too few points: their number and the needed number are told."""
    finding = detect_periods(make_context(job(7, 8.0, 15)))[0]
    assert finding.status == "too_short"
    assert finding.points_present == 15
    assert finding.points_needed > 15
    assert "15" in finding.reason


@pytest.mark.parametrize("points", [2.6, 3.3])
def test_steps_faster_than_the_sampling_are_not_found(points):
    """Fewer than four samples a period: never found, least of all as a multiple."""
    for seed in range(5):
        assert detect_periods(make_context(job(seed, points, 400)))[0].status != "found"


def test_groups_answer_for_themselves():
    """Each group has its own finding, in ascending number, over its own rows."""
    values = np.vstack([job(8, 20.0, 500), job(9, 33.0, 500), np.zeros((3, 500))])
    group = [7] * 9 + [2] * 9 + [5] * 3
    findings = detect_periods(make_context(values, group=group))
    assert [f.group for f in findings] == [2, 5, 7]
    assert findings[0].period_s == pytest.approx(3.3, rel=0.02)
    assert findings[1].status == "idle"
    assert findings[2].period_s == pytest.approx(2.0, rel=0.02)
    assert findings[0].row_period_s.shape == (9,)
    assert findings[1].row_score.shape == (3,)


def test_empty_and_missing_rows():
    """No rows, no columns and rows without values give an answer, not an error."""
    assert detect_periods(make_context(np.empty((0, 100)))) == []
    assert detect_periods(make_context(np.empty((3, 0))))[0].status == "too_short"
    assert detect_periods(make_context(np.full((3, 100), np.nan)))[0].status == "too_short"


def test_what_repeats_is_what_the_detector_looked_at():
    """The light question gives the same candidate and the same scores of rows as the whole verdict."""
    random = np.random.default_rng(4)
    wave = 0.5 + 0.4 * np.sign(np.sin(2 * np.pi * np.arange(300) / 21.3))
    values = wave + 0.05 * random.normal(size=(5, 300))
    values[4] = 0.5
    n = len(values)
    metric = ("gpu_sm_active_ratio",) * n
    context = Context(values, 1.0, metric, np.array([0, 0, 0, 2, 2], np.int32), np.zeros(n), np.ones(n))
    for full, light in zip(detect_periods(context), find_repeats(context), strict=True):
        assert (full.group, full.candidate_s) == (light.group, light.candidate_s)
        np.testing.assert_array_equal(full.row_score, light.row_score)


def test_many_cards_let_a_few_vote_and_all_are_scored():
    """Hundreds of rows of one metric ask eight of them, and the rows that were not asked still get a score."""
    random = np.random.default_rng(6)
    wave = 0.5 + 0.4 * np.sign(np.sin(2 * np.pi * np.arange(240) / 17.0))
    values = wave + 0.05 * random.normal(size=(100, 240))
    metric = ("gpu_sm_active_ratio",) * 100
    context = Context(values, 1.0, metric, np.zeros(100, np.int32), np.zeros(100), np.ones(100))
    finding = detect_periods(context)[0]
    assert finding.status == "found"
    assert abs(finding.period_s / 17.0 - 1) < 0.02
    assert finding.voters == MOST_VOTERS
    assert (finding.row_score > 0.5).all()


def test_voters_are_spread_over_all_rows():
    """The first and the last row of a crowded metric are asked; a metric with few rows asks them all."""
    label = np.array([0] * 30 + [1] * 3)
    chosen = evenly_spread(label, 8)
    assert chosen[:30].sum() == 8
    assert chosen[[0, 29]].all()
    assert chosen[30:].all()
