"""Remote write into the running service: from a real Prometheus, and through kill -9 of the service."""

from __future__ import annotations

import http.client
import http.server
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from features.store.duck import DuckStore
from telemetry.ids import SeriesKey
from tests.kit.prometheus_server import free_port, prometheus
from tests.kit.remote_write import v1

REPOSITORY = Path(__file__).resolve().parents[2]
READY_WITHIN_S = 60.0
N_GPUS = 40
POWER = "DCGM_FI_DEV_POWER_USAGE"
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Server:
    """The service as a process of its own, on a port that stays."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.data = folder / "data"
        self._log = (folder / "service.log").open("ab")
        self._config = folder / "gpucast.toml"
        self._config.write_text("[scrape]\ntargets = []\n")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start, and wait until it answers."""
        command = [sys.executable, "-I", "-m", "api", "serve", "--config", str(self._config)]
        command += ["--port", str(self.port), "--data-dir", str(self.data)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            command, cwd=REPOSITORY, stdout=self._log, stderr=self._log, env=environment, start_new_session=True
        )
        deadline = time.monotonic() + READY_WITHIN_S
        while time.monotonic() < deadline and self._process.poll() is None:
            if self.get("/-/healthy") is not None:
                return
            time.sleep(0.05)
        raise AssertionError("the service does not start")

    def kill(self) -> None:
        """As when the machine's memory runs out."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        """In order, where it runs."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()
        self._log.close()

    def get(self, path: str) -> bytes | None:
        """The answer; None when there is none."""
        try:
            with OPENER.open(f"{self.url}{path}", timeout=2) as reply:
                body: bytes = reply.read()
                return body
        except OSError:
            return None

    def counter(self, name: str) -> float:
        """One of its own counters, 0 where it is not there yet."""
        lines = (self.get("/metrics") or b"").decode().splitlines()
        return next((float(line.split()[-1]) for line in lines if line.startswith(f"{name} ")), 0.0)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Server]:
    """A running service with an empty store."""
    server = Server(tmp_path)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def stored(data: Path, keys: list[SeriesKey]) -> dict[SeriesKey, dict[int, float]]:
    """Series -> milliseconds -> value, of a store that nobody uses now."""
    store = DuckStore(data / "samples.duckdb", cold_dir=data / "cold")
    try:
        now_s = time.time() + 3600.0
        series = store.read(keys, now_s, 10 * 86400.0)
        assert all((np.diff(one.at_s) > 0).all() for one in series), "a sample is there twice"
        return {
            one.key: dict(zip(np.round(one.at_s * 1000).astype(int).tolist(), one.value.tolist(), strict=True))
            for one in series
        }
    finally:
        store.close()


def wait_for(condition, within_s: float, what: str) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {within_s:g} s: {what}"
        time.sleep(0.05)


@contextmanager
def exporter() -> Iterator[str]:
    """Pages of GPUs whose power is another number at each scrape; gives ``host:port``."""
    count = itertools.count(100)

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            number = next(count)
            lines = [f'{POWER}{{gpu="{i}",UUID="GPU-{i}",Hostname="n1"}} {number}.{i:02d}' for i in range(N_GPUS)]
            body = ("\n".join([*lines, "some_other_metric 1"]) + "\n").encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words: object) -> None:
            return

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def in_prometheus(url: str, window_s: float) -> dict[SeriesKey, dict[int, float]]:
    """What Prometheus itself holds of the GPUs' power."""
    query = urllib.parse.urlencode({"query": f"{POWER}[{int(window_s)}s]"})
    with OPENER.open(f"{url}/api/v1/query?{query}", timeout=10) as reply:
        result = json.load(reply)["data"]["result"]
    return {
        SeriesKey("gpu_power_watts", f"n1:{row['metric']['UUID']}"): {
            round(at_s * 1000): float(value) for at_s, value in row["values"]
        }
        for row in result
    }


