"""Small trained models, and losses that say what a test wants them to say."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

from features.frame import Context
from models.gbdt import Gbdt
from models.promotion import BUILT_IN, LOSSES
from models.promotion_scores import PERSISTENCE, Losses
from models.store import ModelStore
from models.store_files import write_npz
from models.store_manifest import CHALLENGER, Figure, Manifest, version_of
from models.store_recipes import RECIPES, describe
from tests.kit.training_store import METRICS, signals

NAME = "jobs-1s"


def context(job: int = 0, points: int = 300) -> Context:
    """One job's totals."""
    return Context(signals(job, points), 1.0, METRICS, np.zeros(3, np.int32), np.zeros(3), np.array([1.0, 1.0, np.inf]))


def booster(folder: Path) -> Path:
    """A small saved booster."""
    model = Gbdt(trees=3, leaves=7)
    model.fit([context(job) for job in range(3)], 12)
    model.save(folder)
    return folder


def losses(
    challenger: float, champion: float, *, blocks: int = 40, rival: str = BUILT_IN, noise: float = 0.02
) -> Losses:
    """Losses as shares of persistence's, over blocks of three series each."""
    random = np.random.default_rng(3)
    n = 3 * blocks
    base = random.uniform(1, 2, n)

    def of(share: float) -> np.ndarray:
        return base * share * (1 + noise * random.normal(size=n))

    rows = {PERSISTENCE: base, CHALLENGER: of(challenger), rival: of(champion)}
    block = np.repeat(np.arange(blocks), 3)
    return Losses(np.arange(n), block, rows, np.full(n, 8.0), np.full(n, 9.5), np.full(n, 10.0))


def publish(
    store: ModelStore, table: Losses, gbdt: Path | None, *, mark: str = "a", beside: str = "", created_s: float = 1.0
) -> str:
    """Put a version into the store; gives it."""
    recipe = "served+gbdt" if gbdt else "served-10-origins"
    version = version_of({"mark": mark})
    made = store.folder(NAME) / ".work" / f"made-{mark}"
    made.mkdir(parents=True)
    if gbdt:
        shutil.copytree(gbdt, made / "gbdt")
    write_npz(made / LOSSES, table.arrays())
    figures = {"challenger": {"skill": Figure(0.5, 0.4, 0.6)}}
    parameters = {"recipe": describe(RECIPES[recipe]), "mark": mark}
    store.publish(
        made,
        Manifest(NAME, version, recipe, parameters, 0, {"gpucast": "test"}, {"sha256": mark}, figures, {"beside": beside},
                 {}, created_s),
    )  # fmt: skip
    return version
