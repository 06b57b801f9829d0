"""What NCCL itself tells, read beside the exporters: Inspector's files and RAS."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from api.settings import NcclSettings
from collectors.cadence import Cadence, CadenceLimits
from collectors.nccl.ras_client import PORT
from collectors.nccl.standing import CommunicatorState, RasAnswer, standing
from collectors.pool import ScrapePool
from telemetry.ids import JobId, SeriesKey

if TYPE_CHECKING:
    from collectors.nccl.ras_client import RasCollector
    from collectors.nccl.tail import InspectorTail

STATE_NAME = "nccl-inspector.json"
"""In the store's folder: how far each of Inspector's files was read."""
STAMPED = "nccl_message_bytes"
"""Each sample of these series stands at the end of a collective and tells its size."""
FORGET_S = 900.0
"""A communicator of an unknown or ended job, silent for longer, is no longer listed."""


class Collectives:
    """The NCCL sources of the settings; none of them by default.

    Args:
        settings: folders and addresses.
        store_folder: where the places in the files are kept.
    """

    def __init__(self, settings: NcclSettings, store_folder: Path) -> None:
        self._settings = settings
        self._state_file = store_folder / STATE_NAME
        self._tail: InspectorTail | None = None
        self._ras: list[RasCollector] = []

    @property
    def names(self) -> frozenset[str]:
        """What the pool calls the sources."""
        tail = (self._tail.name,) if self._tail is not None else ()
        return frozenset((*tail, *(one.name for one in self._ras)))

    def add_to(self, pool: ScrapePool) -> None:
        """Start reading them. To be called inside the running loop."""
        settings = self._settings
        limits = CadenceLimits(fixed_s=settings.poll_s)
        if settings.inspector_folders:
            from collectors.nccl.tail import InspectorTail

            # A record that was read but not kept when the service stops is read once more: there is nothing to close.
            tail = InspectorTail(settings.inspector_folders, state_file=self._state_file, settle_s=settings.settle_s)
            pool.add(tail, cadence=Cadence(limits), lookback_s=settings.lookback_s)
            self._tail = tail
        for address in settings.ras:
            from collectors.nccl.ras_client import RasCollector

            host, _, port = address.rpartition(":") if ":" in address else (address, "", str(PORT))
            one = RasCollector(
                host.strip("[]"), int(port), timeout_s=settings.timeout_s, max_bytes=settings.ras_max_bytes
            )
            pool.add(one, cadence=Cadence(limits))
            self._ras.append(one)

    def standing(self, jobs_on: Mapping[str, Collection[JobId]], now_s: float) -> tuple[CommunicatorState, ...]:
        """How every communicator stands, those in trouble first.

        Args:
            jobs_on: host -> jobs that run there.
            now_s: Unix seconds.
        """
        tail = self._tail
        alive = set[JobId]().union(*jobs_on.values())
        views = [
            view
            for view in (tail.communicators() if tail is not None else ())
            if view.job in alive or now_s - view.last_s <= FORGET_S
        ]
        answers = [
            RasAnswer(one.name, one.report_at_s, one.report)
            for one in self._ras
            if one.report is not None and now_s - one.report_at_s <= FORGET_S
        ]
        return standing(views, tail.missed() if tail is not None else {}, answers, jobs_on)


def stamped_series(states: Iterable[CommunicatorState], keys: Iterable[SeriesKey]) -> dict[JobId, list[SeriesKey]]:
    """Job -> series of message sizes of its own communicators, as far as their job is known.

    Args:
        states: how the communicators stand.
        keys: known series of message sizes.
    """
    owners: dict[str, set[JobId | None]] = {}
    for state in states:
        owners.setdefault(str(state.id), set()).add(state.job)
    # Communicators split from one another may share an id: then nothing tells whose a series is.
    job_of = {name: next(iter(jobs)) for name, jobs in owners.items() if len(jobs) == 1}
    found: dict[JobId, list[SeriesKey]] = {}
    for key in keys:
        name, _, rest = key.entity.partition(":")
        job = job_of.get(f"{name}:{rest.partition(':')[0]}")
        if job is not None:
            found.setdefault(job, []).append(key)
    return found
