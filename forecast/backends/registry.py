"""Built-in backends by name. Third parties add theirs through the entry-point group ``gpucast.backends``."""

from __future__ import annotations

from collections.abc import Callable

from forecast.backends.base import Backend
from forecast.backends.dry_run import DryRunBackend
from telemetry.clock import Clock
from telemetry.topology import ClusterSnapshot

BackendFactory = Callable[[Callable[[], ClusterSnapshot], Clock], Backend]
"""(where snapshots come from, the clock) -> a backend."""

BUILTIN: dict[str, BackendFactory] = {
    "dry_run": DryRunBackend,
}
