"""How many bytes of a device's memory its jobs may use."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from features.store.base import Reader
from telemetry.ids import SeriesKey

TOTAL, RESERVED = "gpu_memory_total_bytes", "gpu_memory_reserved_bytes"
USED, FREE = "gpu_memory_used_bytes", "gpu_memory_free_bytes"
READ_S = 60.0
"""Totals stand still: the newest minute is enough to know them."""


def usable_memory(reader: Reader, entities: Sequence[str], as_of_s: float, span_s: float) -> dict[str, float]:
    """Device -> bytes that its jobs may use; devices of which nothing tells are left out.

    Total less what the driver reserves where both are collected, else used plus free at one instant, else the total.
    """
    keys = [SeriesKey(metric, entity) for metric in (TOTAL, RESERVED, USED, FREE) for entity in entities]
    found = iter(reader.read(keys, as_of_s, min(span_s, READ_S)))
    newest: dict[str, dict[str, tuple[float, float]]] = {}
    for metric in (TOTAL, RESERVED, USED, FREE):
        for entity in entities:
            series = next(found)
            good = np.flatnonzero((series.reason == 0) & np.isfinite(series.value))
            if good.size:
                newest.setdefault(entity, {})[metric] = (float(series.at_s[good[-1]]), float(series.value[good[-1]]))
    usable = {entity: _usable(values) for entity, values in newest.items()}
    return {entity: size for entity, size in usable.items() if size is not None and size > 0}


def _usable(newest: dict[str, tuple[float, float]]) -> float | None:
    if TOTAL in newest and RESERVED in newest:
        return newest[TOTAL][1] - newest[RESERVED][1]
    if USED in newest and FREE in newest and newest[USED][0] == newest[FREE][0]:
        return newest[USED][1] + newest[FREE][1]
    return newest[TOTAL][1] if TOTAL in newest else None
