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
    """Series -> number, in the order in which they were first seen.

    Args:
        known: series that have numbers already.
        most: further series than this get no number; None for no limit. Known ones stay, however many.
    """

    def __init__(self, known: Iterable[SeriesKey] = (), most: int | None = None) -> None:
        self.most = most
        self.by_key: dict[SeriesKey, int] = {key: number for number, key in enumerate(known)}
        self._layouts: dict[int, tuple[tuple[SeriesKey, ...], NDArray[np.int32]]] = {}

    def __len__(self) -> int:
        return len(self.by_key)

    def of(self, batch: SampleBatch) -> NDArray[np.int32]:
        """(n_samples,) number of each sample's series; new series get numbers, or -1 beyond the limit.

        Raises:
            SchemaError: a batch of a layout not seen before breaks a law of ``SampleBatch``.
        """
        known = self._layouts.get(id(batch.keys))
        if known is None:
            validate_batch(batch)
            numbers = (self._number(key) for key in batch.keys)
            if len(self._layouts) >= KEPT_LAYOUTS:
                self._layouts.clear()
            # The tuple is kept alive beside its numbers, so that its identity cannot be used again.
            known = (batch.keys, np.fromiter(numbers, np.int32, len(batch.keys)))
            self._layouts[id(batch.keys)] = known
        return known[1][batch.series]

    def _number(self, key: SeriesKey) -> int:
        number = self.by_key.get(key)
        if number is None:
            if self.most is not None and len(self.by_key) >= self.most:
                return -1
            number = self.by_key[key] = len(self.by_key)
        return number

    def since(self, first: int) -> list[tuple[int, str, str]]:
        """(number, metric, entity) of every series from number ``first`` on."""
        return [(number, key.metric, key.entity) for key, number in islice(self.by_key.items(), first, None)]

    def forget_from(self, first: int) -> None:
        """Take back the numbers from ``first`` on."""
        for key in list(self.by_key)[first:]:
            del self.by_key[key]
        self._layouts.clear()
