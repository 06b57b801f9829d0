"""The service as a process of its own, for benchmarks that start it, kill it and ask it."""

from __future__ import annotations

import contextlib
import http.client
import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import orjson

LOOPBACK = "127.0.0.1"
_PORTS = range(20_000, 30_000)
_POLL_S = 0.01
_START_WITHIN_S = 60.0
_STOP_WITHIN_S = 20.0


class Served:
    """``gpucast serve`` without sources of its own, on a loopback port that stays over restarts.

    Args:
        folder: for settings, log and, unless ``data`` says otherwise, the store.
        data: folder of the store.
    """

    def __init__(self, folder: Path, data: Path | None = None) -> None:
        self.port = _free_port()
        self.data = data or folder / "data"
        self._settings = folder / "gpucast.toml"
        self._settings.write_text("[scrape]\ntargets = []\n", encoding="utf-8")
        self.log = folder / "service.log"
        self._log = self.log.open("ab")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; does not wait."""
        command = [sys.executable, "-I", "-m", "api", "serve", "--config", str(self._settings)]
        command += ["--port", str(self.port), "--data-dir", str(self.data)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            command, stdout=self._log, stderr=self._log, env=environment, start_new_session=True
        )

    def ready_after_s(self) -> float:
        """Wait until ``/readyz`` says 200; gives back the seconds that took.

        Raises:
            RuntimeError: it ended, or is not ready within a minute.
        """
        assert self._process is not None
        began_s = time.perf_counter()
        status = 0
        while (waited_s := time.perf_counter() - began_s) < _START_WITHIN_S:
            status, detail = self.ask("/readyz")
            if status == 200:
                return waited_s
            if self._process.poll() is not None:
                tail = self.log.read_text(encoding="utf-8", errors="replace")[-2000:]
                raise RuntimeError(f"the service ended with code {self._process.returncode}: {tail}")
            time.sleep(_POLL_S)
        raise RuntimeError(f"the service is not ready after {_START_WITHIN_S:g} s: {status} {detail}")

    def cpu_s(self) -> float:
        """CPU seconds of the service's own process so far; NaN where the system does not tell."""
        assert self._process is not None
        try:
            fields = Path(f"/proc/{self._process.pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
        except OSError:
            return float("nan")
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def ask(self, path: str) -> tuple[int, dict[str, Any]]:
        """Status and JSON of a GET; 0 while nobody answers."""
        try:
            status, text = self._get(path)
        except (OSError, http.client.HTTPException):
            return 0, {}
        return status, orjson.loads(text)

    def _get(self, path: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(LOOPBACK, self.port, timeout=5.0)
        try:
            connection.request("GET", path)
            reply = connection.getresponse()
            return reply.status, reply.read()
        finally:
            connection.close()

    def counter(self, name: str) -> float:
        """One of its own counters; 0 where it is not there yet."""
        try:
            lines = self._get("/metrics")[1].decode().splitlines()
        except (OSError, http.client.HTTPException):
            return 0.0
        return next((float(line.split()[-1]) for line in lines if line.startswith(f"{name} ")), 0.0)

    def kill(self) -> None:
        """SIGKILL to the service itself; what it started is left to notice."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """End it in order, and whatever is left of it by force."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.kill()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)  # its session: a worker that outlived it
        self._log.close()


def _free_port() -> int:
    """A port below those that the kernel gives to clients: one that asks while nobody listens could be given it."""
    for port in random.sample(_PORTS, len(_PORTS)):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((LOOPBACK, port))
            return port
    raise RuntimeError(f"no port from {_PORTS.start} to {_PORTS.stop - 1} is free")
