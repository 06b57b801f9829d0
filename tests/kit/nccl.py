"""NCCL's outputs for tests: Inspector lines, RAS answers, and the stages of the collector contract."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from collectors.base import Collector
from collectors.nccl.ras_client import RasCollector
from collectors.nccl.tail import InspectorTail
from telemetry.samples import Window
from tests.kit.ras_server import ras_server

START_S = 1_767_225_600.0


def record(
    sequence: int = 0,
    *,
    rank: int = 0,
    n_ranks: int = 1,
    coll: str = "AllReduce",
    size: int = 1_000_000,
    time_us: int = 100,
    at_s: float | None = None,
    timing: str | None = "kernel_gpu",
    comm: str = "0xabc",
    name: str | None = "dp",
    pid: int = 7,
    host: str = "n1",
    perf: Mapping[str, Any] | None = None,
) -> bytes:
    """One Inspector line, newline included; each sequence number a millisecond after the one before."""
    written_s = START_S + sequence * 1e-3 if at_s is None else at_s
    header: dict[str, Any] = {"id": comm, "rank": rank, "n_ranks": n_ranks, "nnodes": 1}
    if name is not None:
        header["comm_name"] = name
    body: dict[str, Any] = {
        "coll": coll,
        "coll_sn": sequence,
        "coll_msg_size_bytes": size,
        "coll_exec_time_us": time_us,
    }
    if timing is not None:
        body["coll_timing_source"] = timing
    body |= perf or {}
    metadata = {"dump_timestamp_us": round(written_s * 1e6), "hostname": host, "pid": pid}
    return json.dumps({"header": header, "metadata": metadata, "coll_perf": body}).encode() + b"\n"


def p2p_record(sequence: int = 0, *, rank: int = 0, peer: int = 1, time_us: int = 100) -> bytes:
    """A Send's line."""
    document = json.loads(record(sequence, rank=rank, n_ranks=2))
    del document["coll_perf"]
    document["p2p_perf"] = {
        "p2p": "Send",
        "p2p_sn": sequence,
        "p2p_peer": peer,
        "p2p_msg_size_bytes": 1_000_000,
        "p2p_exec_time_us": time_us,
        "p2p_timing_source": "kernel_gpu",
    }
    return json.dumps(document).encode() + b"\n"


def ras_rank(rank: int, *, error: int = 0, **counts: Any) -> dict[str, Any]:
    """A rank of a RAS answer."""
    return {
        "rank": rank,
        "host": f"10.0.0.{rank}",
        "pid": 1000 + rank,
        "status": {"init_state": 0, "async_error": error, "abort_flag": False},
        "collective_counts": counts,
    }


def ras_answer(*communicators: dict[str, Any]) -> bytes:
    """A RAS answer in JSON."""
    document = {
        "nccl_version": "2.28.7",
        "communicators_count": len(communicators),
        "communicators": list(communicators),
        "ras": {"collection_time_sec": 0.01, "timeouts_count": 0},
    }
    return json.dumps(document).encode()


def ras_communicator(*ranks: dict[str, Any], hash: str = "0xabc", missing: int = 0, **more: Any) -> dict[str, Any]:
    """A communicator of a RAS answer."""
    return {
        "hash": hash,
        "secondary_hash": "0x1:0x2",
        "size": len(ranks) + missing,
        "ranks_count": len(ranks),
        "missing_ranks_count": missing,
        "ranks": list(ranks),
        "missing_ranks": [],
        **more,
    }


FILES: dict[str, bytes] = {
    "good": record(),
    "huge": b'{"header"' + b" " * 200_000,
    "torn": record()[:100],
    "empty": b"",
    "nan": record(0) + record(1, time_us=0),
    "duplicate": record() + record(),
    "not_text": b"\xff\xfe\x00\x01" * 4000 + b"\n",
}


class InspectorStage:
    """Files of NCCL Inspector."""

    window = Window(START_S - 60.0, START_S + 60.0)

    @asynccontextmanager
    async def collector(self, condition: str) -> AsyncIterator[Collector]:
        """A folder in that condition."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name) / "nccl-inspector-8123"
            if condition != "dead":
                folder.mkdir()
            if condition == "slow":  # a pipe that nobody writes to must hold up nobody
                os.mkfifo(folder / "n1-pid7.log")
            elif condition != "dead":
                (folder / "n1-pid7.log").write_bytes(FILES[condition])
            yield InspectorTail(folder, max_line_bytes=100_000)


_RANK = ras_rank(0, AllReduce=5)
ANSWERS: dict[str, bytes] = {
    "good": ras_answer(ras_communicator(_RANK)),
    "slow": b"",
    "huge": b"",
    "torn": ras_answer(ras_communicator(_RANK))[:-20],
    "empty": b"",
    "nan": ras_answer(ras_communicator(_RANK | {"collective_counts": {"AllReduce": None, "AllGather": 3}})),
    "duplicate": ras_answer(ras_communicator(_RANK), ras_communicator(_RANK)),
    "not_text": b"\xff\xfe\x00\x01" * 100,
}


class RasStage:
    """Answers of NCCL RAS."""

    window = Window(START_S, START_S)

    @asynccontextmanager
    async def collector(self, condition: str) -> AsyncIterator[Collector]:
        """A server in that condition."""
        if condition == "dead":
            async with ras_server() as server:
                port = server.port
            yield RasCollector("127.0.0.1", port, timeout_s=2.0)
            return
        delay_s = 5.0 if condition == "slow" else 0.0
        endless = b" " * 65_536 if condition == "huge" else b""
        async with ras_server(ANSWERS[condition], delay_s=delay_s, endless=endless) as server:
            timeout_s = 0.3 if condition == "slow" else 5.0
            yield RasCollector("127.0.0.1", server.port, timeout_s=timeout_s, max_bytes=1_000_000)
