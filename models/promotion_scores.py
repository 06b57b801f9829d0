"""Losses of several models on the same windows, and what a paired bootstrap says of their skill."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.quantiles import Floats
from models.store_manifest import Figure

DRAWS = 1000
PERSISTENCE = "persistence"
LEAST_RATIO = 1e-3
"""A ratio below this counts as this, so that one perfect series cannot decide alone."""


@dataclass(frozen=True, slots=True, eq=False)
class Losses:
    """Summed losses of some models, a row per (window, series).

    Args:
        series: (n,) number of the series; ratios to persistence are taken per series.
        block: (n,) number of what is drawn together: a job, or a job's window where there are few jobs.
        loss: model -> (n,) summed quantile loss; ``persistence`` is among them.
        in80: (n,) truths inside the 80 % interval of the judged model.
        in95: (n,) of its 95 % interval.
        count: (n,) truths.
    """

    series: NDArray[np.int64]
    block: NDArray[np.int64]
    loss: dict[str, Floats]
    in80: Floats
    in95: Floats
    count: Floats

    def arrays(self) -> dict[str, Floats]:
        """As an npz holds it."""
        found = {f"loss.{name}": values for name, values in self.loss.items()}
        numbers = {"series": self.series.astype(np.float64), "block": self.block.astype(np.float64)}
        return {**found, **numbers, "in80": self.in80, "in95": self.in95, "count": self.count}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Floats]) -> Losses:
        """Back from ``arrays``; KeyError or ValueError when something is missing or of another length."""
        loss = {name.removeprefix("loss."): values for name, values in arrays.items() if name.startswith("loss.")}
        series, block = arrays["series"].astype(np.int64), arrays["block"].astype(np.int64)
        lengths = {
            values.shape for values in (*loss.values(), series, block, *(arrays[k] for k in ("in80", "in95", "count")))
        }
        if len(lengths) != 1 or series.ndim != 1 or PERSISTENCE not in loss:
            raise ValueError("the losses do not fit together")
        return cls(series, block, loss, arrays["in80"], arrays["in95"], arrays["count"])

    @property
    def blocks(self) -> int:
        """How many blocks."""
        return int(np.unique(self.block).size)


def ratios(losses: Losses, names: list[str], *, draws: int = DRAWS, seed: int = 0) -> Floats:
    """(1 + draws, n_names) geometric mean over series of loss against persistence's; row 0 is the sample itself.

    Blocks are drawn with replacement, the same for every model, so that columns may be compared draw by draw. Series
    on which persistence loses nothing are left out.
    """
    series = np.unique(losses.series, return_inverse=True)[1]
    block = np.unique(losses.block, return_inverse=True)[1]
    n_series, n_blocks = (int(codes.max(initial=-1)) + 1 for codes in (series, block))
    if not n_series:
        return np.full((1 + draws, len(names)), np.nan)
    drawn = np.random.default_rng(seed).multinomial(n_blocks, np.full(n_blocks, 1.0 / n_blocks), size=draws)
    weight = np.concatenate([np.ones((1, n_blocks)), drawn])
    base = weight @ _sums(losses.loss[PERSISTENCE], block, series, n_blocks, n_series)
    found = np.empty((1 + draws, len(names)))
    for column, name in enumerate(names):
        mine = weight @ _sums(losses.loss[name], block, series, n_blocks, n_series)
        known = base > 0
        ratio = np.where(known, mine / np.where(known, base, 1.0), 1.0)
        log = np.where(known, np.log(np.maximum(ratio, LEAST_RATIO)), 0.0).sum(axis=1)
        count = known.sum(axis=1)
        found[:, column] = np.where(count > 0, np.exp(log / np.maximum(count, 1)), np.nan)
    return found


def _sums(values: Floats, block: NDArray[np.intp], series: NDArray[np.intp], n_blocks: int, n_series: int) -> Floats:
    sums: Floats = np.zeros(n_blocks * n_series)
    np.add.at(sums, block * n_series + series, values)
    return sums.reshape(n_blocks, n_series)


def interval(values: Floats) -> Figure:
    """Row 0 with the 95 % interval of the others."""
    drawn = values[1:][np.isfinite(values[1:])]
    if not drawn.size:
        return Figure(float(values[0]), float("nan"), float("nan"))
    low, high = np.quantile(drawn, (0.025, 0.975))
    return Figure(float(values[0]), float(low), float(high))


def skill_difference(losses: Losses, mine: str, other: str, *, seed: int = 0) -> Figure:
    """Skill of one model minus skill of another, paired; skill is 1 - loss / persistence's."""
    both = ratios(losses, [mine, other], seed=seed)
    return interval(both[:, 1] - both[:, 0])


def skill(losses: Losses, name: str, *, seed: int = 0) -> Figure:
    """Skill of one model."""
    return interval(1.0 - ratios(losses, [name], seed=seed)[:, 0])


def coverage(losses: Losses, hits: Floats, *, seed: int = 0) -> Figure:
    """Share of truths inside an interval, blocks drawn."""
    block = np.unique(losses.block, return_inverse=True)[1]
    n_blocks = int(block.max(initial=-1)) + 1
    if not n_blocks:
        return Figure(float("nan"), float("nan"), float("nan"))
    drawn = np.random.default_rng(seed).multinomial(n_blocks, np.full(n_blocks, 1.0 / n_blocks), size=DRAWS)
    weight: Floats = np.concatenate([np.ones((1, n_blocks)), drawn]).astype(np.float64)
    inside: Floats = weight @ np.bincount(block, hits)
    count: Floats = weight @ np.bincount(block, losses.count)
    return interval(np.where(count > 0, inside / np.maximum(count, 1.0), np.nan))
