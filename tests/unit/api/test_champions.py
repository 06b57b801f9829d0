"""Champions in the forecasting process, and what the service does about them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from api.champions import Champions
from api.model_keeper import LEAST_ORIGINS, ModelKeeper, live_skill
from forecast.predict.room_models import RoomModels, default_models
from forecast.predict.worker import PredictReply, PredictRequest, TrainedState
from models.promotion import promote, quarantine
from models.store import ModelStore
from models.store_watch import STRIKES, Watched
from tests.kit.trained_models import NAME, booster, context, losses, publish

REQUEST = PredictRequest(now_s=0.0)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return booster(tmp_path_factory.mktemp("fitted") / "gbdt")


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    return ModelStore(tmp_path / "models")


def _round(champions: Champions, step_s: float = 1.0) -> tuple[PredictReply, tuple[str, ...]]:
    said: list[tuple[str, ...]] = []

    def run(request: PredictRequest, room: RoomModels) -> PredictReply:
        one = context()
        one = type(one)(one.values, step_s, one.metric, one.group, one.low, one.high)
        said.append(room.served.predict_served(one, 12).version)
        return PredictReply()

    reply = champions.predict(REQUEST, run, default_models())
    return reply, said[0]


def test_a_promotion_is_taken_up_and_left_without_restart(store: ModelStore, fitted: Path) -> None:
    """The next round after a promotion is the champion's, the next after a rollback the built-in models'."""
    champions = Champions(store.root)
    assert not any("@" in version for version in _round(champions)[1])
    version = publish(store, losses(0.5, 0.6), fitted)
    promote(store, NAME, version, now_s=1.0)

    reply, said = _round(champions)
    assert any(one.endswith(f"@{version}") for one in said)
    assert reply.trained == (TrainedState(NAME, version),)
    assert not any("@" in one for one in _round(champions, step_s=0.1)[1]), "another class of sampling"

    quarantine(store, NAME, version, now_s=2.0, why="a test")
    assert not any("@" in one for one in _round(champions)[1])


def test_the_last_good_one_goes_on(store: ModelStore, fitted: Path) -> None:
    """A damaged champion is refused once, by name and counted, while the former one serves."""
    champions = Champions(store.root)
    first = publish(store, losses(0.5, 0.6), fitted, mark="a")
    promote(store, NAME, first, now_s=1.0)
    _round(champions)
    second = publish(store, losses(0.4, 0.5, rival=first), fitted, mark="b")
    promote(store, NAME, second, now_s=2.0)
    (store.folder(NAME, second) / "gbdt" / "q0.5.txt").write_text("tree\n")

    reply, said = _round(champions)
    again, _ = _round(champions)

    assert any(one.endswith(f"@{first}") for one in said)
    assert reply.errors == {"champion_refused": 1}
    assert any("q0.5.txt was changed" in message for message in reply.messages)
    assert reply.trained[0].version == first
    assert "q0.5.txt" in reply.trained[0].refused
    assert (again.errors, again.messages) == ({}, ()), "told once"


@pytest.mark.parametrize("text", ["", "{", '{"format": 9}', '{"format": 1}', '{"format": 1, "version": "../../x"}'])
def test_a_damaged_pointer_is_refused(store: ModelStore, text: str) -> None:
    """Whatever lies in the pointer's place, the built-in models serve."""
    store.folder(NAME).mkdir(parents=True)
    (store.folder(NAME) / "champion.json").write_text(text)

    reply, said = _round(Champions(store.root))

    assert "champion.json" in reply.messages[0]
    assert not any("@" in one for one in said)


class _Says:
    name, version = "gbdt", "1"

    def __init__(self, value: float) -> None:
        self.value = value

    def predict(self, context, horizon):
        return np.full((context.n_series, horizon, 11), self.value)


@pytest.mark.parametrize(
    ("value", "words"), [(np.nan, "not finite"), (-3.0, "outside of bounds"), (np.inf, "not finite")]
)
def test_unlawful_output_is_a_fault_at_once(value: float, words: str) -> None:
    """Not finite or outside of physical bounds: NaN for the gate, and a fault with the metric's name."""
    watched = Watched(_Says(value))

    assert np.isnan(watched.predict(context(), 4)).all()
    assert words in watched.fault
    assert "gpu_" in watched.fault


def test_absurd_output_is_a_fault_after_three() -> None:
    """Far beyond the largest ever seen: left out each time, and a fault the third time."""
    watched = Watched(_Says(0.99))
    one = context()
    small = type(one)(one.values * 1e-4, 1.0, one.metric, one.group, one.low, one.high)
    for strike in range(STRIKES):
        assert watched.fault == "", strike
        assert np.isnan(watched.predict(small, 4)[0]).all()
    assert "100 times" in watched.fault


def test_a_fault_bars_the_version(store: ModelStore, fitted: Path) -> None:
    """The service writes the fault into the store and the former champion serves."""
    version = publish(store, losses(0.5, 0.6), fitted)
    promote(store, NAME, version, now_s=1.0)
    counters: Counter[str] = Counter()

    ModelKeeper(store.root, counters).after_round((TrainedState(NAME, version, "it gives NaN"),), [], 5.0)

    assert store.pointer(NAME).version == ""
    assert store.quarantined(NAME) == {version: "it gives NaN"}
    assert counters["gpucast_models_quarantined_total"] == 1
    assert [(event.kind, event.by) for event in store.events(NAME)][-2:] == [
        ("quarantined", "service"),
        ("rolled_back", "service"),
    ]


def _scores(version: str, ratio: float, count: int) -> list[tuple[str, str, str, float, float]]:
    return [(f"job{i % 4}", "gpu_power_watts", f"1@{version}", ratio, 1.0) for i in range(count)]


@pytest.mark.parametrize(
    ("ratio", "count", "back"),
    [(1.2, LEAST_ORIGINS, True), (1.2, LEAST_ORIGINS - 1, False), (0.8, LEAST_ORIGINS, False)],
)
def test_live_skill_below_persistence_goes_back(
    store: ModelStore, fitted: Path, ratio: float, count: int, back: bool
) -> None:
    """Worse than persistence over enough forecasts: back, with the figures; too few, or better: it stays."""
    version = publish(store, losses(0.5, 0.6), fitted)
    promote(store, NAME, version, now_s=1.0)
    counters: Counter[str] = Counter()
    keeper = ModelKeeper(store.root, counters)

    keeper.after_round((TrainedState(NAME, version),), _scores(version, ratio, count), 5.0)

    assert (store.pointer(NAME).version == "") is back
    assert counters["gpucast_model_rollbacks_total"] == int(back)
    assert keeper.view.live[version].origins == count
    if back:
        assert f"live skill -0.200 over {count}" in store.events(NAME)[-1].reason


def test_forecasts_without_a_champion_do_not_count() -> None:
    """Rows of the built-in models, and of persistence, say nothing of a trained version."""
    assert live_skill([("job", "m", "1", 2.0, 1.0), ("job", "m", "1+2", 2.0, 1.0)]) == {}


def test_a_store_that_cannot_be_written_does_not_stop_the_service(store: ModelStore, fitted: Path) -> None:
    """Another process holds the model: the fault is logged and tried again in the next round."""
    version = publish(store, losses(0.5, 0.6), fitted)
    promote(store, NAME, version, now_s=1.0)
    keeper = ModelKeeper(store.root, Counter())
    with store.writing(NAME):
        keeper.after_round((TrainedState(NAME, version, "it gives NaN"),), [], 5.0)
    assert store.pointer(NAME).version == version
