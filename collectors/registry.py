"""Every collector there is: built in, or brought by another package under the entry point ``gpucast.collectors``."""

from __future__ import annotations

import logging
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from telemetry.errors import ConfigError

BUILTIN: dict[str, str] = {
    "exporter": "collectors.scrape:ExporterCollector",
    "prometheus": "collectors.prometheus:PrometheusCollector",
}
"""Name -> where it is; loaded when asked for, so that HTTP clients are not imported in vain."""

_GROUP = "gpucast.collectors"
_log = logging.getLogger(__name__)


def load_collector(name: str) -> Any:
    """The class or factory of that name.

    Raises:
        ConfigError: nothing of that name, or it cannot be loaded.
    """
    if name in BUILTIN:
        module, _, attribute = BUILTIN[name].partition(":")
        return getattr(import_module(module), attribute)
    for entry in entry_points(group=_GROUP):
        if entry.name == name:
            try:
                return entry.load()
            except Exception as error:
                raise ConfigError(f"the collector {name} cannot be loaded: {error}") from error
    raise ConfigError(f"there is no collector {name!r}", mend=f"Known: {', '.join(sorted(collector_names()))}")


def collector_names() -> dict[str, str]:
    """Every collector's name and where it comes from; one that fails to load is named in the log and left out."""
    names = dict(BUILTIN)
    for entry in entry_points(group=_GROUP):
        try:
            entry.load()
        except Exception as error:  # a stranger's package must not stop the service
            _log.warning("the collector %s is left out: %s", entry.name, error)
        else:
            names.setdefault(entry.name, entry.value)
    return names
