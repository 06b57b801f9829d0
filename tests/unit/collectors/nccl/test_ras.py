"""NCCL RAS: answers in both forms, and asking for them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from collectors.inspect import inspect_source
from collectors.nccl.ras import RasReport, TroubleKind, parse_ras
from collectors.nccl.ras_client import RasCollector, read_ras
from telemetry.errors import BadReply
from telemetry.samples import Problem, SampleBatch, Window, validate_batch
from tests.kit.nccl import START_S, ras_answer, ras_communicator, ras_rank
from tests.kit.ras_server import RasServer, ras_server

NOW = Window(START_S, START_S)
TEXT = b"""RCCL version 2.24.3 compiled with HIP 6.4
Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      2          8            1         16       16

Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         8         2         1         2        16   RUNNING  MISMATCH
    1         1         2         8        16        15   RUNNING  INCOMPLETE

Errors
======

DEAD
  1 job process is considered dead (unreachable via the RAS network)
  Process 41 on node 10.0.0.9 managing GPU 0

#1-0 (00f264af53edbe98) INCOMPLETE
  Missing communicator data from 1 rank
  Rank 8 -- GPU 0 managed by process 2157 on node 10.0.0.2

Warnings
========

#0-3 (78db921d1c117b4a) MISMATCH
  Communicator ranks have different AllReduce operation counts
  7 ranks have launched up to operation 64
  Rank 7 has launched up to operation 60 -- GPU 3 managed by process 1650 on node n1

#0-4 (78db921d1c117b4b) MISMATCH
  Communicator ranks have different collective operation counts
  26 ranks have launched up to operation 6650
  6 ranks have launched up to operation 6649
  Rank 0 -- GPU 0 managed by process 1 on node n1
