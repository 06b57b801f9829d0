"""Champions of the model store inside the process that forecasts: looked for before each round, never waited for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from features.frame import Context
from forecast.predict.room_models import PathServer, RoomModels, default_models
from forecast.predict.worker import PredictReply, PredictRequest, TrainedState
from models.base import Forecaster
from models.gate import Served
from models.served import ServedForecast
from models.store import CHAMPION, QUARANTINE, ModelStore
from models.store_recipes import STEP_CLASSES, Champion, class_of, load_champion
from telemetry.errors import IncompatibleModel

Predict = Callable[[PredictRequest, RoomModels], PredictReply]
Seen = tuple[tuple[int, int, int], ...]


@dataclass(slots=True)
class Champions:
    """The champions that serve, and what was refused.

    Args:
        folder: of the model store.
        also: models of other packages, tried beside every recipe.
    """

    folder: Path
    also: Sequence[Forecaster] = ()
    serving: dict[str, Champion] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    """Name -> why its champion is refused; the last good one goes on."""
    _seen: dict[str, Seen] = field(default_factory=dict)

    def refresh(self) -> list[str]:
        """Look at the pointers; load what changed. Gives what is new, in sentences."""
        store = ModelStore(self.folder)
        told: list[str] = []
        for name in STEP_CLASSES:
            seen = _state(self.folder / name)
            if seen == self._seen.get(name):
                continue
            self._seen[name] = seen
            told += self._load(store, name)
        return told

    def _load(self, store: ModelStore, name: str) -> list[str]:
        before = self.serving.get(name)
        try:
            found = load_champion(store, name, self.also)
        except (IncompatibleModel, OSError) as error:
            self.refused[name] = str(error)
            barred = before is not None and before.version in store.shelf(name).quarantined
            if barred:
                self.serving.pop(name, None)
            last = "the built-in models serve" if before is None or barred else f"{before.version} goes on"
            return [f"a champion is refused: {error}; {last}"]
        self.refused.pop(name, None)
        if found is None:
            self.serving.pop(name, None)
            return [f"{name}: the built-in models serve again"] if before else []
        self.serving[name] = found
        return [] if before and before.version == found.version else [f"{name}: champion {found.version} serves"]

    def predict(self, request: PredictRequest, run: Predict, plain: RoomModels | None) -> PredictReply:
        """One round with the champions; a model found at fault serves no longer."""
        told = self.refresh()
        base = plain or default_models()
        room = replace(base, served=ByStep(base.served, self.serving)) if self.serving else base
        refused_now = sum(sentence.startswith("a champion is refused") for sentence in told)
        reply = run(request, room)
        states = [self._judged(name) for name in sorted({*self.serving, *self.refused})]
        faults = [state for state in states if state.fault]
        told += [f"{state.name} {state.version} is at fault: {state.fault}" for state in faults]
        for state in faults:
            self.serving.pop(state.name, None)
        errors = dict(reply.errors)
        if refused_now:
            errors["champion_refused"] = refused_now
        if faults:
            errors["champion_fault"] = len(faults)
        return replace(reply, errors=errors, messages=(*reply.messages, *told), trained=tuple(states))

    def _judged(self, name: str) -> TrainedState:
        champion = self.serving.get(name)
        watched = champion.watched if champion else None
        return TrainedState(
            name,
            champion.version if champion else "",
            watched.fault if watched else "",
            self.refused.get(name, ""),
        )


@dataclass(frozen=True, slots=True)
class ByStep:
    """Gives each context to the champion of its class of sampling steps, else to the built-in models."""

    plain: PathServer
    serving: dict[str, Champion]

    def predict_served(self, context: Context, horizon: int) -> Any:
        """The gate's answer; versions of a champion's rows end in ``@VERSION``."""
        kind = class_of(context.step_s)
        champion = self.serving.get(kind.name) if kind else None
        if champion is None:
            return self.plain.predict_served(context, horizon)
        return marked(champion.served, champion.version, context, horizon)


def marked(served: Served, version: str, context: Context, horizon: int) -> ServedForecast:
    """What a champion's gate says; rows on which a model beat persistence carry the champion's version."""
    said = served.predict_served(context, horizon)
    versions = tuple(
        own if model in ("persistence", "constant") else f"{own}@{version}"
        for own, model in zip(said.version, said.model, strict=True)
    )
    return replace(said, version=versions)


def _state(folder: Path) -> Seen:
    """Identity of the files that say what serves; a changed file is another one."""
    found = []
    for name in (CHAMPION, QUARANTINE):
        try:
            told = (folder / name).stat()
            found.append((told.st_ino, told.st_size, told.st_mtime_ns))
        except OSError:
            found.append((0, 0, 0))
    return tuple(found)
