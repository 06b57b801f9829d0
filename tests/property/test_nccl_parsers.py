"""No bytes whatever make a reader of NCCL's outputs raise, and none makes it slow out of proportion."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.inspect import inspect_source
from collectors.nccl.collectives import collectives_of
from collectors.nccl.debug_log import parse_debug_log
from collectors.nccl.inspector import parse_dump
from collectors.nccl.nccl_tests import parse_nccl_tests
from collectors.nccl.ras import parse_ras
from collectors.nccl.ras_client import findings_of, rows_of_report
from collectors.nccl.ras_text import parse_ras_text
from collectors.nccl.samples import BatchMaker, rows_of_collective, rows_of_record
from telemetry.errors import BadReply
from telemetry.samples import Window, validate_batch
from tests.kit.nccl import ras_answer, ras_communicator, ras_rank, record

ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=20),
    st.lists(st.integers(), max_size=2),
)
LOG_LINES = [
    "Channel 00/0 : 7[7] -> 8[0] [send] via NET/IB/3(8)/GDRDMA",
    "comm 0x1 rank 2 nRanks 16 nNodes 2",
    "ncclCommInitRank comm 0x1 rank 2 nranks 16 cudaDev 2 nvmlDev 2 busId 3a000 commId 0x9 - Init COMPLETE",
    "8 coll channels, 8 collnet channels, 16 nvls channels, 8 p2p channels, 2 p2p channels per peer",
    "Pattern 4, crossNic 0, nChannels 8, bw 45.000000/45.000000, type NVL/PIX, sameChannels 1",
    "NET/IB : GPU Direct RDMA Disabled for HCA 4 'mlx5_bond_0'",
]
RAS_TEXT = """Job summary
Communicators... (0.00s)
    0         1         4         8        32        32   RUNNING  MISMATCH
DEAD
  Process 41 on node h managing GPU 0
#0-0 (27a079b828ff1a75) MISMATCH
  Communicator ranks have different AllReduce operation counts
  26 ranks have launched up to operation 6650
  Rank 0 -- GPU 0 managed by process 1 on node n1
