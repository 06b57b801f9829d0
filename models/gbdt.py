"""Gradient-boosted quantiles of the difference from the last value, one model for all rows and leads.

LightGBM is imported on first use, so that a service without a trained model never loads it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from features.frame import Context
from models.base import LEVELS, Forecaster
from models.gbdt_features import FARTHEST, Snapshot, snapshot
from models.moving_mean import anchor_steps, between_anchors
from models.persistence import Persistence
from models.quantiles import Floats, keep_laws
from models.saved import read_state, write_state
from telemetry.errors import NotFitted

FITTED: tuple[float, ...] = (0.025, 0.1, 0.3, 0.5, 0.7, 0.9, 0.975)
"""Levels with a model of their own; the others lie between them."""
LEAST_ROWS = 200
"""Fewer training rows than this give no model."""


class Gbdt:
    """A LightGBM model per quantile level.

    Args:
        anchors: leads with an answer of their own, leads between are interpolated; a few from 1 to the horizon if None.
        trees: boosting rounds.
        leaves: leaves per tree.
        most_rows: training rows kept, drawn at random.
        origins: cutoffs tried inside each training context.
        seed: of the draw and of LightGBM.
    """

    name = "gbdt"
    version = "1"

    def __init__(
        self,
        anchors: tuple[int, ...] | None = None,
        *,
        trees: int = 120,
        leaves: int = 31,
        most_rows: int = 60_000,
        origins: int = 12,
        seed: int = 0,
    ) -> None:
        self.anchors = list(anchors) if anchors else None
        self.trees, self.leaves, self.most_rows, self.origins, self.seed = trees, leaves, most_rows, origins, seed
        self.metrics: list[str] = []
        self.horizon = 0
        self.boosters: list[Any] = []

    def fit(self, contexts: list[Context], horizon: int) -> None:
        """Learn from cutoffs inside the contexts; no feature looks past its cutoff, no target lies in a gap.

        Raises:
            NotFitted: under 200 usable rows; constant rows are left out, the others still count.
        """
        self.horizon = horizon
        self.anchors = [a for a in self.anchors or anchor_steps(horizon, 6) if a <= horizon]
        self.metrics = sorted({metric for context in contexts for metric in context.metric})
        features, targets, weights = self._examples(contexts, horizon)
        if targets.shape[0] < LEAST_ROWS:
            raise NotFitted(
                f"gbdt found {targets.shape[0]} usable training rows and needs {LEAST_ROWS}",
                mend="Give longer history, or rows that move",
            )
        import lightgbm

        self.boosters = []
        data = lightgbm.Dataset(
            features, targets, weight=weights, free_raw_data=False, params={"max_bin": 127, "verbosity": -1}
        )
        for level in FITTED:
            self.boosters.append(lightgbm.train(self._settings(level), data, num_boost_round=self.trees))

    def _settings(self, level: float) -> dict[str, Any]:
        return {
            "objective": "quantile",
            "alpha": level,
            "num_leaves": self.leaves,
            "learning_rate": 0.08,
            "min_data_in_leaf": 40,
            "feature_fraction": 0.7,
            "max_bin": 127,
            "num_threads": 1,
            "deterministic": True,
            "force_col_wise": True,
            "seed": self.seed,
            "verbosity": -1,
        }

    def _examples(self, contexts: list[Context], horizon: int) -> tuple[Floats, Floats, Floats]:
        features: list[Floats] = []
        targets: list[Floats] = []
        weights: list[Floats] = []
        for context in contexts:
            first, last = context.n_points // 2, context.n_points - 1
            for cutoff in np.unique(np.linspace(first, last, self.origins + 2).astype(int))[1:-1]:
                taken = self._snapshot(context.until(int(cutoff)), horizon)
                for k, lead in enumerate(self.anchors or []):
                    if cutoff + lead > context.n_points:
                        continue
                    truth = context.values[:, cutoff + lead - 1]
                    usable = (taken.scale > 0) & np.isfinite(truth)
                    gap = (truth[usable] - taken.base[usable]) / taken.scale[usable]
                    features.append(taken.at(k, lead)[usable])
                    targets.append(np.clip(gap, -FARTHEST, FARTHEST))
                    weights.append(row_weights(taken.scale, self._codes(context))[usable])
        if not features:
            return np.empty((0, 1)), np.empty(0), np.empty(0)
        x, y, w = np.concatenate(features), np.concatenate(targets), np.concatenate(weights)
        if y.shape[0] > self.most_rows:
            chosen = np.random.default_rng(self.seed).choice(y.shape[0], self.most_rows, replace=False)
            x, y, w = x[chosen], y[chosen], w[chosen]
        return x, y, w

    def _snapshot(self, context: Context, horizon: int) -> Snapshot:
        return snapshot(context, self.anchors or [1], horizon, self._codes(context))

    def _codes(self, context: Context) -> Floats:
        number = {metric: float(k) for k, metric in enumerate(self.metrics)}
        return np.array([number.get(metric, np.nan) for metric in context.metric])

    def predict(self, context: Context, horizon: int) -> Floats:
        """Quantile cube (n_series, horizon, n_levels); rows that stand still are answered by persistence.

        A horizon beyond the one fitted repeats the spread of the last lead known.

        Raises:
            NotFitted: ``fit`` or ``load`` first.
        """
        if not self.boosters or not self.anchors:
            raise NotFitted("gbdt has no trained model", mend="Train one with gpucast train")
        naive = Persistence().predict(context, horizon)
        if context.n_points < 2:
            return naive
        taken = self._snapshot(context, self.horizon)
        near = [a for a in self.anchors if a <= horizon]
        near += self.anchors[len(near) : len(near) + 1]
        moving = np.flatnonzero(taken.scale > 0)
        if not moving.size:
            return naive
        stacked = np.concatenate([taken.at(k, lead)[moving] for k, lead in enumerate(near)])
        fitted = np.stack([booster.predict(stacked, num_threads=1) for booster in self.boosters], axis=-1)
        fitted = np.sort(fitted, axis=-1).reshape(len(near), moving.size, len(FITTED)).transpose(1, 0, 2)
        cube = between_levels(between_anchors(fitted, near, horizon))
        cube = taken.base[moving, None, None] + cube * taken.scale[moving, None, None]
        naive[moving] = cube
        return keep_laws(naive, context.low, context.high)

    def save(self, folder: Path) -> None:
        """Write LightGBM text files and a manifest with their digests."""
        folder.mkdir(parents=True, exist_ok=True)
        files = tuple(f"q{level}.txt" for level in FITTED[: len(self.boosters)])
        for booster, file in zip(self.boosters, files, strict=True):
            (folder / file).write_text(booster.model_to_string(), encoding="utf-8")
        state = {"anchors": self.anchors, "metrics": self.metrics, "horizon": self.horizon, "trees": self.trees}
        write_state(folder, self.name, self.version, state, files)

    @classmethod
    def load(cls, folder: Path) -> Forecaster:
        """Read back what ``save`` wrote.

        Raises:
            IncompatibleModel: another version or a changed file.
        """
        import lightgbm

        state = read_state(folder, cls.name, cls.version)
        model = cls(trees=int(state["trees"]))
        model.anchors = None if state["anchors"] is None else [int(a) for a in state["anchors"]]
        model.metrics, model.horizon = [str(m) for m in state["metrics"]], int(state["horizon"])
        texts = [(folder / f"q{level}.txt") for level in FITTED]
        model.boosters = [
            lightgbm.Booster(model_str=text.read_text(encoding="utf-8")) for text in texts if text.is_file()
        ]
        return model


def row_weights(scale: Floats, code: Floats) -> Floats:
    """(n,) weight of each row's examples: its local variation against the typical one of its metric, within 1/20 and 20.

    Errors are learnt in units of the row's variation; without weights a busy link would count no more than an idle one.
    """
    weight = np.ones_like(scale)
    for metric in np.unique(code[np.isfinite(code)]):
        rows = (code == metric) & (scale > 0)
        if rows.any():
            weight[rows] = np.clip(scale[rows] / np.median(scale[rows]), 0.05, 20.0)
    return weight


def between_levels(fitted: Floats) -> Floats:
    """(..., n_fitted) -> (..., n_levels): linear between the fitted levels."""
    position = np.interp(LEVELS, FITTED, np.arange(len(FITTED), dtype=np.float64))
    below = np.minimum(np.floor(position).astype(np.intp), len(FITTED) - 2)
    share = position - below
    result: Floats = fitted[..., below] * (1 - share) + fitted[..., below + 1] * share
    return result
