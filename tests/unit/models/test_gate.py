"""The skill gate serves what beat persistence, and persistence where nothing did."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from features.frame import Context
from models.base import LEVELS
from models.checks import context_of
from models.gate import INSUFFICIENT_HISTORY, OK, Served
from models.persistence import Persistence
from models.quantiles import MEDIAN
from models.rolling import blend_weights, faded_prior, row_classes, shrunk_skill

TENTH, NINETIETH = LEVELS.index(0.1), LEVELS.index(0.9)


class _Fixed:
    """Answers every question with one number."""

    name, version = "fixed", "1"

    def __init__(self, value: float) -> None:
        self.value = value

    def predict(self, context: Context, horizon: int) -> np.ndarray:
        return np.full((context.n_series, horizon, len(LEVELS)), self.value)


def _wave(points: int = 400) -> np.ndarray:
    random = np.random.default_rng(1)
    wave = 0.5 + 0.4 * np.sign(np.sin(2 * np.pi * np.arange(points) / 19.0))
    return np.clip(wave + 0.02 * random.normal(size=(4, points)), 0, 1)


def test_a_rhythm_is_served_by_a_model_with_skill() -> None:
    """A clear rhythm is not left to persistence, and the forecast says how good it was."""
    served = Served().predict_served(context_of(_wave()), 24)
    assert all(model != "persistence" for model in served.model)
    assert (served.skill > 0.3).all()
    assert (served.scored > 0).all()
    assert set(served.status) == {OK}
    assert ((served.coverage80 > 0) & (served.coverage80 <= 1)).all()
    assert "beats persistence" in served.reason[0]


def test_a_random_walk_is_served_by_persistence_and_says_so() -> None:
    """Where a bad model is the only other choice persistence is served, with skill 0."""
    walk = 50 + np.random.default_rng(2).normal(size=(3, 300)).cumsum(axis=1)
    served = Served([_Fixed(900.0)]).predict_served(context_of(walk, high=np.inf), 12)
    assert served.model == ("persistence",) * 3
    np.testing.assert_array_equal(served.skill, 0.0)
    assert "no model beat persistence" in served.reason[0]


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e30])
def test_an_absurd_candidate_is_put_in_quarantine(value: float) -> None:
    """An answer that is not finite, or beyond anything seen, never reaches the forecast."""
    context = context_of(100 * _wave(), high=np.inf)
    served = Served([_Fixed(value)]).predict_served(context, 12)
    assert np.isfinite(served.values).all()
    assert served.values.max() < 1000


def test_one_constant_row_does_not_spoil_the_others() -> None:
    """A constant row is answered by its constant; the others still get their model."""
    values = _wave()
    values[1] = 0.25
    served = Served().predict_served(context_of(values), 12)
    assert served.model[1] == "constant"
    np.testing.assert_array_equal(served.values[1], 0.25)
    assert served.skill[0] > 0


def test_nothing_after_the_cutoff_is_used() -> None:
    """The same past gives the same forecast, whatever follows it."""
    values = _wave()
    other = values.copy()
    other[:, 300:] = 0.0
    first = Served().predict(context_of(values).until(300), 12)
    np.testing.assert_array_equal(first, Served().predict(context_of(other).until(300), 12))


def test_blend_weights_sum_to_one_and_prefer_the_lesser_loss() -> None:
    """The candidate that lost less gets more weight; weights of a row and bucket sum to 1."""
    loss = np.array([[[4.0, 4.0]], [[1.0, 8.0]]])
    weight = blend_weights(loss, np.zeros(1, np.intp), 6.0, np.ones((2, 1)))
    np.testing.assert_allclose(weight.sum(axis=0), 1.0)
    assert weight[1, 0, 0] > 0.9
    assert weight[1, 0, 1] < 0.1


def test_a_prior_fades_with_evidence() -> None:
    """A factor on a candidate's loss is nearly whole after one forecast and nearly gone after thousands."""
    one = faded_prior(np.array([1.5]), np.zeros((1, 1, 4)), np.zeros(1, np.intp))
    many = faded_prior(np.array([1.5]), np.zeros((100, 50, 4)), np.zeros(50, np.intp))
    assert one[0, 0] > 1.45
    assert 1.0 < many[0, 0] < 1.02


def test_evidence_is_pooled_over_owners_only_where_each_has_little() -> None:
    """Many pods with one row each share a class; GPUs of a few jobs do not."""
    pods = context_of(_wave()[:1].repeat(20, axis=0))
    pods.group[:] = np.arange(20)
    assert set(row_classes(pods)) == {0}
    jobs = context_of(_wave()[:1].repeat(20, axis=0))
    jobs.group[10:] = 1
    assert set(row_classes(jobs)) == {0, 1}


def test_skill_is_shrunk_by_thin_evidence() -> None:
    """The same ratio counts for less when few pairs were scored."""
    few = shrunk_skill(np.array([1.0]), np.array([2.0]), np.array([4]), np.zeros(1, np.intp))
    many = shrunk_skill(np.array([1.0]), np.array([2.0]), np.array([400]), np.zeros(1, np.intp))
    assert 0 < few[0] < 0.1 < many[0] < 0.5


