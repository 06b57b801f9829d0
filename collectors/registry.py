"""Every collector there is: built in, or brought by another package under the entry point ``gpucast.collectors``."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from telemetry.errors import ConfigError
from telemetry.plugins import load_plugins

BUILTIN: dict[str, str] = {
    "exporter": "collectors.scrape:ExporterCollector",
    "nvml": "collectors.nvml:NvmlCollector",
    "prometheus": "collectors.prometheus:PrometheusCollector",
    "nccl_inspector": "collectors.nccl.tail:InspectorTail",
    "nccl_ras": "collectors.nccl.ras_client:RasCollector",
    "slurm": "collectors.slurm.collector:SlurmCollector",
    "kubernetes": "collectors.kubernetes.collector:KubernetesCollector",
}
"""Name -> where it is; loaded when asked for, so that HTTP clients are not imported in vain."""

_GROUP = "gpucast.collectors"


def load_collector(name: str) -> Any:
    """The class or factory of that name.

    Raises:
        ConfigError: nothing of that name, or it cannot be loaded.
    """
    if name in BUILTIN:
        module, _, attribute = BUILTIN[name].partition(":")
        return getattr(import_module(module), attribute)
    for plugin in load_plugins(_GROUP, BUILTIN):
        if plugin.name == name:
            if plugin.error:
                raise ConfigError(f"the collector {name} cannot be loaded: {plugin.error}")
            return plugin.loaded
    raise ConfigError(f"there is no collector {name!r}", mend=f"Known: {', '.join(sorted(collector_names()))}")


def collector_names() -> dict[str, str]:
    """Every collector's name and where it comes from; one that fails to load is named in the log and left out."""
    found = {plugin.name: plugin.module for plugin in load_plugins(_GROUP, BUILTIN) if not plugin.error}
    return {**found, **BUILTIN}
