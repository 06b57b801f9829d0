"""The field case of NCCL Inspector records, figure by figure."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectors.inspect import inspect_source
from collectors.nccl.bandwidth import GB
from collectors.nccl.collectives import collectives_of
from collectors.nccl.inspector import InspectorDump, Timing, parse_dump
from telemetry.samples import Problem

pytestmark = pytest.mark.shared
EXPECTED = [
    ("AllReduce", 1407, 2, 277.210914, 485.119099),
    ("ReduceScatter", 1231, 2, 418.439467, 366.134533),
    ("ReduceScatter", 1231, 3, 330.3821, 289.084337),
    ("AllGather", 900, 2, 429.49673, 375.809638),
    ("AllReduce", 1408, 2, None, None),
    ("AllReduce", 1409, 2, 5541.893285, 9698.313249),
    ("AllReduce", 1410, 2, 277.094664, 484.915662),
    ("Send", 12, 2, 244.032233, 244.032233),
]


@pytest.fixture
def text(shared_dir: Path) -> bytes:
    return (shared_dir / "cases" / "14-nccl-inspector-busbw" / "rank2.log").read_bytes()


@pytest.fixture
def dump(text: bytes) -> InspectorDump:
    return parse_dump(text)


def test_bandwidths_from_size_and_time(dump: InspectorDump) -> None:
    """Worked out again they agree with the records' own to a thousandth."""
    found = [
        (r.operation, r.sequence, r.rank, _gbs(r.algbw_bytes_per_s), _gbs(r.busbw_bytes_per_s)) for r in dump.records
    ]

    assert [row[:3] for row in found] == [row[:3] for row in EXPECTED]
    for got, want in zip(found, EXPECTED, strict=True):
        assert [
            g if w is None else pytest.approx(w, rel=1e-6) == g for g, w in zip(got[3:], want[3:], strict=True)
        ] == [None if w is None else True for w in want[3:]], got


def test_total_size_of_a_reduce_scatter(dump: InspectorDump) -> None:
    """The printed size is per rank."""
    assert dump.records[1].total_bytes == 17_179_869_184


def test_what_is_left_out(dump: InspectorDump) -> None:
    """The record without a time and the host-timed one; the one of unknown timing stays."""
    assert [r.sequence for r in dump.records if r.why_excluded] == [1408, 1409]
    assert [r.sequence for r in dump.records if r.timing is Timing.UNKNOWN] == [1410]


def test_the_straggler(dump: InspectorDump) -> None:
    """The slowest rank's time is the collective's."""
    one = next(c for c in collectives_of(dump.records) if c.id.operation == "ReduceScatter")

    assert (one.sequence, one.slowest_rank, one.exec_time_s) == (1231, 3, 0.052)
    assert one.lag_s == pytest.approx(10_943e-6, rel=1e-9)
    assert _gbs(one.busbw_bytes_per_s) == pytest.approx(289.084337, rel=1e-6)


def test_lines_and_the_cut_one(dump: InspectorDump) -> None:
    """Eight records, one incomplete line, and the time is that of writing."""
    assert (len(dump.records), dump.incomplete, dump.malformed) == (8, 1, {})
    assert dump.records[0].written_s == 1_767_225_600.0001


def test_inspect_shows_it(text: bytes) -> None:
    """``gpucast inspect``: missing values with a reason, the straggler in words, the cut line counted."""
    seen = inspect_source(text, "rank2.log")
    busbw = [row for row in seen.rows if row.metric == "nccl_busbw_bytes_per_s"]

    assert seen.format == "NCCL Inspector records"
    assert sorted(round(row.value / GB, 6) for row in busbw if row.value is not None) == [
        244.032233,
        289.084337,
        375.809638,
        484.915662,
        485.119099,
    ]
    assert len([row for row in busbw if row.value is None and row.why_missing]) == 2
    assert any("rank 3 was the slowest with 52000 us, 10943 us behind" in fact for fact in seen.facts)
    assert [(f.problem, f.count) for f in seen.findings] == [
        (Problem.TORN, 1),
        (Problem.BLANK_VALUE, 1),
        (Problem.BLANK_VALUE, 1),
    ]


def _gbs(value: float | None) -> float | None:
    return None if value is None else value / GB
