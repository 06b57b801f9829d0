"""The real service among sources that misbehave in every way, killed, started again, and stopped."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import ProxyHandler, build_opener

import pytest
from aiohttp import web

from features.store.duck import DuckStore
from telemetry.errors import StoreError
from telemetry.ids import SeriesKey
from tests.kit.page_server import Handler, broken_page, endless_page, serve, slow_page, text_page

REPOSITORY = Path(__file__).resolve().parents[2]
INTERVAL_S = 0.2
OPENER = build_opener(ProxyHandler({}))
YEARS_S = 3 * 365 * 86400.0


def _page(node: str, load: float, at_s: float | None = None, more: str = "") -> bytes:
    """A dcgm-exporter page of two GPUs of one job."""
    stamp = "" if at_s is None else f" {at_s * 1000:.0f}"
    lines = []
    for gpu in range(2):
        labels = f'gpu="{gpu}",UUID="GPU-{node}-{gpu}",Hostname="{node}",namespace="team",pod="train-{node}",container="main"'
        lines.append(f"DCGM_FI_DEV_GPU_UTIL{{{labels}}} {50 + 10 * load:.3f}{stamp}")
        lines.append(f"DCGM_FI_DEV_POWER_USAGE{{{labels}}} {400 + 100 * load + gpu:.3f}{stamp}")
    return ("\n".join(lines) + "\n" + more).encode()


class Misbehaving:
    """Pages by path, each bad in its own way, and one good one; counts the reads of each."""

    def __init__(self) -> None:
        self.reads: Counter[str] = Counter()
        self.served: list[tuple[float, float]] = []
        """(timestamp, power) of the stamped good page, as given out."""
        good = _page("mixed", 0.5)
        self._fixed: dict[str, Handler] = {
            "slow": slow_page(30.0, good),
            "huge": endless_page(b"DCGM_FI_DEV_GPU_UTIL 1\n"),
            "torn": broken_page(_page("torn", 0.5)[:-40]),
            "latin": text_page(good + 'DCGM_FI_DEV_SM_CLOCK{gpu="0",modelName="é"} 5\n'.encode("latin-1")),
            "binary": text_page(bytes(range(256)) * 20),
            "empty": text_page(b""),
            "html": text_page(b"<html>log in</html>", content_type="text/html"),
            "status500": text_page(b"oops", status=500),
            "status404": text_page(b"no", status=404),
            "unknown": text_page(b"something_else_total 5\nanother_gauge 1\n"),
            "garbage": text_page(good + b"DCGM_FI_DEV_FB_USED{gpu= 5\n}{ }{\n\xf0\x9f\x98\x80 1 2 3\n"),
        }

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        name = request.path.strip("/")
        self.reads[name] += 1
        name = name.split("/")[0]
        if name in self._fixed:
            return await self._fixed[name](request)
        return web.Response(body=self._moving(name, self.reads[name]), content_type="text/plain")

    def _moving(self, name: str, count: int) -> bytes:
        load, now_s = (count % 10) / 10.0, time.time()
        if name == "stamped":
            at_s = round(now_s, 3)
            self.served.append((at_s, round(400 + 100 * load, 3)))
            return _page(name, load, at_s)
        if name == "values":
            labels = 'gpu="7",UUID="GPU-v",Hostname="values"'
            bad = ("NaN", "+Inf", "-5", "1e30", "9223372036854775794")
            fields = ("GPU_TEMP", "MEM_COPY_UTIL", "SM_CLOCK", "FB_USED", "FB_FREE")
            rows = [f"DCGM_FI_DEV_{field}{{{labels}}} {text}" for field, text in zip(fields, bad, strict=True)]
            return _page(name, load, more="\n".join(rows) + "\n")
        if name == "twice":
            return _page(name, load) + _page(name, load + 0.3)
        ahead_s = {"ahead": 20.0, "years": YEARS_S, "behind": -3600.0, "back": 30.0 if count < 8 else -50.0}
        return _page(name, load, now_s + ahead_s[name] if name in ahead_s else None)


@contextmanager
def _service(folder: Path, port: int, targets: list[str], *more: str):
    """``gpucast serve`` as its own process, which is killed at the end if it still lives."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GPUCAST_", "COVERAGE"))}
    command = [sys.executable, "-I", "-m", "api", "serve", "--port", str(port), "--data-dir", str(folder)]
    command += ["--interval", str(INTERVAL_S), *more]
    for target in targets:
        command += ["--target", target]
    limits = {
        "GPUCAST_SCRAPE__TIMEOUT_S": "1",
        "GPUCAST_SCRAPE__MAX_BYTES": "500000",
        "GPUCAST_FORECAST__EVERY_S": "0.5",
    }
    log = (folder.parent / f"{folder.name}.log").open("ab")
    process = subprocess.Popen(
        command, cwd=REPOSITORY, env={**kept, **limits}, stdout=log, stderr=log, start_new_session=True
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        log.close()


def _log(folder: Path) -> str:
    return (folder.parent / f"{folder.name}.log").read_text()


def _get(port: int, path: str) -> tuple[int, str]:
    try:
        with OPENER.open(f"http://127.0.0.1:{port}{path}", timeout=5) as reply:
            return reply.status, reply.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()
    except OSError as error:
        return 0, str(error)


async def _until(what: str, check: Any, within_s: float = 30.0) -> Any:
    """The first true answer of ``check``, which runs beside the loop that serves the pages."""
    try:
        async with asyncio.timeout(within_s):
            while not (found := await asyncio.to_thread(check)):
                await asyncio.sleep(0.1)
            return found
    except TimeoutError:
        pytest.fail(f"{what}: not within {within_s:g} s")


def _children(pid: int) -> list[int]:
    """Processes whose parent is ``pid``, by /proc."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            stat = (entry / "stat").read_text() if entry.name.isdigit() else ""
        except OSError:
            continue
        if stat and int(stat.rpartition(")")[2].split()[1]) == pid:
            found.append(int(entry.name))
    return found


def _workers(pid: int) -> list[int]:
    """The processes that run models."""
    return [child for child in _children(pid) if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


def _alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def _findings(port: int) -> dict[tuple[str, str], float]:
    _, text = _get(port, "/metrics")
    rows = re.findall(r'^gpucast_findings_total\{source="[^"]*/(\w*)",problem="(\w+)"\} (\S+)$', text, re.MULTILINE)
    return {(source, problem): float(count) for source, problem, count in rows}


def _cli(port: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", "-m", "api", *arguments, "--url", f"http://127.0.0.1:{port}"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


EXPECTED = {
    ("dead", "unreachable"),
    ("slow", "timeout"),
    ("huge", "too_large"),
    ("torn", "torn"),
    ("latin", "not_text"),
    ("binary", "not_text"),
    ("empty", "empty"),
    ("html", "not_text"),
    ("status500", "http_status"),
    ("status404", "http_status"),
    ("unknown", "unknown_metric"),
    ("garbage", "malformed_line"),
    ("values", "not_finite"),
    ("values", "out_of_range"),
    ("values", "blank_value"),
    ("twice", "duplicate_series"),
    ("ahead", "clock_ahead"),
    ("years", "clock_ahead"),
    ("behind", "clock_behind"),
    ("back", "clock_ahead"),
    ("back", "clock_behind"),
}
"""(page, problem): each must be counted."""
DOWN = {"dead", "slow", "huge", "binary", "empty", "html", "status500", "status404", "unknown"}
USABLE = {"healthy", "stamped", "latin", "garbage", "values", "twice", "ahead", "years", "back"}


async def _among_bad_ones(pages: Misbehaving, port: int, names: list[str]) -> None:
    missing: list[Any] = []

    def counted() -> bool:
        missing[:] = sorted(EXPECTED - set(_findings(port)))
        return not missing

    try:
        await _until("every problem is counted", counted, 25.0)
    except BaseException:
        print("missing", missing)
        raise
    assert (await asyncio.to_thread(_get, port, "/-/ready"))[0] == 200
    before = pages.reads["healthy"], time.monotonic()
    await asyncio.sleep(3.0)
    reads, span_s = pages.reads["healthy"] - before[0], time.monotonic() - before[1]
    assert reads >= 0.6 * span_s / INTERVAL_S, "bad neighbours delayed the good source"
    health = json.loads((await asyncio.to_thread(_get, port, "/v1/health"))[1])
    by_name = {target["source"].rsplit("/", 1)[-1]: target for target in health["targets"]}
    assert set(by_name) == set(names)
    assert {name for name, target in by_name.items() if not target["up"]} == DOWN
    assert all(by_name[name]["last_error"] for name in DOWN)
    assert by_name["healthy"]["findings"] == {}
    doctor = await asyncio.to_thread(_cli, port, "doctor")
    assert (doctor.returncode, doctor.stderr) == (4, "")
    for name, problem in EXPECTED:
        assert re.search(rf"/{name}: {problem} x\d+: \w+", doctor.stdout), (name, problem, doctor.stdout)
    parsed = json.loads((await asyncio.to_thread(_cli, port, "doctor", "--json")).stdout, parse_constant=pytest.fail)
    assert parsed["ready"] is True

    def jobs() -> set[str]:
        return {job["id"] for job in json.loads(_get(port, "/v1/jobs")[1] or "{}").get("items", [])}

    await _until(
        "a far clock hides no other job", lambda: {f"kubernetes:team:train-{n}" for n in ("healthy", "years")} <= jobs()
    )


async def _replaced(process: subprocess.Popen[bytes], port: int) -> None:
    """A killed worker is replaced, counted, and forecasts go on."""
    (worker,) = await _until("the worker runs", lambda: _workers(process.pid))
    os.kill(worker, signal.SIGKILL)

    def again() -> bool:
        text = _get(port, "/metrics")[1]
        restarts = re.search(r"^gpucast_worker_restarts_total (\S+)$", text, re.MULTILINE)
        return restarts is not None and float(restarts[1]) >= 1 and _workers(process.pid) not in ([], [worker])

    await _until("the worker is replaced", again)

    def rounds() -> float:
        found = re.search(r"^gpucast_forecast_rounds_total (\S+)$", _get(port, "/metrics")[1], re.MULTILINE)
        return float(found[1]) if found else 0.0

    before = await asyncio.to_thread(rounds)
    await _until("forecasts go on", lambda: rounds() > before)
    await _until("ready again", lambda: _get(port, "/-/ready")[0] == 200)


async def _killed_and_started_again(folder: Path, port: int, urls: list[str], pages: Misbehaving) -> None:
    with _service(folder, port, urls) as process:
        await _until("it answers", lambda: _get(port, "/-/healthy")[0] == 200)
        await _among_bad_ones(pages, port, [url.rsplit("/", 1)[-1] for url in urls])
        await _replaced(process, port)
        second = await asyncio.to_thread(_second, folder)
        assert second.returncode == 1
        assert re.search(rf"samples\.duckdb is in use by process {process.pid}\. Stop it", second.stderr), second.stderr
        assert "Traceback" not in second.stderr
        (worker,) = _workers(process.pid)
        stored = await asyncio.to_thread(_stored, port)
        process.kill()
        process.wait()
        await _until("the worker ends with a killed service", lambda: not _alive(worker), 10.0)
    _holds(folder, pages, stored)
    with _service(folder, port, urls) as process:
        await _until("it starts at once on the same store", lambda: _get(port, "/-/ready")[0] == 200)
        worker = (await _until("the worker runs", lambda: _workers(process.pid)))[0]
        with (
            socket.create_connection(("127.0.0.1", port)) as idle,
            socket.create_connection(("127.0.0.1", port)) as half,
        ):
            half.sendall(b"GET /v1/jobs HTTP/1.1\r\nHost: 127")
            process.send_signal(signal.SIGTERM)
            await asyncio.to_thread(process.wait, 8)
            assert idle.recv(10) == b""
        assert process.returncode == 0
        await _until("no child is left", lambda: not _alive(worker), 5.0)
    assert "Traceback" not in _log(folder), _log(folder)
    DuckStore(folder / "samples.duckdb").close()


def _second(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", "-m", "api", "serve", "--port", "0", "--data-dir", str(folder)]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=30, check=False)


def _stored(port: int) -> float:
    found = re.search(r"^gpucast_samples_stored_total (\S+)$", _get(port, "/metrics")[1], re.MULTILINE)
    assert found is not None
    return float(found[1])


def _holds(folder: Path, pages: Misbehaving, stored: float) -> None:
    """At least as many samples as were said to be stored; the stamped page's value for value."""
    store = DuckStore(folder / "samples.duckdb")
    try:
        assert store.stat().hot_samples >= stored
        key = SeriesKey("gpu_power_watts", "stamped:GPU-stamped-0")
        (series,) = store.read([key], time.time() + 10, 3600.0)
        given = dict(pages.served)
        assert series.at_s.size > 20
        assert {round(at, 3): round(value, 3) for at, value in zip(series.at_s, series.value, strict=True)}.items() <= (
            given.items()
        )
    finally:
        store.close()


@pytest.mark.slow
def test_bad_sources_a_killed_worker_a_killed_service_and_a_clean_stop(tmp_path: Path, free_port: int) -> None:
    """The good source is read on, each problem is counted and told, nothing stored is lost, no process is left."""

    async def main() -> None:
        pages = Misbehaving()
        async with serve(pages) as base:
            names = sorted({name for name, _ in EXPECTED} | USABLE)
            with socket.socket() as closed:
                closed.bind(("127.0.0.1", 0))  # bound, never listening: every connection is refused
                dead = f"http://127.0.0.1:{closed.getsockname()[1]}/dead"
                urls = [dead if name == "dead" else f"{base}/{name}" for name in names]
                await _killed_and_started_again(tmp_path / "store", free_port, urls, pages)

    (tmp_path / "store").mkdir()
    asyncio.run(main())


@pytest.mark.slow
def test_only_bad_sources_make_it_unready_and_it_says_which(tmp_path: Path, free_port: int) -> None:
    """Ready tells the truth; Ctrl-C ends with 130, without a traceback and without a child left."""

    async def main() -> None:
        async with serve(slow_page(30.0)) as base:
            folder = tmp_path / "store"
            folder.mkdir()
            with _service(folder, free_port, [f"{base}/slow"]) as process:
                code, text = await _until(
                    "the timeout is told",
                    lambda: (got := _get(free_port, "/-/ready"))[0] == 503 and "within 1 s" in got[1] and got,
                )
                assert code == 503
                assert "none of 1 sources gives samples" in json.loads(text)["detail"]
                children = await _until("the worker runs", lambda: _workers(process.pid))
                os.killpg(process.pid, signal.SIGINT)  # as a terminal does: the service and its worker alike
                await asyncio.to_thread(process.wait, 8)
                assert process.returncode == 130
                await _until("no child is left", lambda: not any(map(_alive, children)), 5.0)
            assert "Traceback" not in _log(folder), _log(folder)

    asyncio.run(main())


@pytest.mark.slow
def test_a_damaged_store_and_a_port_in_use_are_refused_in_a_sentence(tmp_path: Path) -> None:
    """Each names the thing and the mend; nothing is overwritten."""
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    (damaged / "samples.duckdb").write_bytes(b"not a database" * 1000)
    refused = _second(damaged)
    assert refused.returncode == 1
    assert re.search(r"samples\.duckdb is damaged or not a gpucast store: .*\. Move it", refused.stderr), refused.stderr
    assert (damaged / "samples.duckdb").read_bytes() == b"not a database" * 1000
    with pytest.raises(StoreError, match="is damaged"):
        DuckStore(damaged / "samples.duckdb")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [sys.executable, "-I", "-m", "api", "serve", "--port", str(port), "--data-dir", str(tmp_path / "new")]
        busy = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=30, check=False)
    assert busy.returncode == 2
    assert f"cannot listen on 127.0.0.1 port {port}: Address already in use. Choose another" in busy.stderr
    assert "Traceback" not in refused.stderr + busy.stderr


@pytest.mark.slow
def test_a_prometheus_that_hangs_does_not_hold_up_the_stop(tmp_path: Path, free_port: int) -> None:
    """The answer is still waited for when SIGTERM comes; the service ends all the same, and well."""

    async def main() -> None:
        pages = Misbehaving()
        async with serve(pages) as base:
            folder = tmp_path / "store"
            folder.mkdir()
            with _service(folder, free_port, [], "--prometheus", f"{base}/slow") as process:
                await _until("the server is asked", lambda: any(name.startswith("slow/") for name in pages.reads))
                await _until("it answers", lambda: _get(free_port, "/-/healthy")[0] == 200)
                process.send_signal(signal.SIGTERM)
                # Prometheus' timeout is 10 s, and it is asked again: waiting for it would take longer than this.
                await asyncio.to_thread(process.wait, 8)
                assert process.returncode == 0
            assert "Traceback" not in _log(folder), _log(folder)
            assert "could not stop in order" not in _log(folder)

    asyncio.run(main())
