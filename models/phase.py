"""The phase forecaster: what the past cycles showed at the phase of the coming steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from features.frame import Context
from models.base import LEVELS, Forecaster
from models.folding import fold_quantiles
from models.leads import Leads, all_leads
from models.period import PeriodFinding, Repeat, find_repeats
from models.quantiles import Floats, ahead_at, fill_forward, keep_laws, lead_parts, sample_quantiles
from models.saved import read_state, write_state

RECENT_POINTS = 256
"""Points behind the answer for rows without a rhythm."""
LOOK_KNOWS = 0.8
"""Past cutoffs share a look for what repeats where it knew at least this share of their points."""
CLEAR_SCORE = 0.05
"""A row with this share of its variance repeating is answered by its folded cycles alone; below, in proportion, by the
quantiles of both. Folding picks look-alike moments, so that a faint rhythm costs little and often helps."""


class PhaseForecaster:
    """Quantiles at the same phase of past cycles; rows without a rhythm return from their last value to their recent level.

    The period need not be one that ``detect_periods`` calls found: a regular alias repeats on the grid too, and that is
    all a forecast of the grid needs.

    Args:
        looks: says what repeats in a context.
    """

    name = "phase"
    version = "1"

    def __init__(self, looks: Callable[[Context], Sequence[Repeat]] = find_repeats) -> None:
        self.looks = looks

    def fit(self, contexts: list[Context], horizon: int) -> None:
        """Nothing to learn: the rhythm is read from the context."""

    def predict(self, context: Context, horizon: int) -> Floats:
        """Quantile cube (n_series, horizon, n_levels)."""
        return self.predict_leads(context, horizon, all_leads(horizon))

    def predict_leads(self, context: Context, horizon: int, leads: Leads) -> Floats:
        """The same at some leads only (n_series, n_leads, n_levels)."""
        return self.predict_with(context, horizon, self.looks(context), leads)

    def predict_past(self, context: Context, columns: list[int], horizon: int, leads: list[Leads]) -> list[Floats]:
        """Answers at past cutoffs in descending order; what repeats is looked for at some of them only.

        A cutoff between two such looks takes the older one, so that nothing after it is used.
        """
        cubes: list[Floats] = []
        findings: Sequence[Repeat] = []
        looked = context.n_points + 1
        for column, some in zip(columns, leads, strict=True):
            if column < looked:
                looked = min(c for c in columns if LOOK_KNOWS * column <= c <= column)
                findings = find_repeats(context.until(looked))
            cubes.append(self.predict_with(context.until(column), horizon, findings, some))
        return cubes

    def predict_with(
        self,
        context: Context,
        horizon: int,
        findings: Sequence[Repeat | PeriodFinding],
        leads: Leads | None = None,
    ) -> Floats:
        """The cube for periods that were already detected: one finding for each group of the context."""
        leads = all_leads(horizon) if leads is None else leads
        cube = np.full((context.n_series, leads.size, len(LEVELS)), np.nan)
        share = np.zeros(context.n_series)
        for finding in findings:
            rows = np.flatnonzero(context.group == finding.group)
            use = finding.row_score > 0
            if not np.isfinite(finding.candidate_s) or not use.any():
                continue
            points = finding.candidate_s / context.step_s
            cube[rows[use]] = fold_quantiles(
                context.values[rows[use]], points, horizon, row_weight=finding.row_score[use], leads=leads
            )
            share[rows] = np.minimum(finding.row_score / CLEAR_SCORE, 1.0)
        rest = np.flatnonzero((share < 1) | ~np.isfinite(cube).all(axis=(1, 2)))
        if rest.size:
            folded = cube[rest]
            part = np.where(np.isfinite(folded), share[rest][:, None, None], 0.0)
            relaxed = relaxing_quantiles(context.rows(rest), horizon, leads)
            cube[rest] = np.where(part > 0, part * folded, 0.0) + (1 - part) * relaxed
        return keep_laws(cube, context.low, context.high)

    def save(self, folder: Path) -> None:
        """Write name and version."""
        write_state(folder, self.name, self.version, {})

    @classmethod
    def load(cls, folder: Path) -> Forecaster:
        """Read back what ``save`` wrote.

        Raises:
            IncompatibleModel: another version or a changed file.
        """
        read_state(folder, cls.name, cls.version)
        return cls()


def relaxing_quantiles(context: Context, horizon: int, leads: Leads | None = None) -> Floats:
    """Quantile cube (n_series, n_leads, n_levels), all leads when None, of rows that keep part of their distance from the recent mean.

    At each lead the share kept is the regression of ``x[t + lead]`` on ``x[t]`` over the recent points, held between 0
    (the recent level) and 1 (the last value); the spread is that of the regression's residuals. A row without values is
    answered with its least legal value.
    """
    floor = np.where(np.isfinite(context.low), context.low, 0.0)
    leads = all_leads(horizon) if leads is None else leads
    if not context.n_points:
        return np.broadcast_to(floor[:, None, None], (context.n_series, leads.size, len(LEVELS))).copy()
    filled = fill_forward(context.values)
    recent = np.where(np.isfinite(filled), filled, floor[:, None])[:, -RECENT_POINTS:]
    mean = recent.mean(axis=1, keepdims=True)
    away = recent - mean
    n = recent.shape[1]
    # Beyond half of the window too few pairs are left: the last lead that has them stands.
    answered, place = np.unique(np.minimum(leads, n // 2), return_inverse=True)
    if not n // 2:
        return keep_laws(
            np.repeat(recent[:, -1:, None], leads.size, axis=1).repeat(len(LEVELS), axis=2), context.low, context.high
        )
    cube = np.empty((context.n_series, answered.size, len(LEVELS)))
    for part in lead_parts(context.n_series, n, answered):
        after = ahead_at(away, answered[part])
        known = np.isfinite(after)
        before = np.where(known, away[:, None, :], 0.0)
        power = (before**2).sum(axis=2)
        both = (before * np.where(known, after, 0.0)).sum(axis=2)
        kept = np.clip(both / np.where(power > 0, power, 1.0), 0.0, 1.0)[..., None]
        cube[:, part] = (mean + kept[..., 0] * away[:, -1:])[..., None] + sample_quantiles(after - kept * before)
    return keep_laws(cube[:, place], context.low, context.high)
