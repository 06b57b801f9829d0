"""Rolling origins: what may be learnt from before each, and which windows are forecast after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from api.training_data import Stretch
from features.frame import Context
from telemetry.errors import ConfigError

BOUNDS = (0.4, 0.6, 0.8)
"""Origins, as shares of all windows in order of time. The last part is for judging; the others choose the recipe."""
LEAST_WINDOWS = 20
"""Fewer windows than this are not worth training on."""


@dataclass(frozen=True, slots=True)
class Window:
    """A forecast to be made.

    Args:
        stretch: index of the stretch.
        column: cutoff; columns before it are known.
        at_s: its time.
    """

    stretch: int
    column: int
    at_s: float


@dataclass(frozen=True, slots=True)
class Fold:
    """One origin.

    Args:
        until_s: nothing at or after this is learnt from; a whole horizon lies between it and the first window.
        windows: to be forecast.
    """

    until_s: float
    windows: tuple[Window, ...]


def folds(stretches: Sequence[Stretch], context_points: int, horizon: int, most_windows: int) -> list[Fold]:
    """Folds in order of time.

    Args:
        stretches: of one class.
        context_points: most points that a forecast rests on.
        horizon: steps ahead.
        most_windows: per fold, spread evenly.

    Raises:
        ConfigError: the history is too short.
    """
    every = sorted(_windows(stretches, context_points, horizon), key=lambda w: (w.at_s, w.stretch, w.column))
    if len(every) < LEAST_WINDOWS:
        raise ConfigError(
            f"the history holds {len(every)} windows of {horizon} steps ahead, and {LEAST_WINDOWS} are needed",
            mend="Give longer history",
        )
    step_s = max(stretch.context.step_s for stretch in stretches)
    edges = [every[int(share * len(every))].at_s for share in BOUNDS]
    found: list[Fold] = []
    for k, edge_s in enumerate(edges):
        end_s = edges[k + 1] if k + 1 < len(edges) else np.inf
        inside = [window for window in every if edge_s <= window.at_s < end_s]
        spread = np.linspace(0, max(0, len(inside) - 1), min(len(inside), most_windows))
        chosen = sorted({int(i) for i in spread})
        found.append(Fold(edge_s - horizon * step_s, tuple(inside[i] for i in chosen)))
    return found


def _windows(stretches: Sequence[Stretch], context_points: int, horizon: int) -> list[Window]:
    found: list[Window] = []
    for number, stretch in enumerate(stretches):
        last = stretch.context.n_points - horizon
        first = min(max(16, context_points // 2), last)
        found += [Window(number, c, stretch.at_s(c)) for c in range(max(16, first), last + 1, horizon)]
    return found


def known_at(stretches: Sequence[Stretch], window: Window, context_points: int) -> Context:
    """What a forecast may rest on."""
    whole = stretches[window.stretch].context
    return cut(whole, max(0, window.column - context_points), window.column)


def truth_after(stretches: Sequence[Stretch], window: Window, horizon: int) -> NDArray[np.float64]:
    """(n, horizon) what came."""
    return stretches[window.stretch].context.values[:, window.column : window.column + horizon]


def learnt_from(stretches: Sequence[Stretch], until_s: float, context_points: int) -> list[Context]:
    """Pieces of history that end before an instant."""
    found: list[Context] = []
    for stretch in stretches:
        step_s, points = stretch.context.step_s, stretch.context.n_points
        columns = min(points, max(0, int(np.ceil((until_s - stretch.start_s) / step_s))))
        size = 2 * context_points
        starts = range(0, columns, size)
        pieces = [cut(stretch.context, start, min(columns, start + size)) for start in starts]
        found += [piece for piece in pieces if piece.n_points >= 32]
    return found


def cut(whole: Context, start: int, stop: int) -> Context:
    """Columns ``start`` to ``stop``."""
    return Context(whole.values[:, start:stop], whole.step_s, whole.metric, whole.group, whole.low, whole.high)
