"""What feeds the service: exporters read directly, or a Prometheus server."""

from __future__ import annotations

import asyncio
import http.client
import json
import urllib.request
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from api.collectives import Collectives
from api.reads import TargetHealth
from api.schedulers import Schedulers
from api.settings import PrometheusSettings, ScrapeSettings, TargetSettings
from collectors.address import shown_address
from collectors.aside import call_aside
from collectors.burst import BurstAnswer
from collectors.cadence import Cadence, CadenceLimits
from collectors.custom_map import CustomMap
from collectors.pool import OnBatch, ScrapePool
from collectors.scrape import ExporterCollector, open_session
from telemetry.clock import Clock
from telemetry.errors import ConfigError
from telemetry.roster import Roster
from telemetry.topology import Topology

SD_TIMEOUT_S = 10.0
NVML_EVERY_S = 1.0
"""The driver itself renews utilisation and power about once a second or faster."""
SD_MAX_BYTES = 64 * 2**20
_BURST_INTERVAL_S = 0.2
_BURST_FOR_S = 60.0


class ExporterSource:
    """Every exporter of the settings, side by side.

    Args:
        settings: targets and limits.
        on_batch: where batches go.
        clock: wall clock.
        schedulers: read beside them.
        collectives: read beside them.
    """

    def __init__(
        self,
        settings: ScrapeSettings,
        on_batch: OnBatch,
        clock: Clock,
        schedulers: Schedulers | None = None,
        collectives: Collectives | None = None,
        custom: CustomMap | None = None,
    ) -> None:
        self._settings = settings
        self._custom = custom
        self._collectives = collectives
        self._schedulers = schedulers
        self._limits = CadenceLimits(max_scrapes_per_s=settings.max_scrapes_per_s, fixed_s=settings.interval_s)
        self._pool = ScrapePool(on_batch, clock, self._limits)

    async def run(self) -> None:
        """Read until cancelled."""
        targets = list(self._settings.targets)
        if self._settings.targets_from:
            targets = await call_aside(discover, self._settings.targets_from)
        async with open_session() as session:
            try:
                for target in targets:
                    collector = ExporterCollector(
                        target.url,
                        session,
                        node=target.node,
                        cadence=Cadence(self._limits),
                        timeout_s=self._settings.timeout_s,
                        max_bytes=self._settings.max_bytes,
                        ownership=self._schedulers.ownership if self._schedulers else None,
                        custom=self._custom,
                    )
                    self._pool.add(collector)
                if self._settings.local_gpus:
                    self._add_local_gpus()
                if self._schedulers:
                    self._schedulers.add_to(self._pool)
                if self._collectives:
                    self._collectives.add_to(self._pool)
                await asyncio.Event().wait()
            finally:
                await self._pool.stop()
                if self._schedulers:
                    await self._schedulers.close()

    def _add_local_gpus(self) -> None:
        from collectors.nvml import NvmlCollector

        every_s = self._settings.interval_s or NVML_EVERY_S
        ownership = self._schedulers.ownership if self._schedulers else None
        local = NvmlCollector(timeout_s=self._settings.timeout_s, ownership=ownership)
        self._pool.add(local, cadence=Cadence(CadenceLimits(fixed_s=every_s)))

    def status(self) -> list[TargetHealth]:
        """Every target."""
        return _status(self._pool)

    def burst(self, nodes: Iterable[str]) -> BurstAnswer:
        """Read the exporters of some hosts more closely for a minute."""
        sources = self._pool.sources_of(nodes)
        # All of them together stay within half of what the settings allow.
        interval_s = max(_BURST_INTERVAL_S, 2.0 * len(sources) / self._settings.max_scrapes_per_s)
        return self._pool.burst(sources, interval_s, _BURST_FOR_S)

    def topology(self) -> Topology:
        """What the pages tell of the wiring."""
        return self._pool.topology()

    def rosters(self) -> tuple[Roster, ...]:
        """What each scheduler listed last."""
        return self._schedulers.rosters() if self._schedulers else ()


class PrometheusSource:
    """One Prometheus-compatible server.

    Args:
        settings: address and limits.
        on_batch: where batches go.
        clock: wall clock.
        schedulers: read beside it.
        collectives: read beside it.
    """

    def __init__(
        self,
        settings: PrometheusSettings,
        on_batch: OnBatch,
        clock: Clock,
        schedulers: Schedulers | None = None,
        collectives: Collectives | None = None,
        custom: CustomMap | None = None,
    ) -> None:
        self._settings = settings
        self._custom = custom
        self._collectives = collectives
        self._schedulers = schedulers
        self._pool = ScrapePool(on_batch, clock, CadenceLimits(fixed_s=settings.poll_s))
        self._topology: Topology = Topology()

    async def run(self) -> None:
        """Read until cancelled."""
        from collectors.prometheus import PrometheusCollector, PrometheusTail

        collector = PrometheusCollector(
            self._settings.url,
            timeout_s=self._settings.timeout_s,
            ownership=self._schedulers.ownership if self._schedulers else None,
            custom=self._custom,
        )
        try:
            self._pool.add(
                PrometheusTail(collector),
                cadence=Cadence(CadenceLimits(fixed_s=self._settings.poll_s)),
                lookback_s=self._settings.backfill_s,
            )
            if self._schedulers:
                self._schedulers.add_to(self._pool)
            if self._collectives:
                self._collectives.add_to(self._pool)
            await asyncio.Event().wait()
        finally:
            await self._pool.stop()
            if self._schedulers:
                await self._schedulers.close()

    def status(self) -> list[TargetHealth]:
        """The server."""
        return _status(self._pool)

    def topology(self) -> Topology:
        """What the server's series tell of the wiring."""
        return self._pool.topology()

    def rosters(self) -> tuple[Roster, ...]:
        """What each scheduler listed last."""
        return self._schedulers.rosters() if self._schedulers else ()


def _status(pool: ScrapePool) -> list[TargetHealth]:
    return [TargetHealth(**asdict(status)) for status in pool.statuses()]


def discover(url: str) -> list[TargetSettings]:
    """The targets that a Prometheus http_sd address lists.

    Raises:
        ConfigError: no answer, or not such a list.
    """
    shown = shown_address(url)
    try:
        with urllib.request.urlopen(url, timeout=SD_TIMEOUT_S) as reply:
            groups = json.loads(reply.read(SD_MAX_BYTES))
        targets = [target for group in groups for target in _targets(group)]
    except (OSError, http.client.HTTPException) as error:
        raise ConfigError(
            f"targets_from {shown} gives no answer: {getattr(error, 'reason', error)}",
            mend="Check the address, or list the targets with --target",
        ) from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ConfigError(f"targets_from {shown} is not a Prometheus http_sd list: {error}") from error
    if not targets:
        raise ConfigError(f"targets_from {shown} lists no target")
    return targets


def _targets(group: dict[str, Any]) -> Sequence[TargetSettings]:
    labels = group.get("labels", {})
    scheme, path = labels.get("__scheme__", "http"), labels.get("__metrics_path__", "/metrics")
    node = labels.get("node", labels.get("instance", ""))
    return [TargetSettings(url=f"{scheme}://{host}{path}", node=node) for host in group["targets"]]
