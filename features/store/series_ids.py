"""Numbers for series, and the layouts whose numbers are known by heart."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from telemetry.ids import SeriesKey
from telemetry.samples import SampleBatch, validate_batch

KEPT_LAYOUTS = 8192
"""Layouts that are remembered by identity; about one per target."""


class SeriesIds:
    """Series -> number, in the order in which they were first seen."""

    def __init__(self, known: Iterable[SeriesKey] = ()) -> None:
        self.by_key: dict[SeriesKey, int] = {key: number for number, key in enumerate(known)}
        self._layouts: dict[int, tuple[tuple[SeriesKey, ...], NDArray[np.int32]]] = {}

    def __len__(self) -> int:
        return len(self.by_key)

    def of(self, batch: SampleBatch) -> NDArray[np.int32]:
        """(n_samples,) number of each sample's series; new series get numbers.

        Raises:
            SchemaError: a batch of a layout not seen before breaks a law of ``SampleBatch``.
        """
        known = self._layouts.get(id(batch.keys))
        if known is None:
            validate_batch(batch)
            numbers = (self.by_key.setdefault(key, len(self.by_key)) for key in batch.keys)
            if len(self._layouts) >= KEPT_LAYOUTS:
                self._layouts.clear()
            # The tuple is kept alive beside its numbers, so that its identity cannot be used again.
            known = (batch.keys, np.fromiter(numbers, np.int32, len(batch.keys)))
            self._layouts[id(batch.keys)] = known
        return known[1][batch.series]

    def since(self, first: int) -> list[tuple[int, str, str]]:
        """(number, metric, entity) of every series from number ``first`` on."""
        return [(number, key.metric, key.entity) for key, number in islice(self.by_key.items(), first, None)]

    def forget_from(self, first: int) -> None:
        """Take back the numbers from ``first`` on."""
        for key in list(self.by_key)[first:]:
            del self.by_key[key]
        self._layouts.clear()
