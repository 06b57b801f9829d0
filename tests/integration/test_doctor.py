"""``gpucast doctor`` against a running service among exporters with every trouble it tells of; our own /metrics."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any
from urllib.request import ProxyHandler, build_opener

import pytest
from aiohttp import web

from tests.kit.page_server import serve

REPOSITORY = Path(__file__).resolve().parents[2]
OPENER = build_opener(ProxyHandler({}))
WITHIN_S = 60.0


def _page(node: str, uuids: list[str], *, owned: bool = True, at_s: float | None = None, step: int = 0) -> str:
    owner = f',namespace="team",pod="train-{node}",container="main"' if owned else ""
    stamp = "" if at_s is None else f" {at_s * 1000:.0f}"
    noise = Random(step)  # no period for a job to have
    lines = []
    for place, uuid in enumerate(uuids):
        labels = f'gpu="{place}",UUID="{uuid}",Hostname="{node}"{owner}'
        lines.append(f"DCGM_FI_DEV_GPU_UTIL{{{labels}}} {50 + noise.random() * 40:.3f}{stamp}")
        lines.append(f"DCGM_FI_DEV_POWER_USAGE{{{labels}}} {400 + noise.random() * 200:.3f}{stamp}")
    return "\n".join(lines) + "\n"


async def _exporters(request: web.Request) -> web.StreamResponse:
    """Two exporters of one host, one whose clock is behind, one whose values change every 8 s, one without owners."""
    now_s = time.time()
    step = int(now_s * 10)
    pages: dict[str, Callable[[], str]] = {
        "first": lambda: _page("n1", ["GPU-a", "GPU-b"], step=step),
        "second": lambda: _page("n1", ["GPU-a", "GPU-b"], step=step),
        "behind": lambda: _page("n2", ["GPU-c"], step=step, at_s=now_s - 30.0),
        "coarse": lambda: _page("n3", ["GPU-d"], step=int(now_s / 8)),
        "nobody": lambda: _page("n4", ["GPU-e"], step=step, owned=False),
    }
    return web.Response(text=pages[request.path.strip("/")]())


def _command(*arguments: str) -> tuple[list[str], dict[str, str]]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GPUCAST_", "COVERAGE"))}
    return [sys.executable, "-I", "-m", "api", *arguments], kept


async def _doctor(url: str, *more: str) -> tuple[int, str]:
    command, environment = _command("doctor", "--url", url, *more)
    done = await asyncio.to_thread(
        subprocess.run,
        command,
        cwd=REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


async def _until(url: str, fits: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    told: dict[str, Any] = {}
    until_s = time.monotonic() + WITHIN_S
    while time.monotonic() < until_s:
        code, text = await _doctor(url, "--json")
        if code in (0, 4) and text.startswith("{"):
            told = json.loads(text)
            if fits(told):
                return told
        await asyncio.sleep(1.0)
    raise AssertionError(f"doctor never told it all: {json.dumps(told)[:3000]}")


def _all_told(told: dict[str, Any]) -> bool:
    devices = told["devices"]
    return bool(
        devices["twice_total"] == 2
        and told["clocks"]
        and told["sampling"]
        and told["missing_fields"]
        and devices["without_job_total"] == 1
    )


@pytest.mark.slow
@pytest.mark.asyncio
async def test_doctor_tells_everything_and_our_metrics_keep_prometheus_conventions(tmp_path: Path, free_port: int):
    url = f"http://127.0.0.1:{free_port}"
    async with serve(_exporters) as exporters:
        targets = [f"{exporters}/{name}" for name in ("first", "second", "behind", "coarse", "nobody")]
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            dead = f"http://127.0.0.1:{closed.getsockname()[1]}/metrics"
        command, environment = _command("serve", "--port", str(free_port), "--data-dir", str(tmp_path / "data"))
        for target in [*targets, dead]:
            command += ["--target", target]
        command += ["--interval", "0.5"]
        with (tmp_path / "log").open("ab") as log:
            process = subprocess.Popen(command, cwd=REPOSITORY, env=environment, stdout=log, stderr=log)
        try:
            told = await _until(url, _all_told)
            code, text = await _doctor(url)
            page = await asyncio.to_thread(lambda: OPENER.open(f"{url}/metrics", timeout=10).read())
        finally:
            process.terminate()
            process.wait(30)
    assert code == 4  # one source is down
    assert {target["source"] for target in told["targets"]} >= {*targets, dead}
    assert {"ready", "reasons", "targets", "missing_fields", "devices", "clocks", "sampling", "plugins"} <= set(told)
    assert [one["source"] for one in told["clocks"]] == [f"{exporters}/behind"]
    assert told["clocks"][0]["offset_s"] == pytest.approx(30.0, abs=5.0)
    assert [one["source"] for one in told["sampling"]] == [f"{exporters}/coarse"]
    assert {one["device"] for one in told["devices"]["twice"]} == {"GPU-a", "GPU-b"}
    assert told["devices"]["without_job"] == ["n4:GPU-e"]
    for sentence in (
        "2 are served by more than one source",
        "1 of them belong to no job that is known: n4:GPU-e",
        "clocks that differ",
        "behind this host",
        "sampling too coarse for phases",
        "--collect-interval",
        "fields that no source gives",
        "DOWN",
    ):
        assert sentence in text, text
    _checked_by_promtool(page)


def _checked_by_promtool(page: bytes) -> None:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("no promtool on this machine: install the package prometheus to check our own metrics")
    done = subprocess.run([program, "check", "metrics"], input=page, capture_output=True, timeout=30, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
