"""Owners that stay are followed as one; the answers are those of following each on its own."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from features.store.allocations import AllocationBook
from telemetry.ids import GpuId, JobId
from telemetry.samples import Sighting, SightingsAt

GPUS = [GpuId("node", f"GPU-{i}") for i in range(3)]
JOBS: list[JobId | None] = [None, JobId("slurm", "1"), JobId("slurm", "2")]

_seen = st.builds(
    Sighting,
    gpu=st.sampled_from(GPUS),
    at_s=st.just(0.0),
    job=st.sampled_from(JOBS),
    known=st.sampled_from([True, True, True, False]),
    sharers=st.integers(0, 2),
)
_bases = st.lists(st.lists(_seen, max_size=4).map(tuple), min_size=1, max_size=3)
_gap_s = st.sampled_from([0.0, 1.0, 1.0, 1.0, 7.5, 24.0, 24.5, 61.0, 200.0, -3.0])


@st.composite
def _calls(draw: st.DrawFn) -> list[list[SightingsAt]]:
    """Calls of ``add_all``: mostly the same few pages again and again, a little later each time."""
    bases = draw(_bases)
    at_s, calls = 1000.0, []
    for _ in range(draw(st.integers(1, 12))):
        call = []
        for _ in range(draw(st.integers(1, 4))):
            at_s += draw(_gap_s)
            call.append(SightingsAt(draw(st.sampled_from(bases)), at_s))
        calls.append(call)
    return calls


def _kept(sightings: list[Sighting]) -> list[str]:
    return sorted(map(repr, sightings))


@settings(max_examples=400)
@given(_calls(), st.data())
def test_standing_owners_answer_as_single_ones(calls, data):
    """What is kept, the stretches and the allocations are the same, whenever somebody looks or forgets."""
    together, alone = AllocationBook(), AllocationBook()
    for call in calls:
        kept = together.add_all(call)
        assert _kept(kept) == _kept(alone.add_all([tuple(group) for group in call]))
        look = data.draw(st.sampled_from(["", "", "rows", "allocations", "forget", "unstored"]))
        at_s = call[-1].at_s
        if look == "rows":
            assert together.rows() == alone.rows()
        elif look == "allocations":
            assert together.allocations(at_s, 500.0) == alone.allocations(at_s, 500.0)
        elif look == "forget":
            together.forget(at_s - 100.0)
            alone.forget(at_s - 100.0)
        elif look == "unstored":
            assert _kept(together.unstored()) == _kept(alone.unstored())
    assert sorted(together.rows()) == sorted(alone.rows())
    assert together.allocations(calls[-1][-1].at_s + 30.0, 1e9) == alone.allocations(calls[-1][-1].at_s + 30.0, 1e9)


@settings(max_examples=100)
@given(_calls())
def test_sightings_at_another_moment_are_the_same_sightings(calls):
    """They count, compare and come out as the tuple they stand for."""
    for seen in calls[0]:
        plain = tuple(Sighting(s.gpu, seen.at_s, s.job, s.workload, s.known, s.sharers) for s in seen.base)
        assert plain == seen
        assert seen == plain
        assert (len(plain), plain[:2], hash(plain)) == (len(seen), seen[:2], hash(seen))


def test_a_job_that_stays_is_reported_each_heartbeat():
    """A store that keeps what ``add`` gives back may rebuild the stretch to a quarter of a minute."""
    base = tuple(Sighting(gpu, 0.0, JOBS[1], sharers=1) for gpu in GPUS)
    book = AllocationBook()
    kept = [book.add(SightingsAt(base, float(at_s))) for at_s in range(100, 161)]
    assert [len(found) for found in kept] == [3 if i % 15 == 0 else 0 for i in range(61)]
