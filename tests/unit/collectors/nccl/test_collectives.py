"""Sequence gaps, and records of many ranks put together."""

from __future__ import annotations

import json

import pytest

from collectors.nccl.collectives import CollectiveLedger, collectives_of
from collectors.nccl.inspector import InspectorRecord, parse_dump
from collectors.nccl.sequences import Arrival, SequenceLedger
from tests.kit.nccl import record

KIND = ("0xabc", "AllReduce")


def _one(sequence: int, **more: object) -> InspectorRecord:
    return parse_dump(record(sequence, **more)).records[0]  # type: ignore[arg-type]


def _feed(
    ledger: SequenceLedger, *sequences: int, stream: str = "f", now_s: float = 0.0, **more: object
) -> list[Arrival]:
    return [ledger.add(_one(n, **more), stream, now_s)[0] for n in sequences]


def test_gaps_are_counted_per_rank_and_kind() -> None:
    """5..7 of one rank and 2 of another are missing; another kind has its own numbers."""
    ledger = SequenceLedger()
    _feed(ledger, 4, 8)
    _feed(ledger, 1, 3, rank=1, n_ranks=2)
    _feed(ledger, 900, 901, coll="AllGather")

    assert ledger.missed(100.0) == {KIND: 4, ("0xabc", "AllGather"): 0}


def test_a_gap_counts_only_when_nobody_will_fill_it() -> None:
    """A late record from an older file fills its hole; what stays open is counted after a while."""
    ledger = SequenceLedger()
    _feed(ledger, 1, 5, now_s=10.0)
    assert ledger.missed(11.0, 30.0) == {KIND: 0}
    assert _feed(ledger, 3, stream="older", now_s=12.0, at_s=1_767_225_600.0) == [Arrival.FRESH]
    assert ledger.missed(100.0, 30.0) == {KIND: 2}


def test_the_same_record_again() -> None:
    """A repeated line is no restart and fills nothing."""
    ledger = SequenceLedger()

    assert _feed(ledger, 1, 2, 2, 1) == [Arrival.FRESH, Arrival.FRESH, Arrival.REPEATED, Arrival.REPEATED]


def test_numbers_that_begin_anew_are_no_gap() -> None:
    """Another process, or later records with lower numbers: the count goes on from what it was."""
    ledger = SequenceLedger()
    _feed(ledger, 1, 4)
    assert _feed(ledger, 0, pid=8, at_s=1_767_225_700.0) == [Arrival.RESTARTED]
    assert ledger.add(_one(1, pid=8, at_s=1_767_225_701.0), "f", 0.0) == (Arrival.FRESH, 1)
    assert ledger.add(_one(0, pid=8, at_s=1_767_225_702.0), "f", 0.0) == (Arrival.RESTARTED, 2)
    assert ledger.missed(100.0) == {KIND: 2}


def test_older_history_read_later_is_no_restart() -> None:
    """A rotated file read after the newer one goes before it."""
    ledger = SequenceLedger()
    _feed(ledger, 10, 11)

    assert _feed(ledger, 7, stream="older") == [Arrival.FRESH]
    assert _feed(ledger, 8, stream="older") == [Arrival.FRESH]
    assert ledger.missed(100.0) == {KIND: 1}


def test_a_collective_is_given_when_its_last_rank_is_there() -> None:
    """Three ranks: the slowest counts, its lag is to the middle one of the others."""
    ledger = CollectiveLedger()
    early = [ledger.add(_one(5, rank=rank, n_ranks=3, time_us=time), 0, 0.0) for rank, time in ((0, 100), (1, 180))]
    done = ledger.add(_one(5, rank=2, n_ranks=3, time_us=120), 0, 0.0)

    assert early == [None, None]
    assert done is not None
    assert (done.slowest_rank, done.ranks_read) == (1, 3)
    assert (done.exec_time_s, done.lag_s) == pytest.approx((180e-6, 70e-6))


def test_what_stays_incomplete_is_given_after_a_while() -> None:
    """Often only some hosts' files can be read; a record that comes still later is counted as late."""
    ledger = CollectiveLedger(settle_s=30.0)
    ledger.add(_one(5, rank=0, n_ranks=2), 0, 0.0)

    assert ledger.settle(29.0, {}) == []
    (one,) = ledger.settle(30.0, {"0xabc": "dp"})
    assert (str(one.id), one.ranks_read, one.lag_s) == ("dp:0xabc:AllReduce", 1, None)
    assert ledger.add(_one(5, rank=1, n_ranks=2), 0, 40.0) is None
    assert (ledger.late, ledger.settle(1e9, {})) == (1, [])


def test_ranks_without_a_time_count_where_others_have_one() -> None:
    """A rank's time that cannot be used does not spoil the collective; when all are such, it is missing with a reason."""
    mixed = collectives_of([_one(1, rank=0, n_ranks=2, time_us=0), _one(1, rank=1, n_ranks=2, time_us=100)])
    none = collectives_of([_one(1, time_us=0)])

    assert [(c.exec_time_s, c.why_missing) for c in mixed] == [(100e-6, "")]
    assert none[0].exec_time_s is None
    assert none[0].busbw_bytes_per_s is None
    assert "no time" in none[0].why_missing


def test_the_ledgers_survive_a_restart() -> None:
    """State to JSON and back: what was waiting waits on, holes stay open, counts go on."""
    sequences, collectives = SequenceLedger(), CollectiveLedger()
    _feed(sequences, 1, 5)
    collectives.add(_one(5, rank=0, n_ranks=2, time_us=70), 0, 0.0)
    other_sequences, other_collectives = SequenceLedger(), CollectiveLedger()
    other_sequences.restore(json.loads(json.dumps(sequences.state())))
    other_collectives.restore(json.loads(json.dumps(collectives.state())))

    assert _feed(other_sequences, 3) == [Arrival.FRESH]
    assert other_sequences.missed(100.0) == {KIND: 2}
    done = other_collectives.add(_one(5, rank=1, n_ranks=2, time_us=50), 0, 0.0)
    assert done is not None
    assert done.exec_time_s == pytest.approx(70e-6)
