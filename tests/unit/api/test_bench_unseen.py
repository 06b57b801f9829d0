"""A job never seen: no model that forecasts a run was fitted on it."""

from __future__ import annotations

import numpy as np
import pytest

from api.bench import unseen
from api.bench.datasets import Dataset, Recording
from api.bench.unseen import left_out, runs_of


def _recording(name: str, level: float, n: int = 2) -> Recording:
    values = np.full((n, 200), level)
    return Recording(name, values, 1.0, ("m",) * n, (name,) * n, np.zeros(n, np.int32), np.full(n, 100.0))


DATASET = Dataset("x", (_recording("a.0", 1.0), _recording("b.0", 2.0, 3), _recording("a.1 fabric", 3.0)), 64, 8)


def test_nodes_and_ports_of_a_run_are_one_job() -> None:
    """What runs on two nodes, or is seen by GPUs and by ports, is left out as a whole."""
    assert list(runs_of(DATASET)) == [("a", [0, 2]), ("b", [1])]


def test_no_run_is_forecast_by_a_model_fitted_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The training of each fold holds the other runs only, and every series gets its own fold's sums."""

    class Fitted:
        def __init__(self, **_: int) -> None:
            self.levels: set[float] = set()

        def fit(self, contexts: list, horizon: int) -> None:
            self.levels = {float(context.values[0, 0]) for context in contexts}

    def score(part: Dataset, model: Fitted) -> np.ndarray:
        own = [float(recording.values[0, 0]) for recording in part.recordings]
        assert not model.levels & set(own)
        assert model.levels | set(own) == {1.0, 2.0, 3.0}
        return np.concatenate([recording.values[:, :1] for recording in part.recordings])[None]

    monkeypatch.setattr("models.gbdt.Gbdt", Fitted)
    sums = left_out(DATASET, score, 0, lambda _: None)
    assert sums is not None
    np.testing.assert_array_equal(sums[0, :, 0], [1.0, 1.0, 2.0, 2.0, 2.0, 3.0, 3.0])


def test_too_little_to_learn_from_is_said() -> None:
    """Flat recordings train nothing: the row is absent, with a sentence."""
    told: list[str] = []
    assert left_out(DATASET, lambda *_: np.zeros((1, 1, 1)), 0, told.append) is None
    assert "gbdt found 0 usable training rows" in told[-1]
    assert unseen.LEARNS == ("gbdt",)
