"""The health frame hands on what moved, and remembers what was read at all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from features.ring import Ring
from features.transforms.health import HEALTH_METRICS, MOST_POINTS, health_frame, place_of
from forecast.predict.health.signs import xid
from forecast.predict.health.types import Evidence, Severity
from telemetry.catalogue import BY_NAME
from telemetry.ids import SeriesKey
from telemetry.samples import SampleBatch

START_S = 1_767_225_600.0
ECC, XID, CLOCK = (
    SeriesKey(metric, "n1:GPU-a") for metric in ("gpu_ecc_dbe_total", "gpu_xid_last_code", "gpu_sm_clock_hertz")
)


def _ring(rows: list[list[float]], keys: tuple[SeriesKey, ...] = (ECC, XID, CLOCK)) -> Ring:
    ring = Ring(1e5)
    for i, row in enumerate(rows):
        value = np.array(row)
        ring.append(
            SampleBatch(
                keys,
                np.arange(len(keys), dtype=np.int32),
                np.full(len(keys), START_S + i),
                value,
                np.where(np.isnan(value), 3, 0).astype(np.uint8),
                received_s=START_S + i,
            )
        )
    return ring


def test_what_stands_still_is_read_and_left_behind() -> None:
    """A counter without growth and a code of 0 are known to be read, and not handed on; a clock is."""
    frame = health_frame(_ring([[5.0, 0.0, 1e9]] * 10), now_s=START_S + 9, window_s=60.0)
    assert frame.series["gpu_ecc_dbe_total"] == () == frame.series["gpu_xid_last_code"]
    assert frame.read_on["gpu_ecc_dbe_total"] == frozenset({"n1"})
    assert frame.read_count["gpu_sm_clock_hertz"] == 1
    assert frame.series["gpu_sm_clock_hertz"][0].value.tolist() == [1e9] * 10
    assert "gpu_ecc_sbe_total" not in frame.read_on
    assert frame.data_at_s == START_S + 9


def test_what_moved_is_handed_on_without_its_holes() -> None:
    """Good readings only, and nothing later than the cutoff."""
    rows = [[5.0, 0.0, 1e9], [np.nan, 79.0, np.nan], [6.0, 79.0, 1e9], [9.0, 79.0, 1e9]]
    frame = health_frame(_ring(rows), now_s=START_S + 2, window_s=60.0)
    assert frame.series["gpu_ecc_dbe_total"][0].value.tolist() == [5.0, 6.0]
    assert frame.series["gpu_xid_last_code"][0].value.tolist() == [0.0, 79.0, 79.0]


def test_a_metric_without_a_good_reading_is_not_read() -> None:
    """Blank readings are as good as none."""
    frame = health_frame(_ring([[np.nan, 0.0, 1e9]] * 3), now_s=START_S + 9, window_s=60.0)
    assert "gpu_ecc_dbe_total" not in frame.read_on


def test_gauges_are_bounded() -> None:
    """A clock that is read ten times a second is cut to its newest readings."""
    frame = health_frame(
        _ring([[0.0, 0.0, 1e9 + i] for i in range(MOST_POINTS + 50)]), now_s=START_S + 1e4, window_s=2e4
    )
    (clock,) = frame.series["gpu_sm_clock_hertz"]
    assert clock.value.size == MOST_POINTS
    assert clock.value[-1] == 1e9 + MOST_POINTS + 49


def test_every_metric_is_in_the_catalogue_and_has_a_place() -> None:
    """A name that the catalogue lacks would never be read."""
    assert set(HEALTH_METRICS) <= set(BY_NAME)
    assert place_of("gpu_sm_clock_hertz", "n1:GPU-a") == "n1"
    assert place_of("port_symbol_error_total", "n1:mlx5_0:1") == "n1"
    assert place_of("port_symbol_error_total", "leaf1:7") == "leaf1"
    assert place_of("rank_step_duration_s", "slurm:7@3") == "slurm:7"
    assert place_of("nccl_busbw_bytes_per_s", "dp:0x1:AllReduce") == "dp:0x1"


@pytest.mark.shared
def test_the_sticky_xid_case_as_findings(answer_batch, shared_dir: Path) -> None:
    """Two XIDs 31 and one 43, all the program's own; none is invented from the number that sticks."""
    path = shared_dir / "cases/08-xid-last-value-gauge/query_range.json"
    ring = Ring(1e5)
    for field in ("DCGM_FI_DEV_XID_ERRORS", "DCGM_EXP_XID_ERRORS_COUNT"):
        ring.append(answer_batch(path, (field,)))
    frame = health_frame(ring, now_s=1_767_229_140.0, window_s=1e5)
    found = xid.find(Evidence(frame))
    assert {(one.detail, one.numbers["events"], one.since_s) for one in found} == {
        ("31", 2.0, 1_767_225_900.0),
        ("43", 1.0, 1_767_228_060.0),
    }
    assert {one.severity for one in found} == {Severity.INFO}
    assert "1080 s ago" in next(one.evidence for one in found if one.detail == "43")
