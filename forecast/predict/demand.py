"""GPUs in use and free ahead, for a cluster and each of its partitions, from what its scheduler listed over time."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from forecast.predict.ends_types import DemandForecast
from forecast.predict.queue_eta import gpus_asked
from forecast.predict.types import Absence, Why
from models.base import LEVELS
from models.demand import LEAST_ERRORS, DemandSeries, walk_demand
from models.demand_moves import CANDIDATES
from telemetry.roster import NodeGpus, Roster

GRID_S = 600.0
"""Spacing of what is remembered."""
KEPT_POINTS = 5040
"""35 days."""
MOST_PARTITIONS = 16
"""Partitions remembered beside the whole cluster, the first by name."""
LEADS: tuple[int, ...] = (1, 6, 18, 36, 72, 144)
"""Steps ahead: 10 min, 1, 3, 6, 12, 24 h."""
WHOLE = ""
"""Name of the whole cluster."""


@dataclass(frozen=True, slots=True)
class _Point:
    """One moment: GPUs in use, asked for by jobs that wait, in service."""

    used: float
    waiting: float
    total: float


class DemandBook:
    """Remembers the demand of one scheduler on a grid of ten minutes and foresees it."""

    def __init__(self) -> None:
        self._points: dict[str, deque[tuple[int, _Point]]] = {}
        self._made: dict[str, tuple[int, DemandForecast | Absence]] = {}

    def observe(self, roster: Roster) -> None:
        """Remember a list, one per grid step: the first of each step counts."""
        if roster.at_s <= 0:
            return
        step = int(roster.at_s // GRID_S)
        for name, point in _points(roster).items():
            if name not in self._points and len(self._points) > MOST_PARTITIONS:
                continue
            kept = self._points.setdefault(name, deque(maxlen=KEPT_POINTS))
            if not kept or step > kept[-1][0]:
                kept.append((step, point))

    def names(self) -> tuple[str, ...]:
        """The whole cluster (empty name) and its partitions."""
        return tuple(sorted(self._points))

    def forecast(self, name: str, at_s: float) -> DemandForecast | Absence:
        """Demand of the cluster or a partition ahead; made anew when the grid has moved on."""
        kept = self._points.get(name)
        if not kept:
            return Absence(Why.NO_DATA, f"Nothing was listed of partition {name}." if name else "Nothing was listed.")
        made = self._made.get(name)
        if made is None or made[0] != kept[-1][0]:
            made = self._made[name] = (kept[-1][0], _forecast(name, at_s, list(kept)))
        return made[1]


def _points(roster: Roster) -> dict[str, _Point]:
    waiting: dict[str, float] = {WHOLE: 0.0}
    for job in roster.waiting:
        asked = float(gpus_asked(job) or 0) * job.task_count
        waiting[WHOLE] += asked
        if job.partition:
            waiting[job.partition] = waiting.get(job.partition, 0.0) + asked
    serving = [node for node in roster.nodes if node.in_service and node.total > 0 and node.used is not None]
    partitions = sorted({name for node in serving for name in node.partitions})[:MOST_PARTITIONS]
    groups: dict[str, list[NodeGpus]] = {WHOLE: serving}
    groups |= {name: [node for node in serving if name in node.partitions] for name in partitions}
    return {
        name: _Point(
            float(sum(node.used or 0 for node in nodes)),
            waiting.get(name, 0.0),
            float(sum(node.total for node in nodes)),
        )
        for name, nodes in groups.items()
        if nodes
    }


def _forecast(name: str, at_s: float, kept: list[tuple[int, _Point]]) -> DemandForecast | Absence:
    last, needed = kept[-1][0], LEAST_ERRORS + LEADS[0] + 1
    # A list that paused for long leaves a hole; only what lies within reach of the newest point is laid out.
    kept = [(step, point) for step, point in kept if step > last - KEPT_POINTS]
    if len(kept) < needed:
        sentence = f"{len(kept)} points of ten minutes were listed; {needed} are needed."
        return Absence(Why.INSUFFICIENT_HISTORY, sentence, len(kept), needed)
    first = kept[0][0]
    table = np.full((3, last - first + 1), np.nan)
    for step, point in kept:
        table[:, step - first] = point.used, point.waiting, point.total
    series = DemandSeries(first * GRID_S, GRID_S, *table)
    rows, models, leads = [], [], []
    for lead in LEADS:
        if len(kept) < LEAST_ERRORS + lead + 1:
            continue
        walk = walk_demand(series, lead)
        rows.append(walk.quantiles[-1])
        chosen = int(walk.chosen[-1])
        models.append("persistence" if chosen < 0 else CANDIDATES[chosen])
        leads.append(lead * GRID_S)
    used = np.stack(rows)
    total = kept[-1][1].total
    used = np.clip(used, 0.0, total)
    beaten = sum(model != "persistence" for model in models)
    sentence = (
        f"{len(kept)} points of ten minutes; persistence was beaten on past days at {beaten} of {len(leads)} leads, "
    )
    sentence += "and is served at the others."
    free = total - used[:, ::-1]
    return DemandForecast(name, at_s, tuple(leads), LEVELS, used, free, total, tuple(models), sentence)
