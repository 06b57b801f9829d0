"""The hook in a training loop: it reports, and whatever gpucast does, training goes on as without it."""

from __future__ import annotations

import http.server
import importlib.util
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest

from collectors.step_reports import read_reports

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "pytorch_steps.py"
WITHIN_S = 10.0


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The example as a module, with short pauses and no word from any scheduler."""
    for name in ("GPUCAST_URL", "SLURM_JOB_ID", "SLURM_PROCID", "RANK", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    spec = importlib.util.spec_from_file_location("pytorch_steps", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.PAUSE_S = 0.01
    module.TIMEOUT_S = 0.3
    module.LONGEST_PAUSE_S = 0.05
    return module


class Optimizer:
    """Stands for torch's: a loop that only counts."""

    def __init__(self) -> None:
        self.steps = 0

    def step(self) -> float:
        self.steps += 1
        return 1.0 / self.steps


@contextmanager
def service(status: int = 200, wait_s: float = 0.0) -> Iterator[tuple[str, list[bytes]]]:
    """Something that listens: its address, and the bodies it got."""
    bodies: list[bytes] = []
    stop = threading.Event()

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            stop.wait(wait_s)
            try:
                self.send_response(status)
                self.end_headers()
            except OSError:
                return

        def log_message(self, *words: object) -> None:
            return

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", bodies
    finally:
        stop.set()
        server.shutdown()
        server.server_close()


def train(reporter, n_steps: int = 50) -> int:
    """A loop as the example's docstring shows it; gives the steps done."""
    optimizer = Optimizer()
    for step in range(n_steps):
        reporter.step(step, loss=optimizer.step(), tokens=4096, data_wait_s=0.01)
        if step % 10 == 9:
            with reporter.checkpoint():
                pass
    return optimizer.steps


def wait_for(condition) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not condition():
        assert time.monotonic() < deadline, "nothing came in time"
        time.sleep(0.01)


def test_every_step_arrives_as_a_good_report(hook, monkeypatch):
    """Read by the service's own reader: nothing is rejected, order and checkpoints are there."""
    monkeypatch.setenv("SLURM_JOB_ID", "812")
    with service() as (url, bodies):
        monkeypatch.setenv("GPUCAST_URL", url)
        assert train(hook.StepReporter()) == 50
        wait_for(lambda: sum(len(json.loads(body)) for body in bodies) == 60)
    read = [read_reports(body, time.time()) for body in bodies]
    reports = [report for found, _ in read for report in found]
    assert [faults for _, faults in read if faults] == []
    assert [report.step for report in reports if report.step is not None] == list(range(50))
    assert [report.checkpoint for report in reports if report.checkpoint is not None] == [1.0, 0.0] * 5
    assert {str(report.job) for report in reports} == {"slurm:812"}
    assert all(report.step_s >= 0 and report.tokens == 4096 for report in reports if report.step is not None)


def test_it_is_off_unless_it_is_asked_for(hook, monkeypatch):
    """No address, no job, or another rank than 0: no thread, no queue, nothing."""
    before = threading.active_count()
    reporters = [hook.StepReporter(), hook.StepReporter("http://127.0.0.1:1")]
    reporters.append(hook.StepReporter("http://127.0.0.1:1", job="slurm:1", rank=3))
    monkeypatch.setenv("RANK", "not a number")
    reporters.append(hook.StepReporter("http://127.0.0.1:1", job="slurm:1"))
    assert [reporter.active for reporter in reporters] == [False] * 4
    assert [train(reporter) for reporter in reporters] == [50] * 4
    assert threading.active_count() == before
    assert all(reporter._queue.empty() for reporter in reporters)


def test_a_service_that_is_down_costs_nothing_but_the_reports(hook, free_port):
    reporter = hook.StepReporter(f"http://127.0.0.1:{free_port}", job="slurm:1")
    assert train(reporter) == 50
    wait_for(lambda: reporter.dropped >= 50)


def test_a_service_that_fails_costs_nothing_but_the_reports(hook):
    with service(status=500) as (url, bodies):
        reporter = hook.StepReporter(url, job="slurm:1")
        assert train(reporter) == 50
        wait_for(lambda: reporter.dropped >= 50)
        assert bodies


def test_a_service_that_hangs_does_not_hold_up_a_step(hook):
    """The queue fills up and then drops; the loop is done while the first request still waits."""
    hook.TIMEOUT_S = 60.0
    with service(wait_s=60.0) as (url, bodies):
        reporter = hook.StepReporter(url, job="slurm:1")
        reporter.step(0)
        wait_for(lambda: len(bodies) == 1)
        assert train(reporter, 3 * hook.QUEUE_SIZE) == 3 * hook.QUEUE_SIZE
        assert len(bodies) == 1
        assert reporter.dropped > hook.QUEUE_SIZE


def test_no_value_breaks_it(hook):
    """A loss that is NaN, a thing that is no number, an address that is none."""
    with service() as (url, bodies):
        reporter = hook.StepReporter(url, job="slurm:1")
        reporter.step(0, loss=float("nan"))
        wait_for(lambda: len(bodies) == 1)
        reporter.step(1, loss=object())
        wait_for(lambda: reporter.dropped == 1)
        reporter.step(2, loss=1.0)
        wait_for(lambda: len(bodies) == 2)
    (report,), faults = read_reports(bodies[0], time.time())
    assert (str(report.loss), faults) == ("nan", [])
    broken = hook.StepReporter("no address at all", job="slurm:1")
    assert train(broken) == 50


def test_an_error_inside_a_checkpoint_is_the_loops_own(hook):
    """It is not swallowed, and the end of the checkpoint is told."""
    reporter = hook.StepReporter("http://127.0.0.1:1", job="slurm:1")
    with pytest.raises(RuntimeError, match="disk"), reporter.checkpoint():
        raise RuntimeError("disk")


def test_under_kubernetes_the_pod_names_the_job(hook, monkeypatch):
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("POD_NAME", "train-worker-0")
    monkeypatch.setenv("POD_NAMESPACE", "team")
    assert hook._who() == {"pod": "train-worker-0", "namespace": "team"}
