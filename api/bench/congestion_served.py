"""The trained answers of ``bench congestion``: features of every origin once, then models per task.

``lightgbm`` sees a port's own past and its switch's; ``served`` is the plain share of look-alike moments of the port's
group that were followed by the event, without training; ``blend`` is trained on both and runs nowhere else.

The service foresees links by such moments (``forecast.predict.moments``), but with one comparison in place of the three
here, and where that did best on the link's own past.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from api.bench.congestion_data import Fabric
from api.bench.congestion_rivals import climatology
from api.bench.congestion_tasks import LULL_SHARE, UNSEEN_S, Task, known_median
from models.port_events import PortEvents
from models.port_features import MOMENTS_COLUMNS, PortView, event_features, port_view
from models.port_groups import traffic_groups
from telemetry.errors import NotFitted

Floats = NDArray[np.float64]
Progress = Callable[[str], None]
FOLDS = 4
EVERY, MANY_PORTS = 3, 200
"""Of the training origins only each third is used where more ports than this are asked."""
LEADS = (1, 6, 12, 60)
SETTLED_BINS = 150
"""Moments say little before this many bins: what they said earlier would teach to distrust them."""


@dataclass(slots=True)
class Examples:
    """Rows of one task: features and where they belong."""

    plain: list[NDArray[np.float32]] = field(default_factory=list)
    more: list[NDArray[np.float32]] = field(default_factory=list)
    moments: list[Floats] = field(default_factory=list)
    row: list[NDArray[np.intp]] = field(default_factory=list)
    column: list[NDArray[np.intp]] = field(default_factory=list)


def collect(fabric: Fabric, asked: list[Task], part: str, say: Progress) -> dict[str, Examples]:
    """Features of every task at every origin that teaches, chooses or belongs to ``part``; nothing looks past its origin."""
    out = {task.name: Examples() for task in asked}
    usual = {task.name: climatology(fabric, task) for task in asked}
    past = fabric.past()
    unseen = round(UNSEEN_S / fabric.step_s)
    for origin in range(fabric.first_origin, fabric.n_bins):
        due = [task for task in asked if _due(fabric, task, origin, part)]
        if origin % 60 == 0:
            say(f"features at bin {origin} of {fabric.n_bins}")
        for points in {unseen if task.unseen else 0 for task in due}:
            view = port_view(past.until(origin + 1, points or None), LEADS[:3] if points else LEADS)
            for task in due:
                if task.unseen == bool(points):
                    _add(out[task.name], fabric, task, view, usual[task.name][:, origin], origin, points)
    return out


def _due(fabric: Fabric, task: Task, origin: int, part: str) -> bool:
    if not np.isfinite(task.truth[task.active, origin]).any():
        return False
    if origin in fabric.origins("training", task.horizon):
        return origin % EVERY == 0 or int(task.active.sum()) <= MANY_PORTS
    return any(origin in fabric.origins(which, task.horizon) for which in ("middle", part))


def _add(to: Examples, fabric: Fabric, task: Task, view: PortView, usual: Floats, origin: int, points: int) -> None:
    rows = np.flatnonzero(task.active & np.isfinite(task.truth[:, origin]))
    first = origin + 1 - points if points else 0
    state = task.state[:, first : origin + 1]
    until = min(origin + 1, fabric.training_end)
    level = LULL_SHARE * known_median(fabric.traffic[:, :until])
    if points:
        # What a lull is has to be told from the few minutes known.
        level = LULL_SHARE * known_median(fabric.traffic[:, first : origin + 1])
        values = fabric.traffic[:, first : origin + 1]
        state = np.where(np.isfinite(values), (values < level[:, None]).astype(np.float64), np.nan)
    plain, more = event_features(view, state, task.leads, usual, level)
    to.plain.append(plain[rows].astype(np.float32))
    to.more.append(more[rows].astype(np.float32))
    to.moments.append(more[rows, MOMENTS_COLUMNS])
    to.row.append(rows)
    to.column.append(np.full(rows.size, origin, np.intp))


def trained(fabric: Fabric, task: Task, examples: Examples, seed: int) -> dict[str, Floats]:
    """Model -> (n, t) chance, NaN where not asked.

    ``blend`` is the mean of the moments, a cautious model of all features, and, for ports that were seen while it was
    trained, the plain one.
    """
    row, column = np.concatenate(examples.row), np.concatenate(examples.column)
    truth = task.truth[row, column].astype(np.bool_)
    usual = climatology(fabric, task)[row, column]
    share = np.concatenate(examples.moments)
    known = np.isfinite(share)
    said = np.where(known, share, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    moments = np.where(known.any(axis=1), said, usual)
    learning = np.isin(column, fabric.origins("training", task.horizon))
    folds = _folds(fabric, task, row)
    own = np.concatenate(examples.plain)
    plain = _answers(PortEvents(seeds=(seed,)), own, truth, learning, folds, usual)
    cautious = PortEvents(trees=200, leaves=6, least_leaf=100, columns=0.3, seeds=(seed,))
    settled = learning & (column >= SETTLED_BINS)
    everything = np.hstack([own, np.concatenate(examples.more)])
    whole = _answers(cautious, everything, truth, settled, folds, usual, learning)
    together = (moments, whole) if task.unseen else (moments, whole, plain)
    answers = {"served": moments, "lightgbm": plain, "blend": np.mean(together, axis=0)}
    return {name: _grid(task, row, column, chance) for name, chance in answers.items()}


def _answers(
    model: PortEvents,
    features: NDArray[np.float32],
    truth: NDArray[np.bool_],
    teaching: NDArray[np.bool_],
    folds: list[tuple[NDArray[np.bool_], NDArray[np.bool_]]],
    usual: Floats,
    learning: NDArray[np.bool_] | None = None,
) -> Floats:
    """Chances where nothing is learnt; climatology's where there is too little to learn from."""
    asked = ~(teaching if learning is None else learning)
    said = np.full(truth.size, np.nan)
    for known, unknown in folds:
        try:
            model.fit(features[teaching & known], truth[teaching & known])
            said[asked & unknown] = model.predict(features[asked & unknown])
        except NotFitted:
            said[asked & unknown] = usual[asked & unknown]
    return said


def _folds(fabric: Fabric, task: Task, row: NDArray[np.intp]) -> list[tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
    """Which examples teach and which are asked: all for a known job; for a job never seen, other jobs teach."""
    if not task.unseen:
        everything = np.ones(row.size, np.bool_)
        return [(everything, everything)]
    group = traffic_groups(fabric.traffic[:, fabric.first_origin : fabric.training_end])
    size = np.bincount(group)
    load, fold = np.zeros(FOLDS), np.zeros(size.size, np.intp)
    for g in np.argsort(-size, kind="stable"):
        fold[g] = load.argmin()
        load[fold[g]] += size[g]
    mine = fold[group][row]
    return [(mine != k, mine == k) for k in range(FOLDS)]


def _grid(task: Task, row: NDArray[np.intp], column: NDArray[np.intp], said: Floats) -> Floats:
    out = np.full(task.truth.shape, np.nan)
    out[row, column] = said
    return out
