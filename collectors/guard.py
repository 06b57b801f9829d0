"""Holds a collector of another package to the contract while it runs: what breaks it never reaches the store."""

from __future__ import annotations

import asyncio

import numpy as np

from collectors.base import Collector
from telemetry.catalogue import BY_NAME
from telemetry.errors import SchemaError
from telemetry.samples import Finding, Problem, SampleBatch, Window, validate_batch

MOST_AHEAD_S = 60.0
"""A source's clock may run this far ahead of ours."""
OWN_METRIC = "site_"
"""What a site's own metrics begin with; the others are of the catalogue."""


class GuardedCollector:
    """A collector of another package, as the pool runs it.

    A batch that breaks a law is left out whole, with a finding that names the law; so is one that takes too long.

    Args:
        inner: the collector.
        plugin: name of its entry point.
        timeout_s: longest wait for one batch.
    """

    def __init__(self, inner: Collector, plugin: str, timeout_s: float) -> None:
        self.name = f"plugin:{plugin}:{inner.name}"
        self.provides = frozenset(inner.provides)
        self._inner = inner
        self._timeout_s = timeout_s

    async def collect(self, window: Window) -> SampleBatch:
        """What the inner one gives, as far as it is lawful.

        Raises:
            Exception: what the inner one raises; the pool counts and shows it.
        """
        try:
            async with asyncio.timeout(self._timeout_s):
                batch = await self._inner.collect(window)
        except TimeoutError:
            return self._nothing(Problem.TIMEOUT, f"no batch within {self._timeout_s:g} s", window)
        broken = broken_law(batch, self.provides, window)
        if broken:
            return self._nothing(Problem.UNLAWFUL, f"breaks the contract of a collector: {broken}", window)
        return batch

    async def close(self) -> None:
        """Release what the inner one holds, where it has a ``close``."""
        close = getattr(self._inner, "close", None)
        outcome = close() if callable(close) else None
        if asyncio.iscoroutine(outcome):
            await outcome

    def _nothing(self, problem: Problem, text: str, window: Window) -> SampleBatch:
        return SampleBatch.empty(
            source=self.name, findings=(Finding(problem, self.name, text),), received_s=window.end_s
        )


def broken_law(batch: object, provides: frozenset[str], window: Window) -> str:
    """Which law of ``collectors.checks`` a batch breaks, in a sentence; empty when none."""
    if not isinstance(batch, SampleBatch):
        return f"it gives {type(batch).__name__} instead of a SampleBatch"
    try:
        validate_batch(batch)
    except SchemaError as error:
        return error.message
    unknown = {key.metric for key in batch.keys if key.metric not in BY_NAME and not key.metric.startswith(OWN_METRIC)}
    if unknown:
        return f"{min(unknown)} is not in the catalogue"
    undeclared = {key.metric for key in batch.keys} - provides
    if undeclared:
        return f"{min(undeclared)} is not among what it says it provides"
    if any(not finding.detail or finding.count <= 0 for finding in batch.findings):
        return "a finding says nothing"
    if not len(batch):
        return ""
    if not np.isfinite(batch.at_s).all() or batch.at_s.max() > window.end_s + MOST_AHEAD_S:
        return "a sample is later than the time of asking"
    if window.end_s > window.start_s and batch.at_s.min() < window.start_s:
        return "a sample is older than the window that was asked for"
    return ""
