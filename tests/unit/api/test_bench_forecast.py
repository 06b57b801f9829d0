"""The forecasting benchmark: schema, denominator, missing data, cuts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from api.bench.datasets import Dataset, Recording, mean_on_grid, nearest_on_grid
from api.bench.forecast import moving, run
from api.bench.simulated import simulated_datasets

METRICS = {"relWQL", "relMAE", "MASE", "WAPE", "cov80", "cov95", "cpu_ms"}
MODELS = {"persistence", "moving_mean", "seasonal_naive", "phase", "phase+conformal", "gbdt", "ets", "served"}


@pytest.fixture(scope="module")
def simulated():
    return run(None, quick=True, only="sim-h100-1s")


def test_every_model_has_every_metric(simulated) -> None:
    """Losers are printed too; each row has an interval that holds together."""
    found = {(row.model, row.metric) for row in simulated.rows if row.task == "sim-h100-1s-30"}
    assert {(model, metric) for model in MODELS for metric in METRICS} <= found
    for row in simulated.rows:
        if row.metric == "relWQL":
            assert row.ci_low <= row.value <= row.ci_high
            assert row.n > 0


def test_persistence_is_its_own_denominator(simulated) -> None:
    """Persistence has ratio 1, and the windows kept and dropped are counted."""
    rows = {row.metric: row for row in simulated.rows if row.model == "persistence"}
    assert rows["relWQL"].value == pytest.approx(1.0)
    assert rows["relMAE"].value == pytest.approx(1.0)
    assert rows["windows"].value == rows["windows"].n > 0
    assert rows["dropped"].value == 0


def test_a_clear_rhythm_is_found_by_what_is_served(simulated) -> None:
    """On simulated iterations the served model beats persistence."""
    value = next(row.value for row in simulated.rows if (row.model, row.metric) == ("served", "relWQL"))
    assert value < 0.9


def test_the_document_has_the_agreed_schema(simulated) -> None:
    """benchmark, data_sha256, rows; no NaN in the JSON."""
    document = json.loads(simulated.to_json())
    assert set(document) == {"benchmark", "data_sha256", "rows"}
    assert document["benchmark"] == "forecast"
    assert len(document["data_sha256"]) == 64
    assert set(document["rows"][0]) == {"task", "model", "metric", "value", "ci_low", "ci_high", "n"}


def test_the_same_seed_gives_the_same_recordings() -> None:
    """Simulated data is a function of its seed."""
    first, second, other = (simulated_datasets(seed, True)[0].recordings[0].values for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, other)


def test_an_absent_subfolder_is_left_out_with_a_message(tmp_path: Path) -> None:
    """A folder without any known data gives no row and says what was looked for."""
    told: list[str] = []
    result = run(tmp_path, told.append, quick=True)
    assert result.rows == ()
    assert any("roce-5s left out: no zjlab_roce_2024/ports_5s.parquet" in note for note in result.notes)
    assert told == list(result.notes)


def test_cutoffs_lie_in_the_second_half_with_their_horizon_observed() -> None:
    """No cutoff before the middle, none whose truth is cut off."""
    values = np.zeros((1, 300))
    fleet = Recording("x", values, 1.0, ("m",), ("e",), np.zeros(1, np.int32), np.ones(1))
    dataset = Dataset("x", (fleet,), 512, 30, origins=3)
    assert dataset.cutoffs(fleet) == [150, 210, 270]
    assert dataset.training()[0].n_points == 150


def test_windows_that_never_move_are_dropped() -> None:
    """Constant, empty-future and empty-past rows are no test of a model."""
    past = np.array([[1.0, 1.0], [1.0, 2.0], [np.nan, np.nan], [1.0, 2.0]])
    truth = np.array([[1.0], [1.0], [1.0], [np.nan]])
    np.testing.assert_array_equal(moving(past, truth), [False, True, False, False])


def test_grids_leave_unobserved_slots_missing() -> None:
    """A slot without a sample is NaN on both grids, never a neighbour's value from far away."""
    at_s = np.array([0.0, 0.11, 0.19, 1.0])
    value = np.array([1.0, 2.0, 3.0, 4.0])
    near = nearest_on_grid(at_s, value, 0.1, 11)
    np.testing.assert_array_equal(near[[0, 1, 2, 10]], [1, 2, 3, 4])
    assert np.isnan(near[5])
    means = mean_on_grid(at_s, value, 0.5, 3)
    assert means[0] == 2.0
    assert np.isnan(means[1])
    assert means[2] == 4.0


@pytest.mark.shared
def test_recorded_pods_run_end_to_end(shared_dir: Path) -> None:
    """The same command reads the recorded layout."""
    result = run(shared_dir / "data", quick=True, only="pods")
    tasks = {row.task for row in result.rows}
    assert tasks == {"pods-57s-30"}
    assert {row.model for row in result.rows} >= MODELS
