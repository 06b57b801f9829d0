"""Scores of chances: average precision, F1 at a threshold chosen elsewhere, Brier skill, AUC; intervals over ports."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
DRAWS = 300
RECALL = 0.85


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """Answers to be scored, a row per (port, origin).

    Args:
        truth: (m,) 1 or 0.
        chance: (m,) what a model said.
        base: (m,) what the port's climatology said.
        port: (m,) number of the port.
        threshold: above it the model says yes.
    """

    truth: Floats
    chance: Floats
    base: Floats
    port: NDArray[np.intp]
    threshold: float


def best_threshold(truth: Floats, chance: Floats) -> float:
    """The threshold of greatest F1; 0.5 where nothing happened."""
    if not truth.any():
        return 0.5
    order = np.argsort(-chance, kind="stable")
    hits = np.cumsum(truth[order])
    f1 = 2 * hits / (np.arange(1, order.size + 1) + truth.sum())
    last = np.append(np.diff(chance[order]) != 0, True)
    best = int(np.where(last, f1, -1.0).argmax())
    below = chance[order][best + 1] if best + 1 < order.size else chance[order][best] - 1e-9
    return float((chance[order][best] + below) / 2)


def figures(one: Scored, seed: int = 0) -> dict[str, tuple[float, float, float]]:
    """Figure -> (value, low, high); the ends are of the 95 % interval when ports are drawn with replacement."""
    order = np.argsort(-one.chance, kind="stable")
    truth, port = one.truth[order], one.port[order]
    edge = np.append(np.diff(one.chance[order]) != 0, True)
    ports, place = np.unique(port, return_inverse=True)
    yes = one.chance[order] > one.threshold
    sums = np.stack(
        [
            np.bincount(place, column, ports.size)
            for column in (
                yes * truth,
                yes.astype(np.float64),
                truth,
                (one.chance[order] - truth) ** 2,
                (one.base[order] - truth) ** 2,
                np.ones(truth.size),
            )
        ]
    )

    def all_of(weight: Floats) -> Floats:
        return np.array([*_of_sums(sums @ weight), *_of_ranks(truth, weight[place], edge)])

    random = np.random.default_rng(seed)
    drawn = np.stack(
        [
            all_of(np.bincount(random.integers(0, ports.size, ports.size), minlength=ports.size).astype(np.float64))
            for _ in range(DRAWS)
        ]
    )
    value = all_of(np.ones(ports.size))
    names = ("F1", "precision", "recall", "brier_skill", "base_rate", "AP", "AUC", "precision_at_recall_85")
    out = {}
    for k, name in enumerate(names):
        known = drawn[:, k][np.isfinite(drawn[:, k])]
        ends = np.quantile(known, [0.025, 0.975]) if known.size else np.array([np.nan, np.nan])
        out[name] = (float(value[k]), float(ends[0]), float(ends[1]))
    return out


def _of_sums(total: Floats) -> tuple[float, ...]:
    hits, said, came, loss, base, count = (float(x) for x in total)
    nothing = float("nan")
    return (
        2 * hits / (said + came) if said + came else nothing,
        hits / said if said else nothing,
        hits / came if came else nothing,
        1 - loss / base if base else nothing,
        came / count if count else nothing,
    )


def _of_ranks(truth: Floats, weight: Floats, edge: NDArray[np.bool_]) -> tuple[float, float, float]:
    """Average precision, area under the ROC curve, best precision at a recall of .85 or more; rows in falling order."""
    hits = np.cumsum(weight * truth)[edge]
    said = np.cumsum(weight)[edge]
    events, others = hits[-1], said[-1] - hits[-1]
    if events == 0:
        return float("nan"), float("nan"), float("nan")
    precision = hits / np.maximum(said, 1e-300)
    recall = hits / events
    average = float((np.diff(recall, prepend=0.0) * precision).sum())
    wrong = (said - hits) / others if others else np.ones_like(said)
    area = float(np.trapezoid(np.append(0.0, recall), np.append(0.0, wrong))) if others else float("nan")
    return average, area, float(precision[recall >= RECALL - 1e-12].max())


def leads_s(
    alarm: NDArray[np.bool_], asked: NDArray[np.bool_], hot: Floats, within: int, step_s: float
) -> tuple[Floats, NDArray[np.intp]]:
    """Seconds from the first alarm to the start of the bin with the hot sample, 0 for a miss; and the port of each onset.

    Args:
        alarm: (n, t) the model said yes at the end of this bin.
        asked: (n, t) the question was asked there.
        hot: (n, t) 1 where a bin is hot.
        within: bins ahead that the question covers.
        step_s: length of a bin.
    """
    lead: list[float] = []
    port: list[int] = []
    for row, column in zip(*np.nonzero(hot == 1), strict=True):
        before = np.arange(max(0, column - within), column)
        open_ = before[asked[row, before]]
        # Only the first hot bin after the quiet minute is an onset: the question was asked in the bins just before it.
        if not open_.size or (hot[row, open_[-1] + 1 : column] == 1).any():
            continue
        said = open_[alarm[row, open_]]
        lead.append(float((column - said[0] - 1) * step_s) if said.size else 0.0)
        port.append(int(row))
    return np.array(lead), np.array(port, np.intp)
