"""The contract of a collector, as checks that every implementation runs: ours in the tests, yours in your package.

A stage sets up a source in a given condition and gives the collector that reads it::

    for name, check in yield_checks(MyStage()):
        await check()
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import numpy as np

from collectors.base import Collector
from telemetry.catalogue import BY_NAME
from telemetry.samples import SampleBatch, Window, validate_batch

CONDITIONS = ("good", "dead", "slow", "huge", "torn", "empty", "nan", "duplicate", "not_text")
"""What a source can be like. ``good`` has at least one sample of a GPU; ``nan`` the same with a NaN in it;
``duplicate`` the same with one series given twice; the others cannot be used, or only in part."""

_NO_SAMPLES = ("dead", "slow", "huge", "empty")
_WITH_SAMPLES = ("good", "nan", "duplicate")


class CollectorStage(Protocol):
    """Sets up sources for the checks."""

    window: Window
    """A span in which the stage's sources have samples."""

    def collector(self, condition: str) -> AbstractAsyncContextManager[Collector]:
        """A collector whose source is in one of ``CONDITIONS``; gone when the context ends."""
        ...


Check = Callable[[], Awaitable[None]]


def yield_checks(stage: CollectorStage) -> Iterator[tuple[str, Check]]:
    """Every law of the contract as a named check, which raises AssertionError with a sentence when it is broken."""
    for condition in CONDITIONS:
        yield f"{condition}: a lawful batch and no exception", _lawful(stage, condition)
    for condition in _NO_SAMPLES:
        yield f"{condition}: a finding and no made-up value", _no_samples(stage, condition)
    for condition in _WITH_SAMPLES:
        yield f"{condition}: samples", _samples(stage, condition)
    yield "nan: the missing value has a reason", _nan_has_reason(stage)
    yield "duplicate: one sample per series and instant", _once(stage)
    yield "good: reading again gives the same keys object", _same_keys(stage)


def _lawful(stage: CollectorStage, condition: str) -> Check:
    async def check() -> None:
        async with stage.collector(condition) as collector:
            batch = await collector.collect(stage.window)
            validate_batch(batch)
            inside = (batch.at_s >= stage.window.start_s) & (batch.at_s <= stage.window.end_s)
            assert inside.all(), "a sample lies outside the window"
            unknown = {key.metric for key in batch.keys} - set(BY_NAME)
            assert not unknown, f"not in the catalogue: {unknown}"
            assert {key.metric for key in batch.keys} <= collector.provides, "a metric outside of provides"
            assert all(f.detail and f.count > 0 for f in batch.findings), "a finding says nothing"

    return check


def _no_samples(stage: CollectorStage, condition: str) -> Check:
    async def check() -> None:
        batch = await _read(stage, condition)
        assert len(batch) == 0, f"{len(batch)} samples from a source that is {condition}"
        assert batch.findings, f"nothing was said about a source that is {condition}"

    return check


def _samples(stage: CollectorStage, condition: str) -> Check:
    async def check() -> None:
        batch = await _read(stage, condition)
        assert np.isfinite(batch.value).any(), f"no value from a source that is {condition}"

    return check


def _nan_has_reason(stage: CollectorStage) -> Check:
    async def check() -> None:
        batch = await _read(stage, "nan")
        missing = np.isnan(batch.value)
        assert missing.any(), "the stage's NaN was lost without a word"
        assert (batch.reason[missing] != 0).all(), "a missing value has no reason"

    return check


def _once(stage: CollectorStage) -> Check:
    async def check() -> None:
        batch = await _read(stage, "duplicate")
        pairs = set(zip(batch.series.tolist(), batch.at_s.tolist(), strict=True))
        assert len(pairs) == len(batch), "a series has two samples at one instant"

    return check


def _same_keys(stage: CollectorStage) -> Check:
    async def check() -> None:
        async with stage.collector("good") as collector:
            first = await collector.collect(stage.window)
            second = await collector.collect(stage.window)
            assert not len(second) or first.keys is second.keys, "the keys are a new object though nothing changed"

    return check


async def _read(stage: CollectorStage, condition: str) -> SampleBatch:
    async with stage.collector(condition) as collector:
        return await collector.collect(stage.window)
