"""Collectors of other packages that the settings configure, run like the built-in ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from api.settings import PluginSettings
from collectors.base import Collector
from collectors.cadence import Cadence, CadenceLimits
from collectors.guard import GuardedCollector
from collectors.pool import ScrapePool
from telemetry.errors import ConfigError
from telemetry.plugins import Plugin

GROUP = "gpucast.collectors"
Factory = Callable[..., Any]


class PluginCollectors:
    """The collectors of [[plugin.NAME]]; none of them by default.

    Args:
        settings: name of the entry point -> one table for each collector.
        found: plug-ins as found at the start.

    Raises:
        ConfigError: no such plug-in, or it cannot be loaded.
    """

    def __init__(self, settings: Mapping[str, Sequence[PluginSettings]], found: Sequence[Plugin]) -> None:
        installed = {plugin.name: plugin for plugin in found if plugin.group == GROUP}
        for name in settings:
            if name not in installed:
                known = ", ".join(sorted(installed)) or "none"
                raise ConfigError(
                    f"setting plugin.{name}: no collector of that name is installed", mend=f"Installed: {known}"
                )
            if installed[name].error:
                raise ConfigError(f"setting plugin.{name}: cannot be loaded: {installed[name].error}")
        self._settings = {name: tuple(tables) for name, tables in settings.items()}
        self._factories: dict[str, Factory] = {name: installed[name].loaded for name in settings}
        self._running: list[GuardedCollector] = []

    @property
    def configured(self) -> frozenset[str]:
        """Names of the entry points in use."""
        return frozenset(self._settings)

    def add_to(self, pool: ScrapePool) -> None:
        """Start reading them. To be called inside the running loop.

        Raises:
            ConfigError: one cannot be made of its options, or two would have one name.
        """
        for name, tables in self._settings.items():
            for place, table in enumerate(tables):
                one = GuardedCollector(self._made(name, place, table), name, table.timeout_s)
                if any(other.name == one.name for other in self._running):
                    raise ConfigError(f"setting plugin.{name}: two collectors are called {one.name}")
                pool.add(one, cadence=Cadence(CadenceLimits(fixed_s=table.interval_s)), lookback_s=table.lookback_s)
                self._running.append(one)

    async def close(self) -> None:
        """Let each release what it holds."""
        for one in self._running:
            await one.close()

    def _made(self, name: str, place: int, table: PluginSettings) -> Collector:
        where = f"setting plugin.{name}[{place}]"
        try:
            made = self._factories[name](**table.options)
        except Exception as error:  # a stranger's factory may fail in any way
            raise ConfigError(f"{where}: cannot be made: {type(error).__name__}: {error}") from error
        if not isinstance(made, Collector) or not isinstance(made.name, str):
            raise ConfigError(f"{where}: gives {type(made).__name__}, which is no collector")
        return made
