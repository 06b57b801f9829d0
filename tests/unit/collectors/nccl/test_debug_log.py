"""NCCL debug logs: paths, NICs, channels, signs of a slow path."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectors.inspect import inspect_source
from collectors.nccl.debug_log import Connection, parse_debug_log

HEAD = "n1:42:43 [2] NCCL INFO "


def _log(*texts: str) -> bytes:
    return "".join(f"{HEAD}{text}\n" for text in texts).encode()


@pytest.mark.parametrize(
    ("via", "want"),
    [
        ("1[1] -> 2[2] via P2P/CUMEM", Connection("n1", 1, 2, "P2P/CUMEM")),
        ("1[1] -> 2[2] via P2P/IPC/read", Connection("n1", 1, 2, "P2P/IPC/read")),
        ("1[1] -> 2[2] via P2P/MNNVL", Connection("n1", 1, 2, "P2P/MNNVL")),
        ("1[1] -> 2[2] via SHM/direct/direct", Connection("n1", 1, 2, "SHM/direct/direct")),
        ("7[7] -> 8[0] [send] via NET/IB/3/GDRDMA", Connection("n1", 7, 8, "NET/IB", 3, None, True)),
        ("7[7] -> 8[0] [receive] via NET/IB/3(8)/GDRDMA", Connection("n1", 7, 8, "NET/IB", 3, 8, True)),
        ("7[7] -> 8[0] [send] via NET/IB/3", Connection("n1", 7, 8, "NET/IB", 3, None, False)),
        ("7[7] -> 8[0] [send] via NET/Socket/1", Connection("n1", 7, 8, "NET/Socket", 1, None, False)),
        ("7[7] -> 8[0] [send] via NET/AWS Libfabric/1/GDRDMA", Connection("n1", 7, 8, "NET/AWS", None, None, False)),
    ],
)
def test_paths(via: str, want: Connection) -> None:
    """Every transport that NCCL names."""
    facts = parse_debug_log(_log(f"Channel 00/0 : {via}", f"Channel 01/0 : {via}"))

    assert facts.connections == {want: 2}


def test_prefixes_and_cut_lines() -> None:
    """A launcher's mark or a time before the line does no harm, other lines are passed by, half a line is no fact."""
    text = _log("Using network IB", "Channel 00/0 : 1[1] -> 2[2] via P2P/CUMEM")
    lines = text.splitlines()
    data = b"[1,0]<stdout>: " + lines[0] + b"\nhello\n[2026-01-01 00:00:00] " + lines[1] + b"\n" + lines[1][:50]
    facts = parse_debug_log(data)

    assert (facts.networks, len(facts.connections), facts.n_lines) == ({"IB": 1}, 1, 3)


def test_signs_of_a_slow_path() -> None:
    """Host memory, sockets and shared memory are each said in a sentence."""
    facts = parse_debug_log(
        _log(
            "NET/IB : GPU Direct RDMA Disabled for HCA 4 'mlx5_bond_0'",
            "Channel 00/0 : 7[7] -> 8[0] [send] via NET/Socket/1",
            "Channel 00/0 : 7[7] -> 9[0] [send] via NET/IB/1",
            "Channel 00/0 : 1[1] -> 2[2] via SHM/direct",
        )
    )

    signs = " | ".join(facts.slow_signs())
    assert all(word in signs for word in ("mlx5_bond_0 on n1", "TCP sockets", "no GDRDMA", "(SHM)"))
    assert parse_debug_log(_log("Channel 00/0 : 1[1] -> 2[2] via P2P/CUMEM")).slow_signs() == []


def test_warnings_are_counted() -> None:
    """The same warning of many ranks is one line."""
    facts = parse_debug_log(b"n1:1:1 [0] NCCL WARN Cuda failure 2\nn2:1:1 [0] RCCL WARN Cuda failure 2\n")

    assert facts.warnings == {"Cuda failure 2": 2}


@pytest.mark.shared
def test_a_true_log(shared_dir: Path) -> None:
    """Network, NIC, channels, bandwidth per channel, communicator, the NIC without GPU Direct."""
    data = (shared_dir / "formats" / "samples" / "nccl_debug.log").read_bytes()
    facts = parse_debug_log(data)
    (one,) = facts.communicators

    assert facts.transports() == {"NET/IB": 2, "P2P/CUMEM": 1}
    assert facts.nics() == {("node-a1", 3): 2}
    assert facts.channels == {"coll": 8, "collnet": 8, "nvls": 16, "p2p": 8}
    assert facts.patterns == {("NVL", "PIX", 45e9, 45e9): 1}
    assert facts.no_gdr == (("node-a1", "mlx5_bond_0"),)
    assert (one.rank, one.n_ranks, one.n_nodes, one.commid, one.bus_id) == (2, 16, 2, "0x9c1f2e3d4b5a6978", "3a000")
    seen = inspect_source(data, "nccl_debug.log")
    assert seen.format == "NCCL debug log"
    assert any(fact.startswith("slow path: GPU Direct RDMA is off") for fact in seen.facts)
