"""What NCCL itself tells, read beside the exporters: Inspector's files and RAS."""

from __future__ import annotations

from pathlib import Path

from api.settings import NcclSettings
from collectors.cadence import Cadence, CadenceLimits
from collectors.nccl.ras_client import PORT
from collectors.pool import ScrapePool

STATE_NAME = "nccl-inspector.json"
"""In the store's folder: how far each of Inspector's files was read."""


class Collectives:
    """The NCCL sources of the settings; none of them by default.

    Args:
        settings: folders and addresses.
        store_folder: where the places in the files are kept.
    """

    def __init__(self, settings: NcclSettings, store_folder: Path) -> None:
        self._settings = settings
        self._state_file = store_folder / STATE_NAME

    def add_to(self, pool: ScrapePool) -> None:
        """Start reading them. To be called inside the running loop."""
        settings = self._settings
        limits = CadenceLimits(fixed_s=settings.poll_s)
        if settings.inspector_folders:
            from collectors.nccl.tail import InspectorTail

            # A record that was read but not kept when the service stops is read once more: there is nothing to close.
            tail = InspectorTail(settings.inspector_folders, state_file=self._state_file, settle_s=settings.settle_s)
            pool.add(tail, cadence=Cadence(limits), lookback_s=settings.lookback_s)
        for address in settings.ras:
            from collectors.nccl.ras_client import RasCollector

            host, _, port = address.rpartition(":") if ":" in address else (address, "", str(PORT))
            one = RasCollector(
                host.strip("[]"), int(port), timeout_s=settings.timeout_s, max_bytes=settings.ras_max_bytes
            )
            pool.add(one, cadence=Cadence(limits))
