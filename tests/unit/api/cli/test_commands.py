"""What a user meets on the command line: sentences and exit codes, never a traceback."""

from __future__ import annotations

import http.server
import json
import os
import signal
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from api.cli import COMMANDS, main
from api.cli.serve import _target
from features.store.duck import DuckStore

REPOSITORY = Path(__file__).resolve().parents[4]


def _run(*arguments: str, **more: object) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GPUCAST_")}
    command = [sys.executable, "-I", "-m", "api", *arguments]
    return subprocess.run(
        command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=60, check=False, **more
    )


@contextmanager
def _answering(status: int, body: bytes, *, raw: bool = False) -> Iterator[str]:
    """A server that gives everyone the same answer; with ``raw`` the bytes alone, which are no HTTP."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if raw:
                self.wfile.write(body)
                self.close_connection = True
                return
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    with socketserver.TCPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()


ASKING = [
    ["forecast"],
    ["forecast", "kubernetes:a:b"],
    ["advise"],
    ["advise", "x"],
    ["advise", "x", "--reject"],
    ["doctor"],
    ["queue"],
    ["topology"],
]


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_each_command_has_help_and_refuses_a_flag_it_does_not_know(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Help ends with 0; a wrong flag with 2 and names itself."""
    with pytest.raises(SystemExit) as helped:
        main([command, "--help"])
    assert helped.value.code == 0
    assert COMMANDS[command][:20].lower() in capsys.readouterr().out.lower()
    with pytest.raises(SystemExit) as refused:
        main([command, "--no-such-flag"])
    assert refused.value.code == 2
    assert "usage: gpucast" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", ASKING)
