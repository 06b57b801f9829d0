"""Every built-in forecaster by name. Classes are imported on demand, so that the service starts without LightGBM."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from models.base import Forecaster


def _lazily(module: str, name: str) -> Callable[[], type[Forecaster]]:
    def load() -> type[Forecaster]:
        found: type[Forecaster] = getattr(import_module(module), name)
        return found

    return load


BUILTIN: dict[str, Callable[[], type[Forecaster]]] = {
    "persistence": _lazily("models.persistence", "Persistence"),
    "moving_mean": _lazily("models.moving_mean", "MovingMean"),
    "seasonal_naive": _lazily("models.seasonal_naive", "SeasonalNaive"),
    "level": _lazily("models.level", "RecentLevel"),
    "regime": _lazily("models.regime", "Regime"),
    "analog": _lazily("models.analog", "Analog"),
    "port_moments": _lazily("models.port_moments", "PortMoments"),
    "phase": _lazily("models.phase", "PhaseForecaster"),
    "gbdt": _lazily("models.gbdt", "Gbdt"),
    "ets": _lazily("models.ets", "Ets"),
    "served": _lazily("models.gate", "Served"),
}
"""Name -> a call that imports and gives the class."""
