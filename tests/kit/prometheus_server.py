"""A real Prometheus on a free loopback port."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

BINARY = "prometheus"
_READY_WITHIN_S = 30.0


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def prometheus(
    folder: Path,
    jobs: list[dict[str, object]],
    *,
    scrape_interval: str = "500ms",
    more: dict[str, object] | None = None,
) -> Iterator[str]:
    """The server's URL while it runs; skips where the program is not installed.

    Args:
        folder: for its configuration, data and log.
        jobs: ``scrape_configs`` entries as in prometheus.yml (written as JSON, which YAML contains).
        scrape_interval: of every job.
        more: further sections of prometheus.yml, such as ``remote_write``.
    """
    program = shutil.which(BINARY)
    if program is None:
        pytest.skip("no prometheus on this machine: install the package prometheus to run this test")
    config = {
        "global": {"scrape_interval": scrape_interval, "scrape_timeout": scrape_interval},
        "scrape_configs": jobs,
        **(more or {}),
    }
    file = folder / "prometheus.yml"
    file.write_text(json.dumps(config))
    address = f"127.0.0.1:{free_port()}"
    arguments = [
        program,
        f"--config.file={file}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address={address}",
        "--log.level=warn",
    ]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(arguments, stdout=log, stderr=log)
        try:
            _wait_until_ready(process, f"http://{address}", folder / "prometheus.log")
            yield f"http://{address}"
        finally:
            process.terminate()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_until_ready(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + _READY_WITHIN_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            with opener.open(f"{url}/-/ready", timeout=1) as reply:
                if reply.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            time.sleep(0.05)
    raise RuntimeError(f"prometheus did not get ready: {log.read_text(errors='replace')[-2000:]}")
