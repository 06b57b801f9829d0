"""Watches the trained models of a running service: live skill, faults, automatic return to the former champion."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from forecast.predict.worker import TrainedState
from models.promotion import quarantine
from models.store import ModelStore
from models.store_records import Shelf
from telemetry.errors import GpucastError

log = logging.getLogger("gpucast")

LEAST_ORIGINS = 200
"""Scored forecasts before live skill may send a champion back."""
LEAST_SERIES = 2
"""They must be of so many jobs or metrics at least."""
LOOK_EVERY_S = 10.0
"""How often live skill is looked at and the store is listed."""


Score = tuple[str, str, str, float, float]
"""Subject, metric, model version, loss, persistence's loss."""


@dataclass(frozen=True, slots=True)
class LiveSkill:
    """How forecasts of one version did once the truth was in.

    Args:
        version: of the trained model.
        skill: 1 - geometric mean over job and metric of loss / persistence's loss.
        origins: scored forecasts.
        series: jobs and metrics.
    """

    version: str
    skill: float
    origins: int
    series: int


@dataclass(frozen=True, slots=True)
class ModelsView:
    """The trained models as the service sees them.

    Args:
        shelves: what the model store holds.
        states: what the forecasting process says.
        live: version -> live skill.
    """

    shelves: tuple[Shelf, ...] = ()
    states: tuple[TrainedState, ...] = ()
    live: dict[str, LiveSkill] = field(default_factory=dict)


@dataclass(slots=True)
class ModelKeeper:
    """Keeps an eye on the champions of a model store.

    Args:
        folder: of the model store.
        counters: the service's own.
    """

    folder: Path
    counters: Counter[str]
    view: ModelsView = field(default_factory=ModelsView)
    _looked_s: float = -np.inf

    def after_round(self, states: Sequence[TrainedState], scores: Sequence[Score], now_s: float) -> None:
        """Act on what a round of forecasts told; called beside the loop, as it touches the disk.

        Args:
            states: trained models in the forecasting process.
            scores: of ``AccuracyBook.live``.
            now_s: Unix seconds.
        """
        store = ModelStore(self.folder)
        faults = [state for state in states if state.fault]
        for state in faults:
            self._act("gpucast_models_quarantined_total", state, store, now_s, state.fault)
        changed = bool(faults) or tuple(states) != self.view.states
        if not changed and now_s - self._looked_s < LOOK_EVERY_S:
            return
        self._looked_s = now_s
        live = live_skill(scores)
        for state in states:
            mine = live.get(state.version)
            if state.fault or mine is None or not poor(mine):
                continue
            why = (
                f"live skill {mine.skill:+.3f} over {mine.origins} scored forecasts of {mine.series} series is below"
                " persistence"
            )
            self._act("gpucast_model_rollbacks_total", state, store, now_s, why)
        self.view = ModelsView(tuple(store.shelf(name) for name in store.names()), tuple(states), live)

    def _act(self, counter: str, state: TrainedState, store: ModelStore, now_s: float, why: str) -> None:
        try:
            # A model that is worse than persistence stays barred too: promoting it again would only bring it back.
            now = quarantine(store, state.name, state.version, now_s=now_s, why=why)
        except (GpucastError, OSError) as error:
            log.warning("%s %s should go back (%s), but the model store: %s", state.name, state.version, why, error)
            return
        self.counters[counter] += 1
        log.warning("%s %s went back: %s; %s serves", state.name, state.version, why, now or "the built-in models")


def live_skill(scores: Iterable[Score]) -> dict[str, LiveSkill]:
    """Live skill of each trained version; forecasts of the built-in models alone are left out."""
    sums: dict[str, dict[tuple[str, str], list[float]]] = {}
    for subject, metric, version, loss, base in scores:
        trained = version.rpartition("@")[2] if "@" in version else ""
        if trained:
            mine = sums.setdefault(trained, {}).setdefault((subject, metric), [0.0, 0.0, 0.0])
            mine[0] += loss
            mine[1] += base
            mine[2] += 1
    found: dict[str, LiveSkill] = {}
    for version, series in sums.items():
        ratio = [max(loss / base, 1e-3) for loss, base, _ in series.values() if base > 0]
        skill = 1.0 - float(np.exp(np.mean(np.log(ratio)))) if ratio else 0.0
        found[version] = LiveSkill(version, skill, int(sum(one[2] for one in series.values())), len(series))
    return found


def poor(live: LiveSkill) -> bool:
    """Whether a version did worse than persistence over enough forecasts."""
    return live.origins >= LEAST_ORIGINS and live.series >= LEAST_SERIES and live.skill < 0.0