"""
TABLE = """# all_reduce_perf out-of-place in-place
# size count type redop root time algbw busbw #wrong time algbw busbw #wrong
1024 256 float sum -1 10.0 1.5 2.5 0 20.0 3.5 4.5 N/A
"""


def _mutated(text: str) -> st.SearchStrategy[bytes]:
    """The text with pieces taken out, put in and repeated."""
    data = text.encode()
    place = st.integers(0, len(data))

    def change(parts: tuple[int, int, bytes, int]) -> bytes:
        start, end, put, times = parts
        low, high = min(start, end), max(start, end)
        return data[:low] + put * times + data[high:]

    return st.tuples(place, place, st.binary(max_size=30), st.integers(0, 20)).map(change)


def _batch_of(data: bytes) -> None:
    """Parse Inspector lines all the way to a lawful batch."""
    dump = parse_dump(data)
    rows = [row for one in dump.records for row in rows_of_record(one, one.communicator.name)]
    rows += [row for one in collectives_of(dump.records) for row in rows_of_collective(one)]
    validate_batch(BatchMaker("x").batch(rows, Window(0.0, 4e9), dump.findings("x")))


@given(st.binary(max_size=2_000))
@settings(max_examples=200, deadline=None)
def test_any_bytes(data: bytes) -> None:
    """Every reader takes any bytes."""
    _batch_of(data)
    parse_debug_log(data)
    parse_nccl_tests(data)
    inspect_source(data, "x")
    for read in (parse_ras, parse_ras_text):
        with pytest.raises(BadReply):
            read(data, "x")


@given(
    st.sampled_from(["header", "metadata", "coll_perf"]),
    st.dictionaries(st.text(max_size=12), ODD, max_size=3),
    st.data(),
)
@settings(max_examples=300, deadline=None)
def test_odd_inspector_fields(part: str, extra: dict[str, object], data: st.DataObject) -> None:
    """Any value in any field costs at most its record."""
    document = json.loads(record(3, n_ranks=4))
    field = data.draw(st.sampled_from(sorted(document[part])))
    document[part][field] = data.draw(ODD)
    document[part] |= extra
    text = json.dumps(document).encode() + b"\n"
    _batch_of(text + record(4))

    assert parse_dump(text + record(4)).records[-1].sequence == 4


@given(_mutated((record(0) + record(1, coll="AllGather", n_ranks=2)).decode()))
@settings(max_examples=300, deadline=None)
def test_mutated_inspector_lines(data: bytes) -> None:
    """Cut, repeated and spoilt lines give a lawful batch."""
    _batch_of(data)
    inspect_source(data, "x")


@given(st.sampled_from(["ranks", "missing_ranks", "hash", "size", "missing_ranks_count", "secondary_hash"]), ODD, ODD)
@settings(max_examples=300, deadline=None)
def test_odd_ras_fields(field: str, value: object, count: object) -> None:
    """Any value in any field costs at most its part; what is left is a lawful batch."""
    answer = ras_answer(ras_communicator(ras_rank(0, AllReduce=count, x=3), **{field: value}))
    try:
        report = parse_ras(answer, "x")
    except BadReply:  # json.dumps writes NaN and Infinity, which are no JSON
        return
    validate_batch(BatchMaker("x").batch(rows_of_report(report, 1.0), Window(0.0, 2.0), findings_of(report, "x")))


@given(_mutated(RAS_TEXT))
@settings(max_examples=300, deadline=None)
def test_mutated_ras_text(data: bytes) -> None:
    """A spoilt text answer is read as far as it goes, or refused in a sentence."""
    try:
        report = parse_ras_text(data, "x")
    except BadReply:
        return
    validate_batch(BatchMaker("x").batch(rows_of_report(report, 1.0), Window(0.0, 2.0), findings_of(report, "x")))


@given(_mutated("".join(f"n1:42:43 [2] NCCL INFO {line}\n" for line in LOG_LINES)))
@settings(max_examples=300, deadline=None)
def test_mutated_debug_log(data: bytes) -> None:
    """A spoilt log is read line by line."""
    parse_debug_log(data).slow_signs()
    inspect_source(data, "x")


@given(_mutated(TABLE))
@settings(max_examples=300, deadline=None)
def test_mutated_nccl_tests(data: bytes) -> None:
    """A spoilt table gives the rows that fit its header."""
    parse_nccl_tests(data)
    inspect_source(data, "x")


@pytest.mark.parametrize(
    "unit",
    [
        b'{"header"',
        b'{"a":' * 50,
        b"[" * 50,
        b"n:1:1 [0] NCCL INFO Channel 00/0 : ",
        b"Rank 1 -- process 1 on node ",
        b"Job summary Communicators #0-0 (a) ",
        b"# size count type time algbw busbw out-of-place ",
        b"a:" * 20,
        b"1 ",
        b"} ",
    ],
)
def test_long_repetition_is_read_in_one_go(unit: bytes) -> None:
    """Eight times as much takes no more than some tens of times as many steps: counted in steps, not in seconds."""
    few, many = (_steps(unit * (n // len(unit))) for n in (2_000, 16_000))

    assert many < 40 * few + 2_000


def _steps(data: bytes) -> int:
    """Lines of Python run while reading; regular expressions inside them are bounded by the length of a line."""
    import sys

    steps = 0

    def count(*_: object) -> object:
        nonlocal steps
        steps += 1
        return count

    before = sys.gettrace()
    sys.settrace(count)  # type: ignore[arg-type]
    try:
        for one in (data, data + b"\n", data.replace(b" ", b"\n")):
            parse_dump(one)
            parse_debug_log(one)
            parse_nccl_tests(one)
            try:
                parse_ras_text(b"Job summary\nCommunicators\n" + one, "x")
                parse_ras(one, "x")
            except BadReply:
                pass
    finally:
        sys.settrace(before)
    return steps
