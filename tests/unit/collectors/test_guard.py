"""A collector of another package that breaks a law does not reach the store."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from collectors.guard import GuardedCollector
from telemetry.ids import SeriesKey
from telemetry.samples import Finding, Problem, SampleBatch, Window

KEY = SeriesKey("gpu_power_watts", "n:GPU-1")
NOW = 1000.0
GOOD = SampleBatch.of([(KEY, NOW, 300.0)], received_s=NOW)


class Theirs:
    """Gives what it is told to give."""

    name = "theirs"
    provides = frozenset({"gpu_power_watts"})

    def __init__(self, outcome: object) -> None:
        self._outcome = outcome

    async def collect(self, window: Window) -> SampleBatch:
        if isinstance(self._outcome, float):
            await asyncio.sleep(self._outcome)
        return self._outcome  # type: ignore[return-value]


def _read(outcome: object, lookback_s: float = 0.0) -> SampleBatch:
    guarded = GuardedCollector(Theirs(outcome), "mine", 0.05)
    return asyncio.run(guarded.collect(Window(NOW - lookback_s, NOW)))


def test_a_lawful_batch_passes_as_it_is() -> None:
    """The very same object, so that unchanged keys stay unchanged."""
    assert _read(GOOD) is GOOD
    assert GuardedCollector(Theirs(GOOD), "mine", 1.0).name == "plugin:mine:theirs"


@pytest.mark.parametrize(
    ("batch", "law"),
    [
        (None, "NoneType instead of a SampleBatch"),
        (SampleBatch.of([(SeriesKey("power", "n:GPU-1"), NOW, 1.0)], received_s=NOW), "power is not in the catalogue"),
        (
            SampleBatch.of([(SeriesKey("gpu_util_ratio", "n:G"), NOW, 1.0)], received_s=NOW),
            "gpu_util_ratio is not among",
        ),
        (SampleBatch.of([(KEY, NOW + 3600, 1.0)], received_s=NOW), "later than the time of asking"),
        (replace(GOOD, at_s=np.array([NOW, NOW])), ""),
        (replace(GOOD, findings=(Finding(Problem.WARNING, "x", ""),)), "a finding says nothing"),
    ],
)
def test_what_breaks_a_law_is_left_out_whole_with_the_law(batch: object, law: str) -> None:
    """Such a source is down, with the sentence."""
    got = _read(batch)
    assert len(got) == 0
    (finding,) = got.findings
    assert finding.problem is Problem.UNLAWFUL
    assert law in finding.detail


def test_old_samples_are_unlawful_only_where_a_span_was_asked_for() -> None:
    """A page may carry its own, older timestamps."""
    old = SampleBatch.of([(KEY, NOW - 100, 1.0)], received_s=NOW)
    assert _read(old) is old
    assert "older than the window" in _read(old, lookback_s=10.0).findings[0].detail


def test_one_that_hangs_is_given_up() -> None:
    """With the time that was waited."""
    assert _read(5.0).findings[0].problem is Problem.TIMEOUT
