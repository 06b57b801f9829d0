"""The simulated cluster over real HTTP: pages, targets, truth, obedience, and its own process."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from forecast.advisor.types import Advice
from forecast.backends.checks import yield_checks
from forecast.simulator.backend import SimulatedBackend
from forecast.simulator.fabric import FabricSpec
from forecast.simulator.scenarios import ClusterSpec, demo_spec
from forecast.simulator.server import SimServer, serve_cluster
from forecast.simulator.workload import JobSpec
from telemetry.clock import VirtualClock
from telemetry.errors import BackendConflict, BackendRefused, ConfigError
from telemetry.ids import JobId

REPOSITORY = Path(__file__).resolve().parents[2]


async def fetch(url: str) -> tuple[int, str, str]:
    async with aiohttp.ClientSession() as session, session.get(url) as reply:
        return reply.status, reply.headers["Content-Type"], await reply.text()


async def post(url: str, body: object) -> tuple[int, dict]:
    async with aiohttp.ClientSession() as session, session.post(url, data=json.dumps(body)) as reply:
        return reply.status, json.loads(await reply.text())


@pytest.mark.asyncio
async def test_every_listed_target_is_a_page() -> None:
    """http_sd lists 16 hosts twice and 6 switches; each answers with text that parses."""
    clock = VirtualClock()
    async with serve_cluster(demo_spec(), seed=7, clock=clock) as server:
        clock.advance(5.0)
        status, kind, text = await fetch(server.base_url + "/targets")
        assert (status, kind.partition(";")[0]) == (200, "application/json")
        groups = json.loads(text)
        assert len(groups) == 16 + 16 + 6
        assert len({(group["labels"]["job"], group["labels"]["instance"]) for group in groups}) == len(groups)
        for group in groups:
            status, kind, page = await fetch(f"http://{group['targets'][0]}{group['labels']['__metrics_path__']}")
            assert status == 200
            assert kind.startswith("text/plain; version=0.0.4")
            assert sum(len(family.samples) for family in text_string_to_metric_families(page)) > 10


@pytest.mark.asyncio
async def test_simulated_time_follows_the_clock() -> None:
    """The truth's times are the clock's, and advance with it."""
    clock = VirtualClock(1_800_000_000.0)
    async with serve_cluster(demo_spec(), seed=7, clock=clock) as server:
        clock.advance(30.0)
        state = json.loads((await fetch(server.base_url + "/control/state"))[2])
    assert (state["started_s"], state["now_s"], state["sim_s"]) == (1_800_000_000.0, 1_800_000_030.0, 30.0)
    assert [job["name"] for job in state["jobs"]][:2] == ["vision-a", "lm-b"]
    starts = state["jobs"][2]["iteration_starts_s"]
    assert 1_800_000_000.0 < starts[0] < starts[-1] <= 1_800_000_030.0
    assert {over["link"] for over in state["overloads"]} == {"leaf1:9", "spine1:1"}


@pytest.mark.asyncio
async def test_a_shift_is_obeyed_once_per_advice() -> None:
    """The same advice id again pauses nothing; without an id each wish counts."""
    clock = VirtualClock()
    async with serve_cluster(demo_spec(), seed=7, clock=clock) as server:
        url = server.base_url + "/control/shift"
        wish = {"job": "kubernetes:nlp:lm-b", "offset_s": 1.5, "advice_id": "a1"}
        assert (await post(url, wish))[1]["applied"] is True
        assert (await post(url, wish))[1]["applied"] is False
        assert server.cluster.jobs[1].pending_offset_s == 1.5


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"job": "nobody", "offset_s": 1.0}, 404, "nobody"),
        ({"job": "lm-b", "offset_s": -1.0}, 422, "offset_s"),
        ({"job": "lm-b", "offset_s": "1"}, 422, "offset_s"),
        ({"job": "lm-b"}, 422, "offset_s"),
        ({"job": "lm-b", "offset_s": 1.0, "force": True}, 422, "force"),
        ([], 422, "body"),
    ],
)
async def test_a_wish_that_cannot_be_is_a_problem(body: object, status: int, words: str) -> None:
    """problem+json that names the field, and nothing is paused."""
    async with serve_cluster(demo_spec(), seed=7, clock=VirtualClock()) as server:
        got, problem = await post(server.base_url + "/control/shift", body)
        assert got == status
        assert words in problem["detail"]
        assert server.cluster.jobs[1].pending_offset_s == 0.0


@pytest.mark.asyncio
@pytest.mark.parametrize("path", ["/dcgm/nowhere/metrics", "/node/nowhere/metrics", "/switch/nowhere/metrics", "/x"])
async def test_unknown_pages_are_404(path: str) -> None:
    """Nothing is made up."""
    async with serve_cluster(demo_spec(), seed=7, clock=VirtualClock()) as server:
        assert (await fetch(server.base_url + path))[0] == 404


@pytest.mark.asyncio
async def test_a_port_in_use_is_said() -> None:
    """The second server names the port."""
    async with serve_cluster(demo_spec(), seed=7, clock=VirtualClock()) as server:
        port = int(server.base_url.rpartition(":")[2])
        with pytest.raises(ConfigError, match=f"127.0.0.1:{port} for the simulated cluster is in use"):
            async with serve_cluster(demo_spec(), seed=7, clock=VirtualClock(), port=port):
                pass


def shift(job: str, clock: VirtualClock, advice_id: str = "a1") -> Advice:
    now_s = clock.now()
    return Advice(
        advice_id, "shift", JobId.parse(job), None, {"offset_s": 1.75}, "because", {}, None, now_s, now_s + 60.0
    )


@pytest.mark.asyncio
async def test_the_backend_sees_plans_and_applies_once() -> None:
    """Snapshot to receipt over real HTTP; a repeat, also by a restarted backend, does nothing."""
    clock = VirtualClock()
    async with serve_cluster(demo_spec(), seed=7, clock=clock) as server:
        clock.advance(20.0)
        backend = SimulatedBackend(server.base_url, clock)
        seen = await asyncio.to_thread(backend.snapshot)
        assert len(seen.jobs) == 6
        assert sum(len(view.gpus) for view in seen.jobs) == 16 * 8
        assert [str(link.id) for link in seen.topology.uplinks("leaf1")] == ["leaf1:9", "leaf1:10"]
        plan = backend.plan(shift("kubernetes:nlp:lm-b", clock), seen)
        assert server.cluster.jobs[1].pending_offset_s == 0.0
        assert (await asyncio.to_thread(backend.apply, plan)).applied
        assert not (await asyncio.to_thread(backend.apply, plan)).applied
        again = SimulatedBackend(server.base_url, clock)
        assert not (await asyncio.to_thread(again.apply, plan)).applied
        assert server.cluster.jobs[1].pending_offset_s == 1.75


@pytest.mark.asyncio
async def test_what_the_cluster_refuses_comes_back_as_our_errors() -> None:
    """404 is a conflict with the snapshot, 422 a refusal, both with the cluster's own words."""
    clock = VirtualClock()
    async with serve_cluster(demo_spec(), seed=7, clock=clock) as server:
        backend = SimulatedBackend(server.base_url, clock)
        seen = await asyncio.to_thread(backend.snapshot)
        plan = backend.plan(shift("kubernetes:nlp:lm-b", clock), seen)
        gone = type(plan)("a2", plan.backend, (plan.steps[0].replace("lm-b", "gone"),), seen.at_s, plan.expires_at_s)
        with pytest.raises(BackendConflict, match="gone"):
            await asyncio.to_thread(backend.apply, gone)
        huge = type(plan)("a3", plan.backend, (plan.steps[0].replace("1.75", "1e9"),), seen.at_s, plan.expires_at_s)
        with pytest.raises(BackendRefused, match="no pause"):
            await asyncio.to_thread(backend.apply, huge)


