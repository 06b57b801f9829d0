"""What a device's jobs may use of its memory, by whatever tells it."""

from __future__ import annotations

import numpy as np
import pytest

from features.ring import Ring
from features.transforms.device_memory import FREE, RESERVED, TOTAL, USED, usable_memory
from telemetry.ids import SeriesKey
from telemetry.samples import SampleBatch

T_S = 1_767_225_600.0
GPU = "n1:GPU-0"


def _ring(**values: float) -> Ring:
    ring = Ring(300.0)
    names = {"total": TOTAL, "reserved": RESERVED, "used": USED, "free": FREE}
    for name, value in values.items():
        key = SeriesKey(names[name], GPU)
        ring.append(
            SampleBatch((key,), np.zeros(1, np.int32), np.array([T_S]), np.array([value]), np.zeros(1, np.uint8))
        )
    return ring


@pytest.mark.parametrize(
    ("values", "usable"),
    [
        ({"total": 80.0, "reserved": 5.0, "used": 10.0, "free": 65.0}, 75.0),
        ({"used": 10.0, "free": 65.0}, 75.0),
        ({"total": 80.0, "used": 10.0}, 80.0),
    ],
)
def test_the_surest_source_tells(values: dict[str, float], usable: float) -> None:
    """Total less reserved, else used plus free, else the total."""
    assert usable_memory(_ring(**values), [GPU], T_S + 1.0, 300.0) == {GPU: usable}


def test_without_a_total_there_is_nothing() -> None:
    """Used alone says nothing of what there is."""
    assert usable_memory(_ring(used=10.0), [GPU], T_S + 1.0, 300.0) == {}
    assert usable_memory(_ring(total=0.0), [GPU], T_S + 1.0, 300.0) == {}
