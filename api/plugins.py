"""What other packages bring to the running service, seam by seam."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from collectors.registry import BUILTIN as COLLECTORS
from forecast.advisor.registry import BUILTIN as RULES
from forecast.advisor.types import Rule
from forecast.backends.registry import BUILTIN as BACKENDS
from forecast.backends.registry import BackendFactory
from models.registry import BUILTIN as MODELS
from telemetry.plugins import Plugin, load_plugins

SIMULATOR = "simulator"
"""The backend of the simulated cluster. It stands downstream of the backends room, so it is not in that registry."""


@dataclass(frozen=True, slots=True)
class Plugins:
    """Plug-ins as found at the start of the service, those that failed included.

    Args:
        found: all of them, by group and name.
    """

    found: tuple[Plugin, ...] = ()

    def rules(self) -> dict[str, Rule]:
        """Every rule that is asked for advice: the built-in ones, then those of plug-ins."""
        return {**RULES, **{plugin.name: plugin.loaded for plugin in self._loaded("gpucast.rules")}}

    def backends(self) -> dict[str, BackendFactory]:
        """Every backend that needs no address, by name."""
        return {**BACKENDS, **{plugin.name: plugin.loaded for plugin in self._loaded("gpucast.backends")}}

    def in_use(self, collectors: Collection[str], models: Collection[str], backend: str) -> frozenset[tuple[str, str]]:
        """(group, name) of those that the service runs: every rule, and what the settings name."""
        chosen = {"gpucast.collectors": collectors, "gpucast.models": models, "gpucast.backends": (backend,)}
        return frozenset(
            (plugin.group, plugin.name)
            for plugin in self.found
            if not plugin.error and (plugin.group == "gpucast.rules" or plugin.name in chosen.get(plugin.group, ()))
        )

    def _loaded(self, group: str) -> list[Plugin]:
        return [plugin for plugin in self.found if plugin.group == group and not plugin.error]


def find_plugins() -> Plugins:
    """Load the plug-ins of every seam."""
    taken = {
        "gpucast.backends": {*BACKENDS, SIMULATOR},
        "gpucast.collectors": set(COLLECTORS),
        "gpucast.models": set(MODELS),
        "gpucast.rules": set(RULES),
    }
    return Plugins(tuple(plugin for group, names in taken.items() for plugin in load_plugins(group, names)))