class ServersAside:
    """Servers in a loop of their own thread, for callers that block."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._stack = AsyncExitStack()
        self._thread.start()

    def call(self, work):
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    def serve(self, clock: VirtualClock) -> str:
        specs = [
            JobSpec(name, "", (node,), 0.1, 0.5, 0.1, 1.0, scheduler="slurm")
            for name, node in (("1", "n1"), ("2", "n2"))
        ]
        spec = ClusterSpec(FabricSpec(("n1", "n2")), tuple(specs), gpus_per_node=1)
        server = self.call(self._stack.enter_async_context(serve_cluster(spec, seed=1, clock=clock)))
        return server.base_url

    def close(self) -> None:
        self.call(self._stack.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@pytest.fixture(scope="module")
def servers():
    aside = ServersAside()
    yield aside
    aside.close()


CHECKS = [name for name, _ in yield_checks(lambda _snapshot, _clock: None)]


@pytest.mark.parametrize("name", CHECKS)
def test_the_simulated_backend_keeps_the_contract(name: str, servers: ServersAside) -> None:
    """Every check of the backend seam, over real HTTP."""
    dict(yield_checks(lambda _, clock: SimulatedBackend(servers.serve(clock), clock)))[name]()


def start(*flags: str) -> tuple[subprocess.Popen[str], dict]:
    process = subprocess.Popen(
        [sys.executable, "-m", "forecast.simulator", "--seed", "3", *flags],
        cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())


def finish(process: subprocess.Popen[str]) -> int:
    """Wait for the end, and close the pipes."""
    try:
        process.communicate(timeout=20)
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
    return process.returncode


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_as_a_process_it_says_where_it_is_and_ends_when_told(number: signal.Signals) -> None:
    """One JSON line, a page in real time, exit status 0."""
    process, hello = start()
    status, _, page = asyncio.run(fetch(hello["base_url"] + "/dcgm/gpu-01/metrics"))
    assert (status, hello["pid"]) == (200, process.pid)
    assert "DCGM_FI_PROF_SM_ACTIVE" in page
    process.send_signal(number)
    assert finish(process) == 0


def test_it_does_not_outlive_its_parent() -> None:
    """With ``--parent-pid`` it ends soon after that process."""
    parent = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    process, _ = start("--parent-pid", str(parent.pid))
    assert process.poll() is None
    parent.communicate(b"\n")
    assert finish(process) == 0


def test_flags_that_cannot_work_end_with_status_2() -> None:
    """A sentence on stderr, no traceback."""
    run = subprocess.run(
        [sys.executable, "-m", "forecast.simulator", "--port", "99999"],
        cwd=REPOSITORY, capture_output=True, text=True, timeout=60, env=os.environ, check=False,
    )  # fmt: skip
    assert run.returncode == 2
    assert "port 99999" in run.stderr
    assert "Traceback" not in run.stderr


def test_sim_server_needs_no_network_to_be_made() -> None:
    """Making the routes touches no port."""
    from forecast.simulator.cluster import SimCluster

    server = SimServer(SimCluster(7, demo_spec()), VirtualClock())
    assert len(server.app().router.routes()) >= 6
