"""Who shared a device when: few owners are compared each with each, a crowd is counted at each instant."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors import owner_times
from collectors.attribution import Owner
from collectors.owner_times import GpuTimes, sightings_of
from telemetry.ids import GpuId, JobId

GPU = GpuId("n", "GPU-1")
spans = st.lists(st.tuples(st.integers(0, 200), st.integers(2, 30)), min_size=1, max_size=24)


def _times(owners: list[tuple[int, int]]) -> GpuTimes:
    times = GpuTimes()
    for number, (start, size) in enumerate(owners):
        owner = Owner(JobId("kubernetes", f"a:p{number}"), f"a/p{number}/c")
        times.add(owner, np.arange(start, start + size, dtype=float), None)
    return times


@settings(deadline=None, max_examples=100)
@given(spans)
def test_a_crowd_is_counted_as_each_with_each_would(owners) -> None:
    """The same sharers wherever no two owners meet in one instant alone, which is a change of hands."""
    meet = [
        len(range(max(a[0], b[0]), min(a[0] + a[1], b[0] + b[1])))
        for i, a in enumerate(owners)
        for b in owners[i + 1 :]
    ]
    if 1 in meet:
        return
    told = sightings_of(GPU, _times(owners))
    most = owner_times._MOST_COMPARED
    try:
        owner_times._MOST_COMPARED = 0
        crowd = sightings_of(GPU, _times(owners))
        owner_times._MOST_COMPARED = 1_000
        each = sightings_of(GPU, _times(owners))
    finally:
        owner_times._MOST_COMPARED = most
    assert told == crowd == each


def test_a_change_of_hands_is_no_sharing_however_many_jobs_follow_each_other() -> None:
    """A day of short jobs, each of which ends in the instant in which the next begins."""
    owners = [(29 * number, 30) for number in range(300)]
    assert {sighting.sharers for sighting in sightings_of(GPU, _times(owners))} == {1}
