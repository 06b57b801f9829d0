"""``queue``, ``topology`` and ``doctor`` against the HTTP API over made-up data."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator

import pytest
import uvicorn

from api.cli import main
from api.http.app import create_app
from telemetry.roster import Roster
from tests.kit.fake_reads import FakeReads


class NoScheduler(FakeReads):
    """Nothing is read beside the telemetry."""

    def rosters(self) -> tuple[Roster, ...]:
        return ()


def _serve(reads: FakeReads) -> Iterator[str]:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(create_app(reads), log_level="error", lifespan="off"))
        thread = threading.Thread(target=lambda: server.run(sockets=[sock]), daemon=True)
        thread.start()
        while not server.started and thread.is_alive():
            time.sleep(0.01)
        yield f"http://127.0.0.1:{sock.getsockname()[1]}"
        server.should_exit = True
        thread.join(10)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A service with a queue, wiring and collectives."""
    yield from _serve(FakeReads(time.time))


@pytest.fixture(scope="module")
def bare() -> Iterator[str]:
    """A service without a scheduler."""
    yield from _serve(NoScheduler(time.time))


def test_the_queue_as_a_table(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Highest priority first; asks, waits, limits, expected starts and reasons."""
    assert main(["queue", "--url", url]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("slurm: 32 GPUs in service, 32 used, 0 free; 2 jobs run, 6 wait for 34 GPUs")
    rows = [line for line in lines if line.startswith("slurm:81")]
    assert [row.split()[0] for row in rows] == ["slurm:81300", "slurm:81301", "slurm:81290"]
    assert "4 x 8 h100" in rows[0]
    assert "in 90.0 min" in rows[0]
    assert rows[2].split()[-1] == "JobHeldUser"
    assert "in 60.0 min (20.0 min .. 2.5 h)" in rows[0]
    assert "50 replays" in lines[-1]


def test_the_queue_as_json_and_cut(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The service's own answer."""
    assert main(["queue", "--json", "--limit", "1", "--url", url]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (len(answer["items"]), answer["total"]) == (1, 3)
    assert answer["items"][0]["start_forecast"]["model"] == "replay"


def test_no_scheduler_is_4_with_the_setting(bare: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It is not the same as an empty queue."""
    assert main(["queue", "--url", bare]) == 4
    assert "set slurm.enabled or kubernetes.enabled" in capsys.readouterr().out


def test_topology_of_the_service(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Conflicts and failed sources are told, and make the exit code 4."""
    assert main(["topology", "--url", url]) == 4
    out = capsys.readouterr().out
    for part in ("5 hosts, 7 links", "gpu-[01-02]", "leaf-1:swp49  spine-1    50 GB/s", "leaf-2 is used", "HTTP 403"):
        assert part in out
    assert main(["topology", "--between", "a", "b", "--url", url]) == 2
    assert "need --from" in capsys.readouterr().err


def test_doctor_tells_of_collectives_and_wiring(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Missing ranks, operations without a record and every trouble, by job."""
    main(["doctor", "--url", url])
    out = capsys.readouterr().out
    assert "collectives: 1 of 2 communicators in trouble" in out
    assert "of slurm:81234: 1 of 16 ranks missing, 0 failed, 12 operations without a record" in out
    assert "AllReduce: rank 3 launched 88, the furthest 95" in out
    assert "leaf switch of gpu-05: telemetry says leaf-2; /etc/slurm/topology.conf says leaf-1" in out


def test_findings_as_text(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Worst first, with evidence, deed, scores and what is unknown; exit code 4 tells of a warning or worse."""
    assert main(["findings", "--url", url]) == 4
    text = capsys.readouterr().out
    assert "looked at 32 GPUs, 4 nodes, 6 jobs" in text
    assert text.index("critical 1.00  xid 79  gpu gpu-09:GPU-3") < text.index("warning 0.50  straggler")
    assert "Take the host out" in text
    assert "it needs nccl_busbw_bytes_per_s" in text


def test_findings_of_one_host(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What is only worth knowing is no failure; JSON is the API's answer."""
    assert main(["findings", "gpu-10", "--url", url, "--json"]) == 0
    assert [one["detail"] for one in json.loads(capsys.readouterr().out)["items"]] == ["hot die"]
    assert main(["findings", "nobody", "--url", url]) == 0
    assert "nothing slow or sick was found" in capsys.readouterr().out
