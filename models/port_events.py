"""The chance of an event on a port, learnt from other moments and other ports, with gradient-boosted trees.

LightGBM is imported on first use, so that a service without a trained model never loads it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.quantiles import Floats
from models.saved import read_state, write_state
from telemetry.errors import NotFitted

LEAST_EVENTS = 20
"""Fewer events, or fewer moments without, teach nothing."""
BOOSTER = "booster.txt"


class PortEvents:
    """A LightGBM model of one event.

    Args:
        trees: boosting rounds.
        leaves: leaves per tree.
        least_leaf: examples per leaf.
        rate: learning rate.
        columns: share of the features that a tree sees.
        seeds: one booster per seed; their mean is given.
    """

    name = "port_events"
    version = "1"

    def __init__(
        self,
        *,
        trees: int = 150,
        leaves: int = 15,
        least_leaf: int = 30,
        rate: float = 0.05,
        columns: float = 0.5,
        seeds: tuple[int, ...] = (0,),
    ) -> None:
        self.trees, self.leaves, self.least_leaf, self.seeds = trees, leaves, least_leaf, seeds
        self.rate, self.columns = rate, columns
        self.boosters: list[Any] = []

    def fit(self, features: NDArray[np.floating], event: NDArray[np.bool_]) -> None:
        """Learn from examples.

        Args:
            features: (n_examples, n_features), NaN where unknown.
            event: (n_examples,) whether it came.

        Raises:
            NotFitted: under 20 events, or under 20 moments without.
        """
        count = int(event.sum())
        if min(count, event.size - count) < LEAST_EVENTS:
            raise NotFitted(
                f"{count} events in {event.size} examples: {LEAST_EVENTS} of each kind are needed",
                mend="Give a longer past, or more ports that show the event",
            )
        import lightgbm

        self.boosters = []
        for seed in self.seeds:
            data = lightgbm.Dataset(features, event.astype(np.float64), params={"max_bin": 127, "verbosity": -1})
            self.boosters.append(lightgbm.train(self._settings(seed), data, num_boost_round=self.trees))

    def _settings(self, seed: int) -> dict[str, Any]:
        return {
            "objective": "binary",
            "num_leaves": self.leaves,
            "learning_rate": self.rate,
            "min_data_in_leaf": self.least_leaf,
            "feature_fraction": self.columns,
            "bagging_fraction": 0.7,
            "bagging_freq": 1,
            "lambda_l2": 5.0,
            "max_bin": 127,
            "num_threads": 1,
            "deterministic": True,
            "force_col_wise": True,
            "seed": seed,
            "verbosity": -1,
        }

    def predict(self, features: NDArray[np.floating]) -> Floats:
        """(n,) chance of the event.

        Raises:
            NotFitted: ``fit`` or ``load`` first.
        """
        if not self.boosters:
            raise NotFitted("port_events has no trained model", mend="Train one with gpucast train")
        said = [np.asarray(booster.predict(features, num_threads=1), np.float64) for booster in self.boosters]
        result: Floats = np.mean(said, axis=0)
        return result

    def save(self, folder: Path) -> None:
        """Write LightGBM text files and a manifest with their digests."""
        folder.mkdir(parents=True, exist_ok=True)
        files = tuple(f"{k}-{BOOSTER}" for k in range(len(self.boosters)))
        for booster, file in zip(self.boosters, files, strict=True):
            (folder / file).write_text(booster.model_to_string(), encoding="utf-8")
        write_state(folder, self.name, self.version, {"boosters": len(files)}, files)

    @classmethod
    def load(cls, folder: Path) -> PortEvents:
        """Read back what ``save`` wrote.

        Raises:
            IncompatibleModel: another version or a changed file.
        """
        import lightgbm

        state = read_state(folder, cls.name, cls.version)
        model = cls()
        model.boosters = [
            lightgbm.Booster(model_str=(folder / f"{k}-{BOOSTER}").read_text(encoding="utf-8"))
            for k in range(int(state["boosters"]))
        ]
        return model
