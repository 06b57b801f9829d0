"""Who becomes champion."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from models.promotion import BUILT_IN, differences, judge, promote, quarantine, rollback, verdict_of
from models.promotion_scores import ratios, skill
from models.store import ModelStore
from telemetry.errors import IncompatibleModel, ModelError
from tests.kit.trained_models import NAME, losses, publish


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    return ModelStore(tmp_path / "models")


def test_better_than_both_is_promoted() -> None:
    """A challenger with a tenth less loss than its rival, and half of persistence's, passes with its figures."""
    verdict = judge(losses(0.5, 0.6), BUILT_IN)

    assert verdict.promote
    assert verdict.gains[BUILT_IN].value == pytest.approx(0.1, abs=0.01)
    assert verdict.gains["persistence"].low > 0.45


@pytest.mark.parametrize(
    ("mine", "rival", "blamed"),
    [
        (0.6, 0.5, "the built-in models"),
        (0.5, 0.5, "the built-in models"),
        (1.1, 1.2, "persistence"),
        (1.0, 0.8, "persistence and"),
    ],
)
def test_no_better_is_refused_with_figures(mine: float, rival: float, blamed: str) -> None:
    """Worse, or equal up to noise, than either is refused, and the sentence names which and shows the interval."""
    verdict = judge(losses(mine, rival), BUILT_IN)

    assert not verdict.promote
    assert f"not better beyond doubt than {blamed}" in verdict.reason
    assert "95 %" in verdict.reason


def test_few_windows_say_nothing() -> None:
    """Seven blocks are not enough, however good the figures."""
    assert "7 separate jobs" in judge(losses(0.1, 0.9, blocks=7), BUILT_IN).reason


def test_the_bootstrap_draws_blocks_alike_for_all() -> None:
    """A model that always loses twice as much as another has exactly twice its ratio in every draw."""
    table = losses(0.4, 0.5, noise=0.0)
    both = ratios(table, ["challenger", BUILT_IN])

    np.testing.assert_allclose(both[:, 1] / both[:, 0], 1.25)
    assert skill(table, "persistence").value == 0.0


def test_promote_and_roll_back(store: ModelStore) -> None:
    """The pointer moves to what passed, and back to the former champion, then to the built-in models; all is told."""
    first = publish(store, losses(0.5, 0.6), None, mark="a")
    assert promote(store, NAME, first, now_s=10.0).promote
    second = publish(store, losses(0.4, 0.5, rival=first), None, mark="b", beside=first)
    assert promote(store, NAME, second, now_s=20.0).promote
    assert store.pointer(NAME).before == ("", first)

    assert rollback(store, NAME, now_s=30.0, why="a test") == first
    assert rollback(store, NAME, now_s=40.0, why="a test") == ""
    with pytest.raises(ModelError, match="has no champion"):
        rollback(store, NAME, now_s=50.0, why="a test")
    assert [event.kind for event in store.events(NAME)] == ["promoted", "promoted", "rolled_back", "rolled_back"]


def test_a_refusal_leaves_the_champion(store: ModelStore) -> None:
    """A worse challenger is refused, the champion stays, and the refusal is told with its figures."""
    first = publish(store, losses(0.5, 0.6), None, mark="a")
    promote(store, NAME, first, now_s=10.0)
    worse = publish(store, losses(0.55, 0.5, rival=first), None, mark="b", beside=first)

    verdict = promote(store, NAME, worse, now_s=20.0)

    assert not verdict.promote
    assert store.pointer(NAME).version == first
    assert store.events(NAME)[-1].kind == "refused"
    assert f"champion {first}" in store.events(NAME)[-1].reason


def test_only_judged_beside_the_present_champion(store: ModelStore) -> None:
    """One that was judged beside another champion must be judged again."""
    first = publish(store, losses(0.5, 0.6), None, mark="a")
    other = publish(store, losses(0.3, 0.6), None, mark="b")
    promote(store, NAME, first, now_s=10.0)

    assert "never judged beside the champion" in verdict_of(store, NAME, other).reason


def test_quarantine_goes_back_and_bars(store: ModelStore) -> None:
    """A barred champion is replaced at once and is not promoted again."""
    first = publish(store, losses(0.5, 0.6), None, mark="a")
    promote(store, NAME, first, now_s=10.0)

    assert quarantine(store, NAME, first, now_s=20.0, why="it gives values that are not finite") == ""
    assert "in quarantine" in promote(store, NAME, first, now_s=30.0).reason


def test_a_damaged_former_champion_is_passed_over(store: ModelStore) -> None:
    """Going back skips versions whose files changed."""
    first = publish(store, losses(0.5, 0.6), None, mark="a")
    promote(store, NAME, first, now_s=10.0)
    second = publish(store, losses(0.4, 0.5, rival=first), None, mark="b")
    promote(store, NAME, second, now_s=20.0)
    (store.folder(NAME, first) / "losses.npz").write_bytes(b"damaged")

    assert rollback(store, NAME, now_s=30.0, why="a test") == ""


def test_one_writer_at_a_time(store: ModelStore) -> None:
    """While one process works on a model another is told so."""
    version = publish(store, losses(0.5, 0.6), None)
    with store.writing(NAME), pytest.raises(ModelError, match="another process works"):
        promote(store, NAME, version, now_s=1.0)


def test_differences_side_by_side(store: ModelStore) -> None:
    """What two versions differ in, and nothing else."""
    first, second = (publish(store, losses(0.5, 0.6), None, mark=mark) for mark in "ab")
    found = differences(store.manifest(NAME, first), store.manifest(NAME, second))

    assert found == [("version", first, second), ("parameters.mark", "a", "b"), ("data.sha256", "a", "b")]


@pytest.mark.parametrize("name", ["../jobs", "jobs/1", "", "Jobs", "a" * 80])
def test_names_stay_inside(store: ModelStore, name: str) -> None:
    """No name leads out of the store."""
    with pytest.raises(ModelError):
        store.folder(name)
    with pytest.raises((ModelError, IncompatibleModel)):
        store.manifest(NAME, "../../x")
