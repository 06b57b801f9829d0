"""Read a Prometheus server: raw samples with their own times, or a stepped range, in pieces that the server bears."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from collectors.address import shown_address
from collectors.answer import Answer, named
from collectors.aside import call_aside
from collectors.attribution import OwnerRules
from collectors.custom_map import CustomMap
from collectors.ownership import Ownership
from collectors.prometheus_api import MAX_BYTES, PrometheusApi
from collectors.series_map import SeriesMapper
from collectors.wiring import Wiring, capacities_of, nics_of, wiring_of_labels
from telemetry.catalogue import (
    BY_NAME,
    METRICS,
    NODE_NAME_FIELD,
    PER_CORE_FIELDS,
    UPLINK_FIELD,
    canonical_field,
)
from telemetry.errors import BadReply, ConfigError, SourceError, SourceUnreachable
from telemetry.ids import LinkId, SeriesKey
from telemetry.samples import Finding, Problem, SampleBatch, Window

_MOST_POINTS = 11_000
"""Prometheus refuses range queries with more points per series."""
_LEAST_CHUNK_S = 30.0
_FIELDS_PER_QUERY = 40
"""Keeps the address of a query under 2 kB, which every proxy lets through."""
SUMMED_EVERY_S = 15.0
"""Processor time summed over cores comes on a grid of this step: a raw range selector cannot sum."""
_MOST_REFUSALS = 64
"""Of one reading; a server that refuses this often is not asked for ever smaller pieces."""
_ASK_NAMES_AGAIN_S = 60.0


class PrometheusCollector:
    """One Prometheus server as a source of history.

    Args:
        url: of the server, such as ``http://127.0.0.1:9090``.
        timeout_s: for each query.
        step_s: None for raw samples; else values on a grid of this step, in which Prometheus repeats a lost target's
            last value for up to 5 minutes.
        chunk_s: longest span asked for at once; halved where the server says it is too much.
        metrics: catalogue names to read; when None all, those with a series for each core summed over the cores by the server.
        rules: the site's naming of owners.
        headers: sent with each query, such as an authorisation.
        custom: the site's own metrics, read besides.
        ownership: where the labels' word on owners meets a scheduler's; None where there is no scheduler.

    Raises:
        ConfigError: an unknown metric, or a step or chunk that is not positive.
    """

    def __init__(
        self,
        url: str,
        timeout_s: float = 30.0,
        step_s: float | None = None,
        chunk_s: float = 3600.0,
        metrics: Iterable[str] | None = None,
        *,
        rules: OwnerRules | None = None,
        headers: dict[str, str] | None = None,
        custom: CustomMap | None = None,
        ownership: Ownership | None = None,
    ) -> None:
        wanted = [m.name for m in METRICS] if metrics is None else list(metrics)
        self._summed = PER_CORE_FIELDS if metrics is None else frozenset()
        unknown = [name for name in wanted if name not in BY_NAME]
        if unknown:
            raise ConfigError(f"{unknown[0]} is not a metric of the catalogue", mend="gpucast names them with units")
        if chunk_s <= 0 or (step_s is not None and step_s <= 0):
            raise ConfigError("step and chunk of a Prometheus source must be above 0 s")
        self.name = shown_address(url).rstrip("/")
        custom = custom or CustomMap()
        self.provides = frozenset(wanted) | {metric.name for metric in custom.metrics}
        self.wiring: tuple[Wiring, ...] = ()
        self.capacity_bytes_per_s: dict[str, float] = {}
        self.nics: set[LinkId] = set()
        self._wired_keys: tuple[SeriesKey, ...] | None = None
        self._step_s = step_s
        self._chunk_s = chunk_s if step_s is None else min(chunk_s, step_s * (_MOST_POINTS - 1))
        named = {source.field for name in wanted for source in BY_NAME[name].sources}
        self._fields = (named - self._summed) | custom.fields
        self._to_sum: list[str] = []
        self._api = PrometheusApi(url.rstrip("/"), timeout_s=timeout_s, headers=headers, max_bytes=MAX_BYTES)
        self._mapper = SeriesMapper(self.name, rules, custom)
        self._ownership = ownership
        self._present: list[str] = []
        self._asked_at_s: float | None = None
        self._refused = 0
        self._lock = asyncio.Lock()

    async def collect(self, window: Window) -> SampleBatch:
        """Everything the server holds with ``start_s <= at_s <= end_s``.

        Parts that fail are left out and reported; the rest is given back, marked partial.
        """
        async with self._lock:
            batch = await call_aside(self._collect, window)
        if self._ownership is None:
            return batch
        self._ownership.index.learn(self._mapper.take_indices())
        return self._ownership.settle(batch)

    def close(self) -> None:
        """Release the connections."""
        self._api.close()

    def _collect(self, window: Window) -> SampleBatch:
        findings: list[Finding] = []
        answers: list[Answer] = []
        self._refused = 0
        try:
            self._learn_names(window)
            for start_s, end_s in _chunks(window, self._chunk_s):
                for fields in _groups(self._present, _FIELDS_PER_QUERY):
                    answers += self._read(fields, start_s, end_s, findings)
                answers += [answer for name in self._to_sum for answer in self._sum(name, start_s, end_s, findings)]
        except SourceUnreachable as dead:
            problem = Problem.TIMEOUT if "within" in dead.message else Problem.UNREACHABLE
            findings.append(Finding(problem, self.name, _without_source(dead)))
        except SourceError as bad:
            findings.append(Finding(Problem.QUERY_ERROR, self.name, _without_source(bad)))
        if findings and any(answer.series for answer in answers):
            findings.append(Finding(Problem.PARTIAL, self.name, "a part of the window could not be read"))
        told = [answer for answer in answers if answer.state != "no_data"]
        if not told:
            if not findings:
                text = "no_data: the server holds no sample of a known metric in the window"
                findings.append(Finding(Problem.EMPTY, self.name, text))
            return SampleBatch.empty(source=self.name, findings=findings, received_s=window.end_s)
        batch = self._mapper.batch(told, window.end_s, start_s=window.start_s, end_s=window.end_s)
        if batch.keys is not self._wired_keys:
            self._wired_keys = batch.keys
            self.capacity_bytes_per_s |= capacities_of(batch)
            self.nics |= nics_of(batch)
        return _with_findings(batch, findings)

    def _learn_names(self, window: Window) -> None:
        """Which families the server has, which host stands behind which instance, and the wiring."""
        if self._asked_at_s is not None and 0 <= window.end_s - self._asked_at_s < _ASK_NAMES_AGAIN_S:
            return
        names = set(self._api.metric_names())
        self._to_sum = sorted(name for name in names if name in self._summed)
        self._present = sorted(name for name in names if name in self._fields or canonical_field(name) in self._fields)
        if NODE_NAME_FIELD in names:
            rows = [series.labels for series in self._api.instant(NODE_NAME_FIELD, window.end_s).series]
            self._mapper.name_nodes(
                {row["instance"]: row["nodename"] for row in rows if row.get("instance") and row.get("nodename")}
            )
        if UPLINK_FIELD in names:
            rows = [series.labels for series in self._api.instant(UPLINK_FIELD, window.end_s).series]
            self.wiring = wiring_of_labels(rows)
        self._asked_at_s = window.end_s if self._present or self._to_sum else None

    def _read(self, fields: Sequence[str], start_s: float, end_s: float, findings: list[Finding]) -> list[Answer]:
        """The fields over a span; halves the span, then the fields, while the server says it is too much."""
        try:
            return [self._ask(fields, start_s, end_s)]
        except BadReply as bad:
            span_s = end_s - start_s
            self._refused += 1
            if self._refused > _MOST_REFUSALS:
                findings.append(Finding(Problem.QUERY_ERROR, self.name, _without_source(bad)))
                return []
            if bad.retry_smaller and span_s > 2 * _LEAST_CHUNK_S:
                middle_s = start_s + span_s / 2
                left = self._read(fields, start_s, middle_s, findings)
                return left + self._read(fields, middle_s, end_s, findings)
            if bad.retry_smaller and len(fields) > 1:
                middle = len(fields) // 2
                left = self._read(fields[:middle], start_s, end_s, findings)
                return left + self._read(fields[middle:], start_s, end_s, findings)
            findings.append(Finding(Problem.QUERY_ERROR, self.name, _without_source(bad)))
            return []

    def _sum(self, field: str, start_s: float, end_s: float, findings: list[Finding]) -> list[Answer]:
        """A field summed over cores, on a grid that is the same from reading to reading."""
        step_s = max(self._step_s or 0.0, SUMMED_EVERY_S)
        first_s, last_s = np.ceil(start_s / step_s) * step_s, np.floor(end_s / step_s) * step_s
        if last_s < first_s:
            return []
        try:
            answer = self._api.range(f"sum without (cpu) ({field})", float(first_s), float(last_s), step_s)
        except BadReply as bad:
            findings.append(Finding(Problem.QUERY_ERROR, self.name, _without_source(bad)))
            return []
        return [named(answer, field)]

    def _ask(self, fields: Sequence[str], start_s: float, end_s: float) -> Answer:
        selector = f'{{__name__=~"{"|".join(fields)}"}}'
        if self._step_s is not None:
            return self._api.range(selector, start_s, end_s, self._step_s)
        # Since version 3 a range selector leaves out its left end: one millisecond more takes it in.
        span_ms = max(round((end_s - start_s) * 1000), 0) + 1
        return self._api.instant(f"{selector}[{span_ms}ms]", end_s)


def _without_source(error: SourceError) -> str:
    """The error's sentence and the mend; a finding names its source beside it."""
    sentence = error.message.removeprefix(f"{error.source}: ")
    return f"{sentence}. {error.mend}" if error.mend else sentence


def _with_findings(batch: SampleBatch, findings: Sequence[Finding]) -> SampleBatch:
    return SampleBatch(
        batch.keys,
        batch.series,
        batch.at_s,
        batch.value,
        batch.reason,
        batch.sightings,
        (*batch.findings, *findings),
        batch.source,
        batch.received_s,
    )


def _chunks(window: Window, chunk_s: float) -> list[tuple[float, float]]:
    """The window in spans of at most ``chunk_s``, oldest first."""
    n = max(-int(-window.duration_s // chunk_s), 1)
    edges = [window.start_s + i * chunk_s for i in range(n)] + [window.end_s]
    return list(pairwise(edges))


def _groups(names: Sequence[str], size: int) -> list[Sequence[str]]:
    return [names[i : i + size] for i in range(0, len(names), size)]
