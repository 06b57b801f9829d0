"""Sightings fold into stretches."""

from __future__ import annotations

import itertools

from features.store.allocations import HEARTBEAT_S, AllocationBook
from telemetry.ids import GpuId, JobId
from telemetry.samples import Sighting

GPU = GpuId("node-1", "GPU-1")
A, B = JobId("slurm", "1"), JobId("slurm", "2")


def _seen(at_s: float, *jobs: JobId, gpu: GpuId = GPU) -> list[Sighting]:
    owners: tuple[JobId | None, ...] = jobs or (None,)
    return [Sighting(gpu, at_s, job, sharers=len(jobs)) for job in owners]


def _spans(book: AllocationBook, as_of_s: float, window_s: float = 1e9):
    return [(a.job, a.from_s, a.to_s, a.sharers) for a in book.allocations(as_of_s, window_s)]


def test_another_owner_ends_a_stretch():
    """A GPU seen with another job, or with none, is no longer the first job's."""
    book = AllocationBook()
    for at_s in range(0, 50, 10):
        book.add(_seen(at_s, A))
    book.add(_seen(50, B))
    book.add(_seen(60))
    assert _spans(book, 45) == [(A, 0, None, 1)]
    assert _spans(book, 55) == [(A, 0, 40, 1), (B, 50, None, 1)]
    assert _spans(book, 60) == [(A, 0, 40, 1), (B, 50, 50, 1)]


def test_silence_ends_a_stretch():
    """A job not seen for over a minute is gone; when it comes back it is a new stretch."""
    book = AllocationBook()
    for at_s in (0, 10, 20, 200, 210):
        book.add(_seen(at_s, A))
    assert _spans(book, 80) == [(A, 0, None, 1)]
    assert _spans(book, 81) == [(A, 0, 20, 1)]
    assert _spans(book, 210) == [(A, 0, 20, 1), (A, 200, None, 1)]


def test_rare_sightings_are_not_silence():
    """Where a GPU is looked at every two minutes, two minutes are no silence."""
    book = AllocationBook()
    for at_s in range(0, 1200, 120):
        book.add(_seen(at_s, A))
    assert _spans(book, 1100)[-1] == (A, 120, None, 1)


def test_sharers_are_several_stretches_at_once():
    """Two jobs on one device each have it, and the number of sharers is the newest one known."""
    book = AllocationBook()
    book.add(_seen(0, A))
    book.add(_seen(10, A, B))
    assert _spans(book, 5) == [(A, 0, None, 1)]
    assert _spans(book, 10) == [(A, 0, None, 2), (B, 10, None, 2)]


def test_a_lost_mapping_changes_nothing():
    """A busy GPU whose owner the source lost neither ends nor prolongs a stretch."""
    book = AllocationBook()
    book.add(_seen(0, A))
    book.add([Sighting(GPU, 30, None, known=False)])
    assert _spans(book, 50) == [(A, 0, None, 1)]
    assert _spans(book, 61) == [(A, 0, 0, 1)]


def test_repeats_and_order_do_not_matter():
    """Sightings of one owner give the same stretch in any order and however often."""
    parts = [_seen(at_s, A) for at_s in (0, 20, 40)]
    for order in itertools.permutations(parts):
        book = AllocationBook()
        for part in (*order, *order):
            book.add(part)
        assert _spans(book, 40) == [(A, 0, None, 1)]


def test_only_changes_and_heartbeats_are_to_be_stored():
    """What a store keeps is enough to rebuild the same stretches, and much less than what came."""
    book, kept = AllocationBook(), []
    for at_s in range(100):
        kept += book.add(_seen(at_s, A) if at_s < 90 else _seen(at_s, B))
    kept += book.unstored()
    assert len(kept) <= 2 + 100 / HEARTBEAT_S + 2
    again = AllocationBook()
    again.add(kept)
    assert _spans(again, 99) == _spans(book, 99)


def test_rows_restore_a_book():
    """A book written as rows and read back answers the same and goes on."""
    book = AllocationBook()
    for at_s in range(0, 100, 10):
        book.add(_seen(at_s, A) if at_s < 50 else _seen(at_s, B))
    again = AllocationBook()
    again.restore(book.rows())
    assert _spans(again, 90) == _spans(book, 90)
    again.add(_seen(100))
    assert _spans(again, 100) == [(A, 0, 40, 1), (B, 50, 90, 1)]


def test_forgetting_keeps_what_still_lasts():
    """Only stretches that were over before the moment are dropped."""
    book = AllocationBook()
    book.add(_seen(0, A))
    book.add(_seen(30, B))
    book.add(_seen(60, B))
    book.forget(50)
    assert _spans(book, 60) == [(B, 30, None, 1)]
