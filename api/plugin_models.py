"""Models of other packages beside the built-in ones, inside the process that forecasts."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from api.champions import Champions
from forecast.predict.room_models import RoomModels, default_models
from forecast.predict.worker import PredictReply, PredictRequest, predict
from models.base import Forecaster
from models.guarded import Guarded, broken_law
from models.registry import BUILTIN
from telemetry.plugins import Plugin, load_plugins

GROUP = "gpucast.models"


@dataclass(slots=True)
class TriedModels:
    """The models of a forecasting process.

    Args:
        room: what forecasting calls; None until the first round where the built-in ones are alone.
        guards: models of plug-ins that are tried.
        left_out: sentences about those that are not.
        champions: of the model store; None where it is not looked at.
    """

    room: RoomModels | None = None
    guards: tuple[Guarded, ...] = ()
    left_out: list[str] = field(default_factory=list)
    champions: Champions | None = None
    _told: set[str] = field(default_factory=set)

    def predict(self, request: PredictRequest) -> PredictReply:
        """One round; what a plug-in's model did wrong is counted and told once."""
        if self.room is None:
            self.room = default_models()
        before = sum(guard.failures for guard in self.guards)
        champions = self.champions
        reply = champions.predict(request, predict, self.room) if champions else predict(request, self.room)
        failures = sum(guard.failures for guard in self.guards) - before
        said = [*self.left_out, *(guard.problem for guard in self.guards if guard.problem)]
        fresh = [sentence for sentence in said if sentence not in self._told]
        self._told.update(fresh)
        if not failures and not fresh:
            return reply
        errors = {**reply.errors, "plugin": reply.errors.get("plugin", 0) + failures}
        return replace(reply, errors=errors, messages=(*reply.messages, *fresh))


def tried_models(names: Sequence[str], found: Sequence[Plugin] | None = None) -> TriedModels:
    """The built-in models and those plug-ins of the names that keep the contract.

    Args:
        names: as in the setting ``forecast.models``.
        found: what is installed; looked up when None.
    """
    if not names:
        return TriedModels()
    by_name = {plugin.name: plugin for plugin in (load_plugins(GROUP, BUILTIN) if found is None else found)}
    tried = TriedModels()
    guards: list[Guarded] = []
    for name in names:
        model = _ready(by_name[name]) if name in by_name else "it is not installed"
        if isinstance(model, str):
            tried.left_out.append(f"the model {name} of a plug-in is left out: {model}")
        else:
            guards.append(Guarded(model))
    tried.guards = tuple(guards)
    if guards:
        from models.gate import Served
        from models.rounds import Rounds

        tried.room = replace(default_models(), served=Served(also=guards, rounds=Rounds()))
    return tried


def _ready(plugin: Plugin) -> Forecaster | str:
    """The model, or why it is not tried."""
    if plugin.error:
        return plugin.error
    with tempfile.TemporaryDirectory(prefix="gpucast-model-") as folder:
        law = broken_law(plugin.loaded, Path(folder))
    if law:
        return f"it breaks the contract of a model: {law}"
    try:
        made = plugin.loaded()
    except Exception as error:  # a stranger's model may fail in any way
        return f"{type(error).__name__}: {error}"
    return made if isinstance(made, Forecaster) else f"it gives {type(made).__name__}, which is no model"
