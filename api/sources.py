"""What feeds the service: exporters read directly, or a Prometheus server."""

from __future__ import annotations

import asyncio
import http.client
import json
import urllib.request
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import aiohttp

from api.beside import Beside
from api.settings import PrometheusSettings, ScrapeSettings, TargetSettings
from collectors.address import shown_address
from collectors.aside import call_aside
from collectors.base import Collector
from collectors.burst import BurstAnswer
from collectors.cadence import Cadence, CadenceLimits
from collectors.custom_map import CustomMap
from collectors.pool import OnBatch, ScrapePool
from collectors.scrape import ExporterCollector, open_session
from collectors.status import TargetStatus
from telemetry.clock import Clock
from telemetry.errors import ConfigError
from telemetry.topology import Topology

SD_TIMEOUT_S = 10.0
NVML_EVERY_S = 1.0
"""The driver itself renews utilisation and power about once a second or faster."""
SD_MAX_BYTES = 64 * 2**20
_BURST_INTERVAL_S = 0.2
_BURST_FOR_S = 60.0


class _Pooled:
    """What both kinds of source share: one pool, and what is read beside it."""

    def __init__(self, pool: ScrapePool, beside: Beside | None) -> None:
        self._pool = pool
        self._beside = beside or Beside()
        self._ownership = self._beside.ownership

    async def _read_until_cancelled(self, collectors: Iterable[tuple[Collector, Cadence, float]]) -> None:
        """Read the given collectors, each with its rhythm and lookback, and what is read beside them."""
        try:
            for collector, cadence, lookback_s in collectors:
                self._pool.add(collector, cadence=cadence, lookback_s=lookback_s)
            self._beside.add_to(self._pool)
            await asyncio.Event().wait()
        finally:
            await self._pool.stop()
            await self._beside.close()

    def status(self) -> list[TargetStatus]:
        """Every target, with what it is read for."""
        return [self._beside.with_role(status) for status in self._pool.statuses()]

    def topology(self) -> Topology:
        """What the pages or series tell of the wiring."""
        return self._pool.topology()


class ExporterSource(_Pooled):
    """Every exporter of the settings, side by side.

    Args:
        settings: targets and limits.
        on_batch: where batches go.
        clock: wall clock.
        beside: read beside them.
        custom: the site's own metrics.
    """

    def __init__(
        self,
        settings: ScrapeSettings,
        on_batch: OnBatch,
        clock: Clock,
        beside: Beside | None = None,
        custom: CustomMap | None = None,
    ) -> None:
        self._settings = settings
        self._custom = custom
        self._limits = CadenceLimits(max_scrapes_per_s=settings.max_scrapes_per_s, fixed_s=settings.interval_s)
        super().__init__(ScrapePool(on_batch, clock, self._limits), beside)

    async def run(self) -> None:
        """Read until cancelled."""
        targets = list(self._settings.targets)
        if self._settings.targets_from:
            targets = await call_aside(discover, self._settings.targets_from)
        async with open_session() as session:
            await self._read_until_cancelled([*self._exporters(targets, session), *self._local_gpus()])

    def _exporters(
        self, targets: Iterable[TargetSettings], session: aiohttp.ClientSession
    ) -> Iterator[tuple[Collector, Cadence, float]]:
        for target in targets:
            cadence = Cadence(self._limits)
            collector = ExporterCollector(
                target.url,
                session,
                node=target.node,
                cadence=cadence,
                timeout_s=self._settings.timeout_s,
                max_bytes=self._settings.max_bytes,
                ownership=self._ownership,
                custom=self._custom,
            )
            yield collector, cadence, 0.0

    def _local_gpus(self) -> Iterator[tuple[Collector, Cadence, float]]:
        if not self._settings.local_gpus:
            return
        from collectors.nvml import NvmlCollector

        every_s = self._settings.interval_s or NVML_EVERY_S
        local = NvmlCollector(timeout_s=self._settings.timeout_s, ownership=self._ownership)
        yield local, Cadence(CadenceLimits(fixed_s=every_s)), 0.0

    def burst(self, nodes: Iterable[str]) -> BurstAnswer:
        """Read the exporters of some hosts more closely for a minute."""
        sources = self._pool.sources_of(nodes)
        # All of them together stay within half of what the settings allow.
        interval_s = max(_BURST_INTERVAL_S, 2.0 * len(sources) / self._settings.max_scrapes_per_s)
        return self._pool.burst(sources, interval_s, _BURST_FOR_S)


class PrometheusSource(_Pooled):
    """One Prometheus-compatible server.

    Args:
        settings: address and limits.
        on_batch: where batches go.
        clock: wall clock.
        beside: read beside it.
        custom: the site's own metrics.
    """

    def __init__(
        self,
        settings: PrometheusSettings,
        on_batch: OnBatch,
        clock: Clock,
        beside: Beside | None = None,
        custom: CustomMap | None = None,
    ) -> None:
        self._settings = settings
        self._custom = custom
        self._limits = CadenceLimits(fixed_s=settings.poll_s)
        super().__init__(ScrapePool(on_batch, clock, self._limits), beside)

    async def run(self) -> None:
        """Read until cancelled."""
        from collectors.prometheus import PrometheusCollector
        from collectors.prometheus_tail import PrometheusTail

        collector = PrometheusCollector(
            self._settings.url,
            timeout_s=self._settings.timeout_s,
            ownership=self._ownership,
            custom=self._custom,
        )
        await self._read_until_cancelled(
            [(PrometheusTail(collector), Cadence(self._limits), self._settings.backfill_s)]
        )


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
