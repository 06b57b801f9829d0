"""The boosted model: features over gaps, training past constant rows, saving with digests."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from models.backtest import roll
from models.checks import context_of
from models.gbdt import FITTED, Gbdt, between_levels
from models.gbdt_features import LAGS, MEANS, snapshot
from models.persistence import Persistence
from models.saved import MANIFEST
from telemetry.errors import IncompatibleModel, LeakError, NotFitted


def _ramp_with_gap(shared_dir: Path) -> np.ndarray:
    """Case 17: the value is the minute's number, 40 minutes are absent."""
    grid = np.full(120, np.nan)
    with (shared_dir / "cases" / "17-forecast-gap-lags" / "series.csv").open(encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            grid[round((float(row["timestamp"]) - 1_767_225_600) / 60)] = float(row["gpu_util_index"])
    return grid


def _features(grid: np.ndarray, minute: int) -> tuple[np.ndarray, float, float]:
    context = context_of(grid[None, : minute + 1], high=np.inf, step_s=60.0)
    taken = snapshot(context, [1], 12, np.zeros(1))
    return taken.rows[0], float(taken.base[0]), float(taken.scale[0])


@pytest.mark.shared
def test_a_lag_over_a_gap_is_missing_and_not_a_neighbour(shared_dir: Path) -> None:
    """Ten minutes before minute 80 lies in the gap; ten minutes before minute 90 is 80."""
    grid = _ramp_with_gap(shared_dir)
    assert np.isnan(grid).sum() == 40
    column = LAGS.index(10)
    assert np.isnan(_features(grid, 80)[0][column])
    row, base, scale = _features(grid, 90)
    assert base + row[column] * scale == pytest.approx(80.0)


@pytest.mark.shared
def test_the_difference_to_the_minute_before_the_gap_ends_is_missing(shared_dir: Path) -> None:
    """At minute 80 the minute before is missing, so is the difference."""
    assert np.isnan(_features(_ramp_with_gap(shared_dir), 80)[0][LAGS.index(1)])


@pytest.mark.shared
def test_a_mean_counts_observed_points_only(shared_dir: Path) -> None:
    """The mean of the last 8 minutes at minute 85 rests on minutes 80 to 85."""
    row, base, scale = _features(_ramp_with_gap(shared_dir), 85)
    assert base + row[len(LAGS) + MEANS.index(8)] * scale == pytest.approx(82.5)


@pytest.mark.shared
def test_a_forecast_inside_the_gap_starts_from_the_last_value_before_it(shared_dir: Path) -> None:
    """At minute 60 nothing newer than minute 39 is known."""
    assert _features(_ramp_with_gap(shared_dir), 60)[1] == 39.0


@pytest.mark.shared
def test_no_target_lies_in_the_gap(shared_dir: Path) -> None:
    """Every training target is an observed minute, at its own distance from the last value."""
    context = context_of(_ramp_with_gap(shared_dir)[None], high=np.inf, step_s=60.0)
    model = Gbdt((1, 6, 12), origins=60)
    model.metrics = [context.metric[0]]
    features, targets, _ = model._examples([context], 12)
    assert features.shape[0] == targets.shape[0] > 0
    assert np.isfinite(targets).all()


def _noise(rows: int = 12, points: int = 300) -> np.ndarray:
    """Values that jump about a level: the last value is a bad guide, the level a good one."""
    return np.clip(0.5 + 0.1 * np.random.default_rng(1).normal(size=(rows, points)), 0, 1)


def test_it_learns_that_noise_returns_to_its_level() -> None:
    """On noise the trained model loses clearly less than persistence on later data."""
    values = _noise()
    model = Gbdt(trees=40, origins=24)
    model.fit([context_of(values[:, :200])], 12)
    later = context_of(values)
    cutoffs = [220, 240, 260, 280]
    mine, naive = roll(model, later, 12, cutoffs), roll(Persistence(), later, 12, cutoffs)
    assert mine[:, 0].sum() < 0.9 * naive[:, 0].sum()


def test_a_constant_row_does_not_stop_training() -> None:
    """The constant row is left out and answered by its constant; the others are learnt."""
    values = _noise()
    values[3] = 0.2
    model = Gbdt(trees=5, origins=24)
    model.fit([context_of(values)], 12)
    np.testing.assert_array_equal(model.predict(context_of(values), 12)[3], 0.2)


def test_too_little_to_learn_from_is_said() -> None:
    """Only constant rows, or a handful of points, give a sentence with both counts."""
    with pytest.raises(NotFitted, match="found 0 usable training rows and needs 200"):
        Gbdt().fit([context_of(np.full((3, 100), 0.5))], 12)
    with pytest.raises(NotFitted, match="no trained model"):
        Gbdt().predict(context_of(_noise()), 12)


def test_levels_between_lie_between() -> None:
    """Interpolated levels keep the order of the fitted ones and pass through them."""
    fitted = np.array([0.0, 1.0, 3.0, 5.0, 7.0, 9.0, 10.0])
    levels = between_levels(fitted)
    assert (np.diff(levels) > 0).all()
    assert (levels[0], levels[5], levels[-1]) == (0.0, 5.0, 10.0)
    assert len(FITTED) == fitted.size


def test_a_changed_file_is_refused(tmp_path: Path) -> None:
    """A model whose files are not those that were saved does not load."""
    model = Gbdt(trees=5, origins=24)
    model.fit([context_of(_noise())], 12)
    model.save(tmp_path)
    file = tmp_path / "q0.5.txt"
    file.write_text(file.read_text(encoding="utf-8").replace("leaf_value=", "leaf_value=9", 1), encoding="utf-8")
    with pytest.raises(IncompatibleModel, match=r"q0\.5\.txt is missing or was changed"):
        Gbdt.load(tmp_path)
    (tmp_path / MANIFEST).write_text("{", encoding="utf-8")
    with pytest.raises(IncompatibleModel, match="is not a saved model"):
        Gbdt.load(tmp_path)


def test_a_cutoff_outside_the_history_is_a_leak() -> None:
    """The back-test refuses to score what it cannot cut."""
    with pytest.raises(LeakError, match="cutoff 500"):
        roll(Persistence(), context_of(_noise()), 12, [500])
