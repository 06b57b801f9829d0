"""Statements about the next occurrence of a phase, beside what happened and beside simple rules."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from api.bench.result import Row
from models.metrics import bootstrap_interval
from models.phase_occurrences import Floats, Occurrences
from models.phase_replay import LEAST
from models.phase_sequence import Unforeseen, foresee

RIVALS = ("persistence", "mean", "median")
"""As the last interval, as the mean of all, as the median of all; the same of lengths."""


@dataclass(frozen=True, slots=True, eq=False)
class Statement:
    """One statement and what came.

    Args:
        block: run or job; its statements are drawn together.
        tasks: names it counts under.
        start_s: (3,) quantiles 10, 50, 90 % of the next start; NaN where nothing was said.
        length_s: (3,) of its length.
        rival_start_s: (3,) of ``RIVALS``.
        rival_length_s: (3,) of ``RIVALS``.
        true_start_s: what came.
        true_length_s: how long it lasted.
        span_s: from the start before to this one: what errors are a share of.
    """

    block: str
    tasks: tuple[str, ...]
    start_s: Floats
    length_s: Floats
    rival_start_s: Floats
    rival_length_s: Floats
    true_start_s: float
    true_length_s: float
    span_s: float


def after_each(name: str, tasks: tuple[str, ...], events: Occurrences) -> Iterable[Statement]:
    """What is said at the end of each occurrence about the next, from ended ones only."""
    for k in range(LEAST, events.size):
        past = Occurrences(events.start_s[:k], events.end_s[:k], events.step[:k])
        found = foresee(past, float(past.end_s[-1]))
        start_s, length_s = np.full(3, np.nan), np.full(3, np.nan)
        if not isinstance(found, Unforeseen):
            start_s = np.array([found.start_low_s, found.start_s, found.start_high_s])
            length_s = np.array([found.length_low_s, found.length_s, found.length_high_s])
        rival_start_s, rival_length_s = rivals(past)
        yield Statement(
            name,
            tasks,
            start_s,
            length_s,
            rival_start_s,
            rival_length_s,
            float(events.start_s[k]),
            float(events.end_s[k] - events.start_s[k]),
            float(events.start_s[k] - events.start_s[k - 1]),
        )


def rivals(past: Occurrences) -> tuple[Floats, Floats]:
    """Next starts and lengths by the simple rules."""
    interval_s, length_s = np.diff(past.start_s), past.end_s - past.start_s
    starts = past.start_s[-1] + np.array([interval_s[-1], interval_s.mean(), np.median(interval_s)])
    return starts, np.array([length_s[-1], length_s.mean(), np.median(length_s)])


def rows(statements: list[Statement]) -> list[Row]:
    """Figures of every task, served and rivals on the same statements."""
    tasks: dict[str, list[Statement]] = {}
    for one in statements:
        for task in one.tasks:
            tasks.setdefault(task, []).append(one)
    return [row for task, mine in tasks.items() for row in _task(task, mine)]


def _task(task: str, mine: list[Statement]) -> list[Row]:
    answered = np.array([np.isfinite(one.start_s).all() for one in mine])
    out = [_row(task, "served", "answered", answered.astype(float), _blocks(mine), np.mean)]
    said = [one for one, ok in zip(mine, answered, strict=True) if ok]
    if not said:
        return out
    blocks = _blocks(said)
    start, length = np.stack([s.start_s for s in said]), np.stack([s.length_s for s in said])
    true_s, lasted_s = np.array([s.true_start_s for s in said]), np.array([s.true_length_s for s in said])
    span_s = np.array([s.span_s for s in said])
    inside = (true_s >= start[:, 0]) & (true_s <= start[:, 2])
    held = (lasted_s >= length[:, 0]) & (lasted_s <= length[:, 2])
    out.append(_row(task, "served", "start_cov80", inside.astype(float), blocks, np.mean))
    out.append(_row(task, "served", "length_cov80", held.astype(float), blocks, np.mean))
    out.append(_row(task, "served", "start_width_ratio", (start[:, 2] - start[:, 0]) / span_s, blocks, np.median))
    names = ("served", *RIVALS)
    starts = np.column_stack([start[:, 1], np.stack([s.rival_start_s for s in said])])
    lengths = np.column_stack([length[:, 1], np.stack([s.rival_length_s for s in said])])
    start_error_s, length_error_s = np.abs(starts - true_s[:, None]), np.abs(lengths - lasted_s[:, None])
    for k, name in enumerate(names):
        out.append(_row(task, name, "start_error_median_s", start_error_s[:, k], blocks, np.median))
        out.append(_row(task, name, "start_error_mean_s", start_error_s[:, k], blocks, np.mean))
        share = np.minimum(start_error_s[:, k] / span_s, 1.0)
        out.append(_row(task, name, "start_error_mean_ratio", share, blocks, np.mean))
        out.append(_row(task, name, "length_error_median_s", length_error_s[:, k], blocks, np.median))
        out.append(_row(task, name, "length_error_mean_s", length_error_s[:, k], blocks, np.mean))
    return out


def _blocks(mine: list[Statement]) -> NDArray[np.intp]:
    return np.unique([one.block for one in mine], return_inverse=True)[1].astype(np.intp)


def _row(task: str, model: str, metric: str, value: Floats, blocks: NDArray[np.intp], statistic: object) -> Row:
    take = np.median if statistic is np.median else np.mean
    low, high = bootstrap_interval(value[:, None], lambda r: float(take(r)), blocks=blocks, draws=400)
    return Row(task, model, metric, float(take(value)), low, high, int(value.size))