def test_the_service_can_import_the_gate_without_heavy_libraries() -> None:
    """Importing and using the default gate loads neither pandas, scikit-learn, LightGBM nor statsmodels."""
    code = (
        "import sys, models.base, models.persistence, models.gate, models.phase\n"
        "models.gate.Served()\n"
        "print([m for m in ('pandas', 'sklearn', 'lightgbm', 'statsmodels') if m in sys.modules])"
    )
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def _case(shared_dir: Path, file: str) -> tuple[np.ndarray, float]:
    with (shared_dir / "cases" / "18-forecast-constant-and-short" / file).open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    times = np.array([float(row["timestamp"]) for row in rows])
    step = float(np.median(np.diff(times)))
    grid = np.full(round((times[-1] - times[0]) / step) + 1, np.nan)
    grid[np.round((times - times[0]) / step).astype(int)] = [float(row["value"]) for row in rows]
    return grid[None], step


@pytest.mark.shared
@pytest.mark.parametrize(("file", "value"), [("constant_zero.csv", 0.0), ("constant_eight.csv", 8.0)])
def test_constant_history(shared_dir: Path, file: str, value: float) -> None:
    """A constant is forecast by itself, narrowly, with status ok and the method named."""
    values, step = _case(shared_dir, file)
    served = Served().predict_served(context_of(values, high=100.0, step_s=step), 12)
    np.testing.assert_allclose(served.values[0, :, MEDIAN], value, atol=1e-6)
    assert (served.values[0, :, NINETIETH] - served.values[0, :, TENTH] <= 1).all()
    assert served.values.min() >= 0
    assert (served.status[0], served.model[0]) == (OK, "constant")


@pytest.mark.shared
def test_four_points(shared_dir: Path) -> None:
    """Four points get a naive fallback with a width, and insufficient_history with both counts."""
    values, step = _case(shared_dir, "four_points.csv")
    served = Served().predict_served(context_of(values, high=np.inf, step_s=step), 12)
    median = served.values[0, :, MEDIAN]
    assert ((median >= 10) & (median <= 13)).all()
    assert np.isfinite(served.values).all()
    assert (served.values[0, :, NINETIETH] > served.values[0, :, TENTH]).all()
    assert (served.status[0], served.model[0]) == (INSUFFICIENT_HISTORY, "persistence")
    assert (served.points_present[0], served.points_needed[0]) == (4, 20)
    assert "4 points are present and 20 are needed" in served.reason[0]


@pytest.mark.shared
def test_thirty_hours_do_not_make_a_daily_pattern(shared_dir: Path) -> None:
    """Asked for a daily season over 60 half hours, the answer names the fallback and says 60 of 96 points."""
    values, step = _case(shared_dir, "thirty_hours.csv")
    served = Served(season_s=86_400.0).predict_served(context_of(values, high=100.0, step_s=step), 12)
    assert np.isfinite(served.values).all()
    assert served.values.min() >= 0
    assert served.values.max() <= 100
    assert served.status[0] == INSUFFICIENT_HISTORY
    assert (served.points_present[0], served.points_needed[0]) == (60, 96)
    assert "seasonal_naive" not in served.model[0]
    assert served.model[0] in served.reason[0]


@pytest.mark.shared
def test_almost_zero(shared_dir: Path) -> None:
    """A series that is almost always zero stays between zero and its largest value, without NaN."""
    values, step = _case(shared_dir, "almost_zero.csv")
    served = Served().predict_served(context_of(values, high=np.inf, step_s=step), 12)
    median = served.values[0, :, MEDIAN]
    assert ((median >= 0) & (median <= 18)).all()
    assert np.isfinite(served.values).all()
    assert served.values.min() >= 0
    assert served.status[0] == OK


def test_persistence_is_always_among_the_candidates() -> None:
    """The denominator cannot be left out."""
    assert isinstance(Served([]).candidates[0], Persistence)


@pytest.mark.parametrize("points", range(1, 24))
def test_any_short_history_is_answered(points: int) -> None:
    """From one point on there is an answer in order and inside the bounds, and it says how many points it rests on."""
    served = Served().predict_served(context_of(_wave(points)), max(1, points // 2))
    assert np.isfinite(served.values).all()
    assert (np.diff(served.values, axis=-1) >= 0).all()
    np.testing.assert_array_equal(served.points_present, points)


def test_intervals_of_a_short_context_cover() -> None:
    """Five periods of a jittered rhythm, one row per metric: the 80 % interval holds 70 to 95 % of what comes."""
    hits, count = 0.0, 0
    names = ("gpu_sm_active_ratio", "gpu_tensor_active_ratio", "gpu_dram_active_ratio", "gpu_util_ratio")
    for seed in range(12):
        random = np.random.default_rng(seed)
        length = 18 * (1 + 0.03 * random.normal(size=12))
        edges = np.concatenate([[0.0], np.cumsum(length)])
        now = np.arange(130) + random.uniform(0, 18)
        start = edges[np.searchsorted(edges, now, side="right") - 1]
        busy = now - start < 11
        values = np.clip(np.where(busy, 0.8, 0.2) + 0.03 * random.normal(size=(4, 130)), 0, 1)
        context = context_of(values[:, :90])
        context = Context(context.values, 0.4, names, context.group, context.low, context.high)
        cube = Served().predict(context, 40)
        truth = values[:, 90:]
        inside = (truth >= cube[..., TENTH]) & (truth <= cube[..., NINETIETH])
        hits, count = hits + inside.sum(), count + inside.size
    assert 0.7 <= hits / count <= 0.95