"""


def _collect(answer: bytes, **server: Any) -> tuple[SampleBatch, RasServer, RasCollector]:
    async def run() -> tuple[SampleBatch, RasServer, RasCollector]:
        async with ras_server(answer, **server) as ras:
            collector = RasCollector("127.0.0.1", ras.port, timeout_s=5.0)
            batch = await collector.collect(NOW)
            validate_batch(batch)
            return batch, ras, collector

    return asyncio.run(run())


def _values(batch: SampleBatch) -> dict[tuple[str, str], float]:
    return {
        (batch.keys[series].metric, batch.keys[series].entity): float(value)
        for series, value in zip(batch.series, batch.value, strict=True)
    }


def test_the_conversation() -> None:
    """Protocol, time, form, question; the samples carry the time of asking."""
    batch, server, collector = _collect(
        ras_answer(ras_communicator(ras_rank(0, AllReduce=7), ras_rank(1, AllReduce=4)))
    )

    assert server.heard == ["CLIENT PROTOCOL 3", "TIMEOUT 2", "SET FORMAT json", "VERBOSE STATUS"]
    assert set(batch.at_s.tolist()) == {START_S}
    values = _values(batch)
    assert values["nccl_launched_total", "0x1.0x2:0xabc:AllReduce"] == 7
    assert values["nccl_launch_lag_count", "0x1.0x2:0xabc:AllReduce"] == 3
    assert values["nccl_missing_ranks_count", "0x1.0x2:0xabc"] == 0
    assert collector.report is not None
    assert [t.kind for t in collector.report.troubles] == [TroubleKind.LAGGING]


def test_an_older_server_is_asked_for_text() -> None:
    """Protocol 2 knows no forms; communicators in trouble are what its text names."""
    batch, server, _ = _collect(TEXT, greeting=b"SERVER PROTOCOL 2\n")

    assert "SET FORMAT json" not in server.heard
    assert _values(batch) == {
        ("nccl_missing_ranks_count", "unknown:0xf264af53edbe98"): 1.0,
        ("nccl_launch_lag_count", "unknown:0x78db921d1c117b4a:AllReduce"): 4.0,
    }
    assert len(batch.findings) == 3


def test_a_large_answer() -> None:
    """Beyond 256 KiB nothing is cut."""
    ranks = [ras_rank(n, AllReduce=5, AllGather=9) for n in range(4_000)]
    answer = ras_answer(ras_communicator(*ranks))
    batch, _, collector = _collect(answer)

    assert len(answer) > 500_000
    assert collector.report is not None
    assert len(collector.report.communicators[0].ranks) == 4_000
    assert _values(batch)["nccl_launched_total", "0x1.0x2:0xabc:AllGather"] == 9


@pytest.mark.parametrize(
    ("greeting", "problem"),
    [
        (b"", Problem.NOT_TEXT),
        (b"SSH-2.0-OpenSSH_9.2\n", Problem.NOT_TEXT),
        (b"SERVER PROTOCOL x\n", Problem.NOT_TEXT),
        (b"x" * 200_000 + b"\n", Problem.NOT_TEXT),
    ],
)
def test_who_answers_is_no_ras(greeting: bytes, problem: Problem) -> None:
    """Another service on the port is named as such."""
    batch, _, collector = _collect(b"", greeting=greeting or b"\n")

    assert ([f.problem for f in batch.findings], len(batch)) == ([problem], 0)
    assert collector.report is None


@pytest.mark.parametrize("server", [{"greeting": b""}, {"endless": b"x"}])
def test_who_never_ends_is_given_up(server: dict[str, bytes]) -> None:
    """Silence, or a byte at a time for ever: the conversation as a whole has a limit."""

    async def run() -> SampleBatch:
        async with ras_server(**server) as ras:
            return await RasCollector("127.0.0.1", ras.port, timeout_s=0.3, max_bytes=10**9).collect(NOW)

    assert [finding.problem for finding in asyncio.run(run()).findings] == [Problem.TIMEOUT]


@pytest.mark.parametrize(("code", "failed"), [(0, 0), (7, 0), (1, 1), (6, 1), (8, 1), (99, 1)])
def test_asynchronous_errors(code: int, failed: int) -> None:
    """7 says that a call is in progress, which is no error; every other number but 0 is one."""
    report = parse_ras(ras_answer(ras_communicator(ras_rank(0, error=code))), "x")

    assert [t.kind for t in report.troubles] == [TroubleKind.ASYNC_ERROR] * failed
    assert sum(rank.failed for rank in report.communicators[0].ranks) == failed


@pytest.mark.parametrize(("counts", "lagging"), [((9, 9), ()), ((9, 8), ()), ((9, 7), (1,)), ((5, 9), (0,))])
def test_one_step_apart_is_no_lag(counts: tuple[int, int], lagging: tuple[int, ...]) -> None:
    """Ranks are asked one after the other while they run."""
    ranks = [ras_rank(n, AllReduce=count) for n, count in enumerate(counts)]
    report = parse_ras(ras_answer(ras_communicator(*ranks)), "x")

    assert tuple(rank for t in report.troubles for rank in t.ranks) == lagging


def test_missing_ranks() -> None:
    """Dead, unresponsive, without a word; and those that are counted but not named."""
    missing = [
        {"rank": 1, "host": "h", "pid": 5, "status": {"unresponsive": True, "considered_dead": False}},
        {"rank": 2, "host": "h", "pid": 6, "status": {"unresponsive": True, "considered_dead": True}},
        {"rank": 3, "host": "h", "pid": 7},
    ]
    report = parse_ras(ras_answer(ras_communicator(ras_rank(0), missing=5, missing_ranks=missing)), "x")

    assert [(t.kind.value, t.ranks, t.count) for t in report.troubles] == [
        ("unresponsive", (1,), 1),
        ("dead", (2,), 1),
        ("missing", (3,), 1),
        ("missing", (), 2),
    ]
    assert report.communicators[0].n_missing == 5


def test_parts_that_cannot_be_used() -> None:
    """They cost themselves alone, and are counted."""
    odd: list[Any] = [3, {"rank": "x"}, {"rank": -1}, {"rank": 0, "status": 7, "collective_counts": [1]}]
    report = parse_ras(
        ras_answer(ras_communicator(ras_rank(0), ranks=odd, missing_ranks=[None], size="x"), {"hash": "zz"}), "x"
    )

    assert report.malformed == {
        "a rank without a number": 3,
        "a missing rank without a number": 1,
        "a communicator without a hash": 1,
    }
    assert report.communicators[0].size == 1


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"{}", b'{"communicators":3}', b"hello\n", b"\xff"])
def test_what_is_no_answer(text: bytes) -> None:
    """Neither form: said in a sentence."""
    with pytest.raises(BadReply, match="answer"):
        read_ras(text, "x")


def test_the_text_form() -> None:
    """Groups, dead processes, missing ranks, and lags of more than one step."""
    report: RasReport = read_ras(TEXT, "x")

    assert report.nccl_version == "2.24.3"
    assert [(g.number, g.communicators, g.ranks, g.state, g.problem) for g in report.groups] == [
        (0, 8, 16, "RUNNING", "MISMATCH"),
        (1, 1, 15, "RUNNING", "INCOMPLETE"),
    ]
    assert [(t.kind.value, t.host, t.pid, t.count, t.by) for t in report.troubles] == [
        ("dead", "10.0.0.9", 41, 1, 0),
        ("missing", "10.0.0.2", 2157, 1, 0),
        ("lagging", "n1", 1650, 1, 4),
    ]


def test_inspect_shows_both_forms() -> None:
    """``gpucast inspect`` of a saved answer."""
    text = inspect_source(TEXT, "ras.txt")
    json = inspect_source(ras_answer(ras_communicator(ras_rank(0, error=2))), "ras.json")

    assert (text.format, json.format) == ("NCCL RAS answer", "NCCL RAS answer")
    assert any("considered dead" in fact for fact in text.facts)
    assert any("system error" in fact for fact in json.facts)


@pytest.mark.shared
def test_a_true_answer(shared_dir: Path) -> None:
    """One rank of two does not respond."""
    data = (shared_dir / "formats" / "samples" / "nccl_ras.json").read_bytes()
    report = read_ras(data, "nccl_ras.json")

    assert [(t.kind, t.ranks, t.host, t.pid) for t in report.troubles] == [
        (TroubleKind.UNRESPONSIVE, (1,), "10.0.0.2", 1001)
    ]
    assert report.communicators[0].launches()["AllGather"] == (640, 640, ())
