"""The phase forecaster follows a rhythm, keeps the laws, and loads what it saved."""

from __future__ import annotations

import numpy as np
import pytest

from features.frame import Context
from models.base import LEVELS, Forecaster
from models.metrics import quantile_loss
from models.persistence import Persistence
from models.phase import PhaseForecaster, relaxing_quantiles


def make_context(values, high=np.inf):
    n = values.shape[0]
    return Context(values, 0.1, ("gpu_tensor_active_ratio",) * n, np.zeros(n, np.int32), np.zeros(n), np.full(n, high))


def bursts(seed, n_rows, n_points, period=23.7):
    rng = np.random.default_rng(seed)
    phase = np.mod(np.arange(n_points) / period, 1.0)
    return np.clip((phase < 0.25) * 0.8 + 0.05 * rng.standard_normal((n_rows, n_points)), 0, 1)


def test_beats_persistence_on_a_rhythm():
    """On a clean rhythm the loss is less than a third of persistence's."""
    values = bursts(1, 6, 512 + 48)
    context, truth = make_context(values[:, :512], 1.0), values[:, 512:]
    phase = quantile_loss(PhaseForecaster().predict(context, 48), truth).mean()
    assert phase < quantile_loss(Persistence().predict(context, 48), truth).mean() / 3


@pytest.mark.parametrize("n_points", [0, 1, 2, 7, 19, 25, 300])
@pytest.mark.parametrize("horizon", [1, 5, 60])
def test_laws_hold_for_any_gaps(n_points, horizon):
    """Finite, in bounds, not crossing, input unchanged: for constants, gaps, empty and short rows."""
    rng = np.random.default_rng(n_points)
    values = bursts(2, 6, n_points) if n_points else np.empty((6, 0))
    values[0] = 0.4
    values[1] = np.nan
    values[2][rng.random(n_points) < 0.7] = np.nan
    values[3, n_points // 2 :] = np.nan
    values[4, : n_points // 2] = np.nan
    before = values.copy()
    cube = PhaseForecaster().predict(make_context(values, 1.0), horizon)
    assert cube.shape == (6, horizon, len(LEVELS))
    assert np.isfinite(cube).all()
    assert (np.diff(cube, axis=2) >= 0).all()
    assert ((cube >= 0) & (cube <= 1)).all()
    np.testing.assert_array_equal(values, before)
    if n_points:
        assert cube[0] == pytest.approx(np.full((horizon, len(LEVELS)), 0.4))


def test_rows_without_rhythm_relax_to_their_level():
    """The median of a slow random row starts near its last value and ends near its mean."""
    rng = np.random.default_rng(3)
    row = np.zeros(400)
    for i in range(1, 400):
        row[i] = 0.9 * row[i - 1] + rng.standard_normal()
    row[-1] = 8.0
    cube = relaxing_quantiles(make_context((row + 20)[None]), 60)
    assert cube[0, 0, 5] > 25
    assert cube[0, -1, 5] == pytest.approx(20 + row[-256:].mean(), abs=2.5)


def test_saved_and_loaded_answers_the_same(tmp_path):
    """A loaded model gives the same cube; it satisfies the forecaster seam."""
    model = PhaseForecaster()
    model.save(tmp_path)
    loaded = PhaseForecaster.load(tmp_path)
    assert isinstance(loaded, Forecaster)
    context = make_context(bursts(4, 4, 300), 1.0)
    np.testing.assert_array_equal(model.predict(context, 20), loaded.predict(context, 20))
