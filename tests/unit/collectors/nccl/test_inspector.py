"""Inspector records: sizes, times, bandwidths, and what is left out."""

from __future__ import annotations

import json

import pytest

from collectors.nccl.bandwidth import bus_factor, total_bytes
from collectors.nccl.inspector import Timing, communicator_hash, parse_dump
from tests.kit.nccl import p2p_record, record


@pytest.mark.parametrize(
    ("operation", "total", "factor"),
    [
        ("AllReduce", 100, 1.75),
        ("AllGather", 800, 0.875),
        ("ReduceScatter", 800, 0.875),
        ("Broadcast", 100, 1.0),
        ("Reduce", 100, 1.0),
        ("AlltoAll", 100, None),
    ],
)
def test_size_and_factor_of_each_operation(operation: str, total: int, factor: float | None) -> None:
    """Eight ranks: the size is per rank for AllGather and ReduceScatter; an unknown operation has no bus bandwidth."""
    assert total_bytes(operation, 100, 8) == total
    assert bus_factor(operation, 8) == factor


def test_a_send_has_its_own_bandwidth() -> None:
    """Point to point: bus bandwidth is algorithm bandwidth."""
    (one,) = parse_dump(p2p_record(time_us=1000)).records

    assert (one.operation, one.peer, one.algbw_bytes_per_s, one.busbw_bytes_per_s) == ("Send", 1, 1e9, 1e9)


def test_an_unknown_operation_has_no_bus_bandwidth() -> None:
    """The plug-in prints 0 for it, which is no value and no disagreement."""
    (one,) = parse_dump(record(coll="AlltoAll", n_ranks=8, perf={"coll_busbw_gbs": 0, "coll_algobw_gbs": 10.0})).records

    assert (one.busbw_bytes_per_s, one.algbw_bytes_per_s, one.why_excluded) == (None, 1e10, "")


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"time_us": 0}, "no time was measured"),
        ({"timing": "collective_cpu"}, "collective_cpu"),
        ({"perf": {"coll_algobw_gbs": 10.02}}, "disagrees"),
        ({"n_ranks": 2, "perf": {"coll_busbw_gbs": 20.0}}, "disagrees"),
        ({"perf": {"coll_algobw_gbs": 10.005}}, ""),
        ({"timing": "kernel_cpu"}, ""),
        ({"timing": None}, ""),
        ({"timing": "sundial"}, ""),
    ],
)
def test_what_counts_in_statistics(changes: dict[str, object], word: str) -> None:
    """No time, host timing or a bandwidth that is off by more than a thousandth are left out; unknown timing is not."""
    (one,) = parse_dump(record(**changes)).records  # type: ignore[arg-type]

    assert (word in one.why_excluded) if word else one.why_excluded == ""


def test_older_records() -> None:
    """Without a name and a timing source a record is kept, and says that it does not know."""
    (one,) = parse_dump(record(name=None, timing=None)).records

    assert (one.communicator.name, one.timing) == ("unknown", Timing.UNKNOWN)


def test_verbose_records_tell_when_the_operation_ended() -> None:
    """The last channel's end stands for the operation; the time of writing only where there is none."""
    base_us = 1_767_225_600_000_000
    events = [{"kernel_stop_ts": base_us - 5_000_000}, {"kernel_stop_ts": base_us - 2_000_000}, "x", {}]
    (verbose,) = parse_dump(record(perf={"event_trace_ts": {"kernel_events": events}})).records
    late = [{"kernel_stop_ts": base_us + 10}]
    (odd,) = parse_dump(record(perf={"event_trace_ts": {"kernel_events": late}})).records

    assert (verbose.at_s, verbose.written_s) == (1_767_225_598.0, 1_767_225_600.0)
    assert odd.at_s == odd.written_s


def test_a_cut_line_is_counted_and_the_record_behind_it_kept() -> None:
    """A writer that was killed leaves half a line; the next writer's record follows on it."""
    dump = parse_dump(record(0) + record(1)[:70] + record(2) + record(3)[:50])

    assert ([one.sequence for one in dump.records], dump.incomplete) == ([0, 2], 2)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("header", "rank"), 9),
        (("header", "rank"), "0"),
        (("header", "rank"), True),
        (("header", "n_ranks"), 0),
        (("header", "n_ranks"), 1e300),
        (("header", "id"), "dp"),
        (("header", "id"), None),
        (("header",), []),
        (("metadata",), None),
        (("metadata", "dump_timestamp_us"), -1),
        (("coll_perf", "coll"), ""),
        (("coll_perf", "coll_sn"), -1),
        (("coll_perf", "coll_exec_time_us"), 1.5),
        (("coll_perf", "coll_msg_size_bytes"), None),
        (("coll_perf",), 3),
    ],
)
def test_a_record_that_cannot_be_is_named(path: tuple[str, ...], value: object) -> None:
    """A wrong field costs its record, and says which field."""
    document = json.loads(record())
    part = document
    for name in path[:-1]:
        part = part[name]
    part[path[-1]] = value
    dump = parse_dump(json.dumps(document).encode() + b"\n" + record(1))

    assert [one.sequence for one in dump.records] == [1]
    assert sum(dump.malformed.values()) == 1
    assert len(next(iter(dump.malformed))) > 15


def test_text_that_is_no_json() -> None:
    """Other lines are counted, blank ones are not."""
    dump = parse_dump(b"hello\n\n[1]\n  \n" + record())

    assert (len(dump.records), dump.malformed, dump.incomplete) == (1, {"a line that is no JSON object": 2}, 0)


@pytest.mark.parametrize("text", ["0x00ab", "ab", "0xAB", "00000000000000ab"])
def test_one_form_of_a_hash(text: str) -> None:
    """RAS's text pads with zeros, JSON writes 0x; the two are joined on the same words."""
    assert communicator_hash(text) == "0xab"


@pytest.mark.parametrize("text", ["", "dp", None, "0x", 1.5, "a" * 10_000 + "g"])
def test_no_hash(text: object) -> None:
    """What is no hash gives none."""
    assert communicator_hash(text) in ("", "0x" + "a" * 40)
