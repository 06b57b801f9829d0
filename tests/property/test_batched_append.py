"""How pages are grouped on their way in changes nothing of what is kept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.exposition import PageParser
from collectors.fields import FieldMapper
from features.ring import Ring
from features.store.duck import DuckStore
from telemetry.samples import Reason, SampleBatch

START_S = 1_767_225_600.0
_FIELDS = ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_POWER_USAGE")


def _page(node: int, values: list[str], pod: str) -> bytes:
    labels = f'gpu="0",UUID="GPU-{node}",hostname="n{node}",namespace="team",pod="{pod}"'
    return "".join(f"{f}{{{labels}}} {v}\n" for f, v in zip(_FIELDS, values, strict=True)).encode()


_values = st.lists(st.sampled_from(["0", "42", "99.5", "NaN", "1e9", "-1", "2147483632"]), min_size=2, max_size=2)
_reads = st.lists(
    st.tuples(st.integers(0, 2), _values, st.sampled_from(["a", "a", "a", "b", ""]), st.sampled_from([0.0, 1.0, 20.0])),
    min_size=1,
    max_size=12,
)


def _batches(reads) -> list[SampleBatch]:
    parsers = [PageParser() for _ in range(3)]
    mappers = [FieldMapper(f"http://n{node}/metrics") for node in range(3)]
    at_s, found = START_S, []
    last_s: dict[int, float] = {}
    for node, values, pod, gap_s in reads:
        # An exporter is read once at a time: two owners of one device at the very same instant share it in a group,
        # and follow each other singly.
        at_s += gap_s if last_s.get(node) != at_s + gap_s else 1.0
        last_s[node] = at_s
        found.append(mappers[node].batch(parsers[node].parse(_page(node, values, pod)), at_s))
    return found


def _content(reader, keys) -> list[tuple[bytes, bytes, bytes]]:
    found = reader.read(keys, START_S + 1000.0, 2000.0)
    return [(series.at_s.tobytes(), series.value.tobytes(), series.reason.tobytes()) for series in found]


@settings(max_examples=60, deadline=None)
@given(_reads, st.data())
def test_pages_in_groups_are_pages_one_by_one(reads, data):
    """Store and ring hold the same samples and the same owners, to the last bit, with owners told as one or singly."""
    batches = _batches(reads)
    keys = sorted({key for batch in batches for key in batch.keys})
    together, alone, ring = DuckStore(None), DuckStore(None), Ring(2000.0)
    try:
        rest = list(batches)
        while rest:
            n = data.draw(st.integers(1, len(rest)))
            together.append(rest[:n])
            rest = rest[n:]
        for batch in batches:
            alone.append([replace(batch, sightings=tuple(batch.sightings))])
            ring.append(batch)
        assert _content(together, keys) == _content(alone, keys) == _content(ring, keys)
        for as_of_s in (START_S, START_S + 30.0, START_S + 500.0):
            wanted = alone.allocations(as_of_s, 1000.0)
            assert together.allocations(as_of_s, 1000.0) == wanted
            assert ring.allocations(as_of_s, 1000.0) == wanted
    finally:
        together.close()
        alone.close()


@settings(max_examples=60, deadline=None)
@given(_reads)
def test_a_page_of_a_known_layout_is_read_as_a_page_never_seen(reads):
    """What is remembered of a target changes the cost of its next page and not what it says."""
    for batch, (node, values, pod, _) in zip(_batches(reads), reads, strict=True):
        fresh = FieldMapper("x").batch(PageParser().parse(_page(node, values, pod)), batch.received_s)
        assert (fresh.keys, fresh.sightings) == (batch.keys, batch.sightings)
        assert np.array_equal(fresh.series, batch.series)
        assert fresh.at_s.tobytes() == batch.at_s.tobytes()
        known = (
            batch.reason != Reason.FIRST_READING
        )  # a zero on a target's first page may mean that nothing was read yet
        assert (
            fresh.value[known & (fresh.reason != Reason.FIRST_READING)].tobytes()
            == batch.value[known & (fresh.reason != Reason.FIRST_READING)].tobytes()
        )
