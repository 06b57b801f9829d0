"""The phase forecaster: past cycles, aligned and laid over the coming ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from features.frame import Context
from models.base import LEVELS, Forecaster
from models.folding import align_cycles, cycle_weights, fold_quantiles
from models.period import PeriodFinding, detect_periods
from models.period_acf import standardise
from models.quantiles import Floats, fill_forward, keep_laws, sample_quantiles
from models.saved import read_state, write_state

RECENT_POINTS = 128
"""Points behind the quantiles of rows without a rhythm."""
SILENT_SCORE = 0.08
"""A row with less of its variance repeating is answered by its recent level alone."""
CLEAR_SCORE = 0.3
"""A row with this much is answered by its folded cycles alone; between, the two are averaged."""


class PhaseForecaster:
    """Quantiles of the same phase in the last cycles; rows without a rhythm get the spread of their recent past.

    Args:
        cycles: past cycles that speak, at most.
        memory_cycles: age in cycles at which a cycle's weight has fallen to 1/e.
        jitter_points: neighbouring points that speak for a phase too.
    """

    name = "phase"
    version = "1"

    def __init__(self, cycles: int = 16, memory_cycles: float = 12.0, jitter_points: int = 1) -> None:
        self.cycles = cycles
        self.memory_cycles = memory_cycles
        self.jitter_points = jitter_points

    def fit(self, contexts: list[Context], horizon: int) -> None:
        """Nothing to learn: the rhythm is read from the context."""

    def predict(self, context: Context, horizon: int) -> Floats:
        """Quantile cube (n_series, horizon, n_levels)."""
        return self.predict_with(context, horizon, detect_periods(context))

    def predict_with(self, context: Context, horizon: int, findings: list[PeriodFinding]) -> Floats:
        """The cube for periods that were already detected, one finding per group of the context."""
        cube = np.repeat(recent_quantiles(context)[:, None, :], horizon, axis=1)
        for finding in findings:
            index = np.flatnonzero(context.group == finding.group)
            share = np.clip((finding.row_score - SILENT_SCORE) / (CLEAR_SCORE - SILENT_SCORE), 0.0, 1.0)
            use = np.flatnonzero(share > 0)
            if not np.isfinite(finding.candidate_s) or not use.size:
                continue
            folded = self._fold(context.values[index], use, finding.candidate_s / context.step_s, horizon)
            if folded is None:
                continue
            rows = index[use]
            part = np.where(np.isfinite(folded), share[use][:, None, None], 0.0)
            cube[rows] = part * np.where(part > 0, folded, 0.0) + (1 - part) * cube[rows]
        return keep_laws(cube, context.low, context.high)

    def _fold(self, values: Floats, use: NDArray[np.intp], points: float, horizon: int) -> Floats | None:
        standard, _ = standardise(values[use])
        window = int(np.clip(round(points), 8, values.shape[1] // 3))
        alignment = align_cycles(standard.astype(np.float64), points, window, self.cycles)
        if alignment.lag.size < 2:
            return None
        weight = cycle_weights(alignment, self.memory_cycles)
        return fold_quantiles(values[use], alignment, weight, horizon, self.jitter_points)

    def save(self, folder: Path) -> None:
        """Write the settings."""
        state = {"cycles": self.cycles, "memory_cycles": self.memory_cycles, "jitter_points": self.jitter_points}
        write_state(folder, self.name, self.version, state)

    @classmethod
    def load(cls, folder: Path) -> Forecaster:
        """Read back what ``save`` wrote.

        Raises:
            IncompatibleModel: another version or a changed file.
        """
        state = read_state(folder, cls.name, cls.version)
        return cls(int(state["cycles"]), float(state["memory_cycles"]), int(state["jitter_points"]))


def recent_quantiles(context: Context) -> Floats:
    """(n_series, n_levels) quantiles of the last points; of the whole context where those are missing; else the least value."""
    floor = np.where(np.isfinite(context.low), context.low, 0.0)
    if not context.n_points:
        return np.repeat(floor[:, None], len(LEVELS), axis=1)
    recent = sample_quantiles(context.values[:, -RECENT_POINTS:])
    older = ~np.isfinite(recent[:, 0])
    if older.any():
        recent[older] = sample_quantiles(context.values[older])
    return np.where(np.isfinite(recent), recent, floor[:, None])
