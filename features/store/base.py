"""The store seam."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from telemetry.ids import SeriesKey
from telemetry.jobs import Allocation
from telemetry.samples import SampleBatch

_NO_TIMES = np.empty(0, np.float64)
_NO_REASONS = np.empty(0, np.uint8)


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """One series read back, in time order, each instant once.

    Args:
        key: which series.
        at_s: (n,) Unix seconds, strictly increasing.
        value: (n,) NaN where missing.
        reason: (n,) ``Reason`` codes.
        received_s: when the newest of these samples arrived, in this machine's clock; 0 when unknown or empty.
    """

    key: SeriesKey
    at_s: NDArray[np.float64]
    value: NDArray[np.float64]
    reason: NDArray[np.uint8]
    received_s: float = 0.0

    @classmethod
    def empty(cls, key: SeriesKey) -> Series:
        """A series without samples."""
        return cls(key, _NO_TIMES, _NO_TIMES, _NO_REASONS)


@runtime_checkable
class Reader(Protocol):
    """What the transforms need of a store; ``Ring`` and every ``FeatureStore`` have it."""

    def read(self, keys: Sequence[SeriesKey], as_of_s: float, window_s: float) -> list[Series]:
        """The series as known at ``as_of_s``, in the order asked; an unknown key gives an empty series."""
        ...

    def keys(self, metrics: Iterable[str] | None = None) -> list[SeriesKey]:
        """Every known series, optionally of some metrics only."""
        ...

    def allocations(self, as_of_s: float, window_s: float) -> list[Allocation]:
        """Who had what inside the window, as known at ``as_of_s``."""
        ...


@runtime_checkable
class FeatureStore(Protocol):
    """Keeps samples.

    The contract, checked by ``features.store.checks``: nothing later than ``as_of_s`` is ever returned;
    appending a batch twice stores it once; the order of appends does not matter; once ``append`` returns, the
    samples survive ``kill -9``.
    """

    def append(self, batches: Sequence[SampleBatch]) -> int:
        """Store batches in one transaction; gives back how many samples were written.

        Of two samples of one series at one instant the first written wins, unless it was missing and the
        later one is not.

        Raises:
            StoreError: the store cannot be written; nothing of this call is then stored.
        """
        ...

    def read(self, keys: Sequence[SeriesKey], as_of_s: float, window_s: float) -> list[Series]:
        """The series as known at ``as_of_s``: samples with ``as_of_s - window_s <= at_s <= as_of_s``.

        An unknown key gives an empty series, in the order asked.
        """
        ...

    def keys(self, metrics: Iterable[str] | None = None) -> list[SeriesKey]:
        """Every known series, optionally of some metrics only."""
        ...

    def allocations(self, as_of_s: float, window_s: float) -> list[Allocation]:
        """Who had what inside the window, as known at ``as_of_s``."""
        ...

    def close(self) -> None:
        """Flush and release the files."""
        ...