def test_nobody_there_is_told_with_the_mend(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 1."""
    assert main([*arguments, "--url", "http://127.0.0.1:1"]) == 1
    assert "http://127.0.0.1:1: no answer" in (told := capsys.readouterr().err)
    assert "Is 'gpucast serve' running there?" in told


@pytest.mark.parametrize("arguments", ASKING)
@pytest.mark.parametrize(
    ("status", "body", "raw"),
    [
        (200, b"<html>", False),
        (200, b"[1, 2]", False),
        (200, b"{}", False),
        (200, b"\xff\xfe", False),
        (404, b"no such page", False),
        (500, b"[]", False),
        (503, b"", False),
        (0, b"SSH-2.0-OpenSSH_9.2\r\n", True),
        (0, b"", True),
    ],
)
def test_something_else_that_listens_there_is_told_as_such(
    arguments: list[str], status: int, body: bytes, raw: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever it answers, the exit code is 1 and the sentence doubts that it is gpucast."""
    with _answering(status, body, raw=raw) as url:
        assert main([*arguments, "--url", url]) == 1
    told = capsys.readouterr().err
    assert told.startswith(f"gpucast: {url}")
    assert "gpucast service?" in told or "Is 'gpucast serve' running there?" in told


@pytest.mark.parametrize(
    "url", ["nonsense", "ftp://x", "http://", "http://[bad", "http://h:abc", "http://h:0x", "http:// h"]
)
def test_a_url_that_is_none_is_wrong_use(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, with the form it should have."""
    assert main(["doctor", "--url", url]) == 2
    assert "is not an http address. Write it like http://127.0.0.1:8470" in capsys.readouterr().err


def test_what_the_service_does_not_know_is_3_and_no_forecast_is_4(capsys: pytest.CaptureFixture[str]) -> None:
    """Scripts tell a wrong id from a job without a forecast."""
    problem = {"type": "urn:gpucast:problem:unknown-job", "title": "Not Found", "detail": "There is no job 'x'."}
    with _answering(404, json.dumps(problem).encode()) as url:
        assert main(["forecast", "kubernetes:a:x", "--url", url]) == 3
        assert main(["forecast", "kubernetes:a:x", "--json", "--url", url]) == 3
    assert "There is no job 'x'." in capsys.readouterr().err
    nothing = {"absent": True, "why": "stale", "reason": "too old", "points_present": None, "points_needed": None}
    job = {"id": "kubernetes:a:x", "gpu_count": 1, "nodes": ["n"], "age_s": 99.0, "step_s": 1.0, "data_at_s": 0.0}
    job |= {"period": nothing, "phase": nothing, "next_lull": nothing, "metrics": {"gpu_power_watts": nothing}}
    with _answering(200, json.dumps(job).encode()) as url:
        assert main(["forecast", "kubernetes:a:x", "--url", url]) == 4
        assert "gpu_power_watts: too old" in capsys.readouterr().out
        assert main(["forecast", "kubernetes:a:x", "--json", "--url", url]) == 4
        assert json.loads(capsys.readouterr().out) == job


def test_a_proxy_of_the_environment_is_not_asked_for_this_machine(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The address is told, not the proxy's."""
    monkeypatch.setenv("http_proxy", "http://192.0.2.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    with _answering(200, json.dumps({"items": []}).encode()) as url:
        assert main(["forecast", "--url", url]) == 0
    assert "no jobs are seen yet" in capsys.readouterr().out


def test_a_reader_that_has_enough_hears_no_complaint(tmp_path: Path) -> None:
    """As with ``gpucast inspect big | head -1``."""
    page = tmp_path / "big.prom"
    rows = (f'DCGM_FI_DEV_GPU_UTIL{{gpu="{i}",UUID="GPU-{i}",Hostname="n"}} {i % 100}' for i in range(20_000))
    page.write_text("\n".join(rows) + "\n")
    command = [sys.executable, "-I", "-m", "api", "inspect", str(page), "--limit", "0"]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(str(page).encode())
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", 4),
        (bytes(range(256)) * 50, 4),
        (b'{"status": "success", "data": {"resultType": "matrix", "result": [{"metric": 5}]}}', 4),
        (b'{"status": "error", "errorType": "execution", "error": "no"}', 4),
        (b"[" * 100_000, 4),
        (b'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-0",Hostname="n"} NaN\n', 4),
        (b'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-0",Hostname="n"} 5 99999999999999999999\n', 4),
        (b'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-\xff",Hostname="n"} 5\n', 4),
    ],
)
def test_whatever_is_inspected_the_json_is_json(
    content: bytes, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also of hostile bytes; NaN and infinity never stand in it."""
    page = tmp_path / "page"
    page.write_bytes(content)
    assert main(["inspect", str(page), "--json"]) == code
    json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert main(["inspect", str(page)]) == code
    assert capsys.readouterr().out.startswith(str(page))


@pytest.mark.parametrize(
    ("text", "url", "node"),
    [
        ("http://h:9400/metrics", "http://h:9400/metrics", ""),
        ("http://h:9400/metrics=gpu-01", "http://h:9400/metrics", "gpu-01"),
        ("http://h:9400=gpu-01.site", "http://h:9400", "gpu-01.site"),
        ("http://h/federate?match=a", "http://h/federate?match=a", ""),
        ("http://h/metrics=", "http://h/metrics=", ""),
    ],
)
def test_a_target_may_name_its_host(text: str, url: str, node: str) -> None:
    """A query belongs to the address."""
    assert _target(text) == {"url": url, "node": node}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--port", "99999"], "setting port: "),
        (["--interval", "nan"], "setting scrape.interval_s: "),
        (["--interval", "inf"], "setting scrape.interval_s: "),
        (["--target", "foo"], "'foo' is not an http or https address"),
        (["--target", "http://h:99999/"], "is not an http or https address"),
        (["--prometheus", "foo"], "setting prometheus.url: 'foo' is not"),
        (["--targets-from", "foo"], "setting scrape.targets_from: 'foo' is not"),
        (["--config", "/no/such/file"], "cannot read /no/such/file"),
        (["--config", "/"], "cannot read /: Is a directory"),
        (["--port", "0", "--data-dir", "/dev/null"], "cannot make the data folder /dev/null"),
    ],
)
def test_a_wrong_setting_of_serve_is_named(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 2 before anything is started."""
    for name in [name for name in os.environ if name.startswith("GPUCAST_")]:
        monkeypatch.delenv(name)
    assert main(["serve", *arguments]) == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize(
    ("toml", "sentence"),
    [
        (b"a = [1", "is not TOML"),
        (b"\xff\xfe", "is not TOML"),
        (b"scrap = 1", "setting scrap: is not a setting"),
        (b"[advice]\nbackend_uri = ''", "setting advice.backend_uri: is not a setting"),
        (b"scrape = 5", "setting scrape"),
        (b"[forecast]\nevery_s = inf", "setting forecast.every_s: "),
        (b"[advice]\nmodes = {shift = 'always'}", "setting advice.modes.shift: "),
        (b"host = '0.0.0.0'", "setting host: "),
    ],
)
def test_a_wrong_settings_file_is_told_with_the_key(
    toml: bytes, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2."""
    path = tmp_path / "gpucast.toml"
    path.write_bytes(toml)
    assert main(["serve", "--config", str(path)]) == 2
    assert sentence in capsys.readouterr().err


def test_an_unwritable_result_is_found_before_the_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A benchmark of minutes is not run for a file that cannot be made."""
    assert main(["bench", "forecast", "--json", str(tmp_path / "absent" / "x.json")]) == 2
    assert "there is no folder" in capsys.readouterr().err


def _group(number: int) -> list[str]:
    """Command lines of the live processes of a process group."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            state, _, group = (
                (entry / "stat").read_text().rpartition(")")[2].split()[:3] if entry.name.isdigit() else "ZZZ"
            )
            if int(group) == number and state != "Z":
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except (OSError, ValueError):
            continue  # it has ended meanwhile
    return found


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["at once", "the store is there", "it serves"])
def test_ctrl_c_at_any_moment_ends_without_a_traceback(moment: str, tmp_path: Path) -> None:
    """130 once its own code runs; no process of its group is left, and the store opens again."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GPUCAST_")}
    command = [sys.executable, "-I", "-m", "api", "serve", "--port", "0", "--data-dir", str(tmp_path)]
    process = subprocess.Popen(
        command,
        cwd=REPOSITORY,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        # Whoever runs the tests in the background may have them ignore Ctrl-C, and what they start with them.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stderr is not None
    try:
        while moment == "the store is there" and not (tmp_path / "samples.duckdb").exists():
            assert process.poll() is None
            time.sleep(0.005)
        while moment == "it serves" and b"serving the page" not in process.stderr.readline():
            assert process.poll() is None
        os.killpg(process.pid, signal.SIGINT)
        _, told = process.communicate(timeout=30)
    finally:
        process.kill()
    until_s = time.monotonic() + 10.0
    while (left := _group(process.pid)) and time.monotonic() < until_s:
        time.sleep(0.05)  # Python's own tracker of resources ends a moment later
    assert left == []
    if moment != "at once":  # at once it may meet the interpreter before any of our code runs
        assert b"Traceback" not in told, told.decode()
        assert process.returncode == 130
    DuckStore(tmp_path / "samples.duckdb").close()
