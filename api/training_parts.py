"""Parts of a training that are kept as they are finished, so that one that was killed goes on where it stopped."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np

from api.training_data import Stretch
from api.training_windows import Fold, known_at, learnt_from, truth_after
from models.backtest import score_window
from models.base import Forecaster
from models.gbdt import Gbdt
from models.promotion_scores import PERSISTENCE, Losses
from models.quantiles import Floats
from models.store_files import read_npz, write_npz
from models.store_manifest import MEND
from telemetry.errors import IncompatibleModel, NotFitted

LOSS, IN80, IN95, COUNT = 0, 3, 4, 5
"""Columns of ``models.backtest.FIELDS``."""
FEW_JOBS = 8
"""From so many jobs on, jobs are drawn in the bootstrap; below it, windows of jobs."""
T = TypeVar("T")
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """How a model is trained.

    Args:
        horizon: steps ahead.
        context_points: most points that a forecast rests on.
        windows: most forecasts scored per origin.
        trees: boosting rounds.
        leaves: per tree.
        rows: most training examples.
        seed: of everything drawn.
    """

    horizon: int
    context_points: int
    windows: int = 40
    trees: int = 120
    leaves: int = 31
    rows: int = 60_000
    seed: int = 0


@dataclass(slots=True)
class Parts:
    """Fits and scores of one training.

    Args:
        folder: where finished parts lie.
        stretches: what is learnt from.
        folds: origins.
        plan: how.
        total: parts expected, for the progress.
        progress: told of each part, done or found.
    """

    folder: Path
    stretches: Sequence[Stretch]
    folds: Sequence[Fold]
    plan: Plan
    total: int
    progress: Progress
    done: int = 0
    found: int = 0
    _series: dict[tuple[str, int, str], int] = field(default_factory=dict)

    def booster(self, fold: int) -> Forecaster | None:
        """The booster fitted before an origin; None where the history has too few examples."""
        place, none = self.folder / f"fold-{fold}-gbdt", self.folder / f"fold-{fold}-gbdt.none"
        if none.is_file():
            return self._step(f"origin {fold + 1}: no booster", None, True)
        if place.is_dir():
            try:
                return self._step(f"origin {fold + 1}: booster", Gbdt.load(place), True)
            except IncompatibleModel:
                shutil.rmtree(place)  # made by another version, or damaged: fitted again
        plan = self.plan
        model = Gbdt(trees=plan.trees, leaves=plan.leaves, most_rows=plan.rows, seed=plan.seed)
        pieces = learnt_from(self.stretches, self.folds[fold].until_s, plan.context_points)
        try:
            model.fit(pieces, plan.horizon)
        except NotFitted:
            none.touch()
            return self._step(f"origin {fold + 1}: too little history for a booster", None, False)
        draft = self.folder / f".fold-{fold}-gbdt"
        shutil.rmtree(draft, ignore_errors=True)
        model.save(draft)
        draft.replace(place)
        # As it will be loaded: text keeps every digit that counts, and what is judged is what will serve.
        return self._step(f"origin {fold + 1}: booster fitted", Gbdt.load(place), False)

    def scores(self, fold: int, name: str, model: Callable[[], Forecaster]) -> Floats:
        """(n, 6) series, block, loss, hits at 80 % and 95 %, truths: a row per (window, series) of one model."""
        place = self.folder / f"fold-{fold}-{name}.npz"
        what = f"origin {fold + 1}: {name}"
        if place.is_file():
            try:
                return self._step(what, read_npz(place)["rows"], True)
            except (IncompatibleModel, KeyError):
                place.unlink()
        rows = self._score(fold, model())
        write_npz(place, {"rows": rows})
        return self._step(what, rows, False)

    def _score(self, fold: int, model: Forecaster) -> Floats:
        plan = self.plan
        windows = self.folds[fold].windows
        few = len({self.stretches[w.stretch].job for w in windows}) < FEW_JOBS
        jobs: dict[str, int] = {}
        found: list[Floats] = []
        for number, window in enumerate(windows):
            stretch = self.stretches[window.stretch]
            context = known_at(self.stretches, window, plan.context_points)
            truth = truth_after(self.stretches, window, plan.horizon)
            sums = score_window(model.predict(context, plan.horizon), truth, context.values)
            block = number if few else jobs.setdefault(stretch.job, len(jobs))
            keys = zip(context.group.tolist(), context.metric, strict=True)
            series = [self._number(stretch.job, group, metric) for group, metric in keys]
            rows = np.column_stack([series, np.full(len(series), block), sums[:, [LOSS, IN80, IN95, COUNT]]])
            found.append(rows[sums[:, COUNT] > 0])
        return np.concatenate(found) if found else np.empty((0, 6))

    def _number(self, job: str, group: int, metric: str) -> int:
        if not self._series:  # the same numbers in every run, whichever parts are found
            for stretch in self.stretches:
                for g, m in zip(stretch.context.group.tolist(), stretch.context.metric, strict=True):
                    self._series.setdefault((stretch.job, g, m), len(self._series))
        return self._series[(job, group, metric)]

    def _step(self, what: str, value: T, found: bool) -> T:
        self.done += 1
        self.found += found
        self.progress(min(self.done, self.total), self.total, what)
        return value


def together(scores: dict[str, list[Floats]], judged: str) -> Losses:
    """Scores of several models on the same windows as one table; origins stay apart as blocks.

    Raises:
        IncompatibleModel: parts of different trainings lie together.
    """
    joined = {name: _joined(parts) for name, parts in scores.items()}
    base = joined[PERSISTENCE]
    if any(rows.shape != base.shape or (rows[:, :2] != base[:, :2]).any() for rows in joined.values()):
        raise IncompatibleModel("parts of different trainings lie together", mend=MEND)
    mine = joined[judged]
    return Losses(
        base[:, 0].astype(np.int64),
        base[:, 1].astype(np.int64),
        {name: rows[:, 2] for name, rows in joined.items()},
        mine[:, 3],
        mine[:, 4],
        mine[:, 5],
    )


def _joined(parts: list[Floats]) -> Floats:
    moved: list[Floats] = []
    for number, part in enumerate(parts):
        copy = part.copy()
        copy[:, 1] += number * 1_000_000
        moved.append(copy)
    return np.concatenate(moved)