@pytest.mark.prometheus
@pytest.mark.slow
def test_every_sample_of_a_real_prometheus_arrives_through_two_kills(service: Server, tmp_path: Path) -> None:
    """Prometheus keeps what was not acknowledged and sends it again; what was acknowledged is on disk."""
    folder = tmp_path / "prometheus"
    folder.mkdir()
    queue = {"batch_send_deadline": "100ms", "min_backoff": "30ms", "max_backoff": "200ms", "max_shards": 4}
    write = {"url": f"{service.url}/v1/telemetry/write", "queue_config": queue}
    with exporter() as page:
        jobs: list[dict[str, object]] = [{"job_name": "dcgm", "static_configs": [{"targets": [page]}]}]
        with prometheus(folder, jobs, scrape_interval="200ms", more={"remote_write": [write]}) as url:
            for _ in range(2):
                wait_for(lambda: service.counter("gpucast_remote_write_samples_total") >= 400, 60, "samples")
                assert service.counter("gpucast_remote_write_unknown_samples_total") > 0
                assert service.counter("gpucast_remote_write_invalid_samples_total") == 0
                service.kill()
                time.sleep(0.5)
                service.start()
            wait_for(lambda: service.counter("gpucast_remote_write_samples_total") >= 400, 60, "samples again")
            assert json.loads(service.get("/v1/health") or b"{}")["ready"]
            held = in_prometheus(url, 300)
            newest_ms = max(max(series) for series in held.values())
            time.sleep(3.0)  # what is held by now is sent by then
    service.stop()
    arrived = stored(service.data, list(held))
    assert len(held) == N_GPUS
    for key, series in held.items():
        missing = {at_ms: value for at_ms, value in series.items() if arrived[key].get(at_ms) != value}
        assert not missing, f"{key} lacks {len(missing)} of {len(series)} until {newest_ms}"


class Sender(threading.Thread):
    """Sends one instant after the other, each until it is acknowledged; remembers which were."""

    def __init__(self, port: int, first: int, every: int) -> None:
        super().__init__(daemon=True)
        self.acknowledged: list[int] = []
        self.statuses: set[int] = set()
        self.over = threading.Event()
        self._port, self._number, self._every = port, first, every

    def run(self) -> None:
        """Until told that it is over."""
        while not self.over.is_set():
            try:
                status = self._send(self._number)
            except (OSError, http.client.HTTPException):
                self.over.wait(0.02)
                continue
            self.statuses.add(status)
            if status == 204:
                self.acknowledged.append(self._number)
                self._number += self._every

    def _send(self, number: int) -> int:
        at_s = START_S + number
        body = v1(*[({**LABELS, "UUID": f"GPU-{i}"}, [(at_s, float(number))]) for i in range(N_GPUS)])
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=10)
        try:
            headers = {"Content-Type": "application/x-protobuf", "Content-Encoding": "snappy"}
            connection.request("POST", "/v1/telemetry/write", body, headers)
            return connection.getresponse().status
        finally:
            connection.close()


START_S = float(int(time.time()) - 86400)
LABELS = {"Hostname": "n1", "__name__": POWER, "instance": "n1:9400", "job": "dcgm"}


@pytest.mark.slow
def test_no_acknowledged_write_is_lost_by_a_kill(service: Server) -> None:
    """Several senders at once, three kills; each acknowledged instant is there whole, once, with its own value."""
    senders = [Sender(service.port, first, 4) for first in range(4)]
    for sender in senders:
        sender.start()
    try:
        for goal in (20, 40, 60):
            wait_for(lambda goal=goal: all(len(s.acknowledged) >= goal for s in senders), 90, "acknowledgements")
            service.kill()
            service.start()
        wait_for(lambda: all(len(s.acknowledged) >= 70 for s in senders), 60, "the last ones")
    finally:
        for sender in senders:
            sender.over.set()
        for sender in senders:
            sender.join(20)
    service.kill()
    keys = [SeriesKey("gpu_power_watts", f"n1:GPU-{i}") for i in range(N_GPUS)]
    found = stored(service.data, keys)
    acknowledged = {number for sender in senders for number in sender.acknowledged}
    assert len(acknowledged) >= 280
    assert {status for sender in senders for status in sender.statuses} == {204}
    for key in keys:
        assert set(found[key]) >= {round((START_S + number) * 1000) for number in acknowledged}
        assert all(value == at_ms / 1000 - START_S for at_ms, value in found[key].items())


def test_there_is_a_loopback_port_for_the_service() -> None:
    """The tests above need one that stays free between two starts."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", free_port()))
