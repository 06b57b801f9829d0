"""What other packages bring by entry point. The one loader behind the registries of all rooms."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

_log = logging.getLogger("gpucast")


@dataclass(frozen=True, slots=True)
class Plugin:
    """One entry point of another package.

    Args:
        group: such as ``gpucast.rules``.
        name: under which it is registered.
        module: where it is, ``package.module:attribute``.
        distribution: which package brings it; empty when unknown.
        version: of that package.
        loaded: the object; None when it failed to load.
        error: why it is left out; empty when it was loaded.
    """

    group: str
    name: str
    module: str
    distribution: str
    version: str
    loaded: Any = None
    error: str = ""


def load_plugins(group: str, taken: Collection[str] = ()) -> list[Plugin]:
    """Every plug-in of a group, sorted by name; one that fails to load is logged by name and left out.

    Args:
        group: such as ``gpucast.rules``.
        taken: names of the built-in ones, which nobody may replace.
    """
    found: list[Plugin] = []
    names = set(taken)
    for entry in sorted(entry_points(group=group), key=lambda entry: (entry.name, entry.value)):
        plugin = _load(entry, names)
        if plugin.error:
            _log.warning("plug-in %s of %s (%s) is left out: %s", entry.name, group, entry.value, plugin.error)
        names.add(entry.name)
        found.append(plugin)
    return found


def _load(entry: EntryPoint, names: Collection[str]) -> Plugin:
    loaded, error = None, ""
    if entry.name in names:
        error = f"the name {entry.name} is taken already"
    else:
        try:
            loaded = entry.load()
        except (Exception, SystemExit) as failed:  # a stranger's module may do anything when imported
            error = f"{type(failed).__name__}: {failed}"
    package = entry.dist
    return Plugin(
        entry.group,
        entry.name,
        entry.value,
        package.name if package is not None else "",
        package.version if package is not None else "",
        loaded,
        error,
    )
