"""Planning for the simulated cluster: pure, readable, and refused where it cannot be."""

from __future__ import annotations

import pytest

from forecast.advisor.types import Advice
from forecast.backends.base import Backend, Plan
from forecast.simulator.backend import SimulatedBackend
from telemetry.clock import VirtualClock
from telemetry.errors import AdviceError, BackendRefused, BackendUnreachable, ConfigError
from telemetry.ids import JobId
from telemetry.jobs import JobView
from telemetry.topology import ClusterSnapshot, Topology

JOB = JobId("kubernetes", "nlp:lm-b")
DEAD = "http://127.0.0.1:9"


def advice(kind: str = "shift", action=None, *, job: JobId | None = JOB, now_s: float = 0.0) -> Advice:
    wish = {"offset_s": 1.9} if action is None else action
    return Advice("a1", kind, job, None, wish, "because", {}, None, now_s, now_s + 60.0)


def snapshot(clock: VirtualClock) -> ClusterSnapshot:
    return ClusterSnapshot(clock.now(), (JobView(JOB, ("n1",), (), 0.0, 0.0),), Topology())


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(1000.0)


@pytest.fixture
def backend(clock: VirtualClock) -> SimulatedBackend:
    # Port 9 answers nobody: whatever passes here without an error touched nothing.
    return SimulatedBackend(DEAD, clock, timeout_s=0.5)


def test_it_is_a_backend(backend: SimulatedBackend) -> None:
    """It has the seam's shape."""
    assert isinstance(backend, Backend)


def test_a_shift_reads_as_the_call_it_stands_for(backend: SimulatedBackend, clock: VirtualClock) -> None:
    """One line, with job and offset; planning asks nobody."""
    plan = backend.plan(advice(now_s=clock.now()), snapshot(clock))
    assert plan.steps == ("POST /control/shift job=kubernetes:nlp:lm-b offset_s=1.9",)
    assert (plan.backend, plan.snapshot_at_s, plan.expires_at_s) == ("simulated", 1000.0, 1060.0)


def test_a_hold_has_nothing_to_do(backend: SimulatedBackend, clock: VirtualClock) -> None:
    """An empty plan, and applying it touches nothing."""
    plan = backend.plan(advice("hold", {}, now_s=clock.now()), snapshot(clock))
    assert plan.steps == ()
    assert not backend.apply(plan).applied


@pytest.mark.parametrize(
    "bad",
    [
        advice("migrate"),
        advice(action={}),
        advice(action={"offset_s": 0.0}),
        advice(action={"offset_s": "soon"}),
        advice(action={"offset_s": float("nan")}),
        advice(job=None),
        advice(job=JobId("kubernetes", "nlp:gone")),
    ],
)
def test_what_it_cannot_do_is_an_advice_error(bad: Advice, backend: SimulatedBackend, clock: VirtualClock) -> None:
    """Other kinds, missing or impossible offsets, jobs that do not run."""
    with pytest.raises(AdviceError):
        backend.plan(bad, snapshot(clock))


def test_expired_stale_foreign_and_unreadable_plans_are_refused(backend: SimulatedBackend, clock: VirtualClock) -> None:
    """Each before anything is sent."""
    plan = backend.plan(advice(now_s=clock.now()), snapshot(clock))
    with pytest.raises(BackendRefused, match="backend 'dry_run'"):
        backend.apply(Plan("a1", "dry_run", plan.steps, 1000.0, 2000.0))
    with pytest.raises(BackendRefused, match="does not know the step"):
        backend.apply(Plan("a1", "simulated", ("rm -rf /",), 1000.0, 2000.0))
    with pytest.raises(BackendRefused, match="does not know the step"):
        backend.apply(Plan("a1", "simulated", ("POST /control/shift job=x offset_s=nan",), 1000.0, 2000.0))
    with pytest.raises(BackendRefused, match="800 s old"):
        backend.apply(Plan("a1", "simulated", plan.steps, 200.0, 2000.0))
    clock.advance(61.0)
    with pytest.raises(BackendRefused, match=r"expired 1\.0 s ago"):
        backend.apply(plan)


def test_nobody_there_is_said_with_the_address(backend: SimulatedBackend, clock: VirtualClock) -> None:
    """A refused connection is BackendUnreachable, and the advice may be tried again."""
    with pytest.raises(BackendUnreachable, match=r"127\.0\.0\.1:9/control/state"):
        backend.snapshot()
    plan = backend.plan(advice(now_s=clock.now()), snapshot(clock))
    for _ in range(2):
        with pytest.raises(BackendUnreachable):
            backend.apply(plan)


@pytest.mark.parametrize("url", ["", "127.0.0.1:80", "https://127.0.0.1:80", "http://127.0.0.1", "http://h:99999"])
def test_an_address_that_is_none_is_a_config_error(url: str, clock: VirtualClock) -> None:
    """The sentence says what it should look like."""
    with pytest.raises(ConfigError, match=r"http://127\.0\.0\.1:PORT"):
        SimulatedBackend(url, clock)
