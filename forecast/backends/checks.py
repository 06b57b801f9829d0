"""The checks that every backend must pass; authors of a backend run the same ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from forecast.advisor.types import Advice, Effect
from forecast.backends.base import Backend, Plan, Receipt
from telemetry.clock import VirtualClock
from telemetry.errors import BackendRefused
from telemetry.ids import GpuId, JobId, LinkId
from telemetry.jobs import JobView
from telemetry.topology import ClusterSnapshot, Topology

Factory = Callable[[Callable[[], ClusterSnapshot], VirtualClock], Backend]
"""(where snapshots come from, the clock) -> a fresh backend that acts on nothing real."""
Check = Callable[[], None]


def yield_checks(factory: Factory) -> Iterator[tuple[str, Check]]:
    """Every check as (name, callable); a broken law raises AssertionError with a sentence."""
    for check in (
        check_is_backend,
        check_plan_is_pure,
        check_hold_has_no_steps,
        check_apply_twice_acts_once,
        check_expired_is_refused,
        check_old_snapshot_is_refused,
        check_plan_reads_as_text,
    ):
        yield check.__name__.removeprefix("check_"), _bound(check, factory)


def _bound(check: Callable[[Backend, VirtualClock], None], factory: Factory) -> Check:
    def run() -> None:
        clock = VirtualClock()
        check(factory(lambda: sample_snapshot(clock.now()), clock), clock)

    return run


def sample_snapshot(at_s: float) -> ClusterSnapshot:
    """A cluster of two one-host jobs."""
    jobs = tuple(
        JobView(
            job=JobId("slurm", name),
            nodes=(node,),
            gpus=(GpuId(node, f"GPU-{name}"),),
            first_seen_s=at_s - 600.0,
            last_seen_s=at_s,
        )
        for name, node in (("1", "n1"), ("2", "n2"))
    )
    return ClusterSnapshot(at_s, jobs, Topology())


def sample_advice(at_s: float, *, advice_id: str = "a1", valid_s: float = 60.0) -> Advice:
    """A shift of the first job."""
    return Advice(
        id=advice_id,
        kind="shift",
        job=JobId("slurm", "1"),
        link=LinkId("leaf1", "u1", "leaf"),
        action={"offset_s": 1.5},
        reason="two jobs burst together",
        numbers={},
        predicted=Effect("link_overload_ratio", 0.3, 0.0, 0.01, 0.05, 24.0),
        made_at_s=at_s,
        expires_at_s=at_s + valid_s,
        inverse={"offset_s": 2.5},
    )


def check_is_backend(backend: Backend, clock: VirtualClock) -> None:
    """It has the seam's shape and a name, and gives a snapshot of the present."""
    assert isinstance(backend, Backend), "it lacks a method of the seam"
    assert backend.name, "it has no name"
    assert abs(backend.snapshot().at_s - clock.now()) < 60.0, "its snapshot is not of the present"


def check_plan_is_pure(backend: Backend, clock: VirtualClock) -> None:
    """The same advice and snapshot give the same plan, and the snapshot stays what it was."""
    snapshot = backend.snapshot()
    advice = sample_advice(clock.now())
    first, second = backend.plan(advice, snapshot), backend.plan(advice, snapshot)
    assert first == second, "two plans from the same advice differ"
    assert first.advice_id == advice.id, "the plan names other advice"
    assert first.expires_at_s <= advice.expires_at_s, "the plan outlives its advice"
    assert backend.snapshot().jobs == snapshot.jobs, "planning changed the cluster"


def check_hold_has_no_steps(backend: Backend, clock: VirtualClock) -> None:
    """A hold is planned as nothing."""
    now_s = clock.now()
    hold = Advice("h1", "hold", None, None, {}, "nothing to do", {}, None, now_s, now_s + 60.0)
    assert backend.plan(hold, backend.snapshot()).steps == (), "a hold must have no steps"


def check_apply_twice_acts_once(backend: Backend, clock: VirtualClock) -> None:
    """The second receipt of one advice says that nothing was done."""
    plan = backend.plan(sample_advice(clock.now()), backend.snapshot())
    first = backend.apply(plan)
    after_once = backend.snapshot().jobs
    clock.advance(1.0)
    second = backend.apply(plan)
    assert isinstance(first, Receipt), "apply must give a receipt"
    assert isinstance(second, Receipt), "apply must give a receipt"
    assert not second.applied, "the second apply claims to have acted"
    assert [job.job for job in backend.snapshot().jobs] == [job.job for job in after_once], (
        "the second apply changed the cluster"
    )


def check_expired_is_refused(backend: Backend, clock: VirtualClock) -> None:
    """A plan whose time has passed is refused."""
    plan = backend.plan(sample_advice(clock.now(), valid_s=10.0), backend.snapshot())
    clock.advance(11.0)
    _must_refuse(backend, plan, "an expired plan was applied")


def check_old_snapshot_is_refused(backend: Backend, clock: VirtualClock) -> None:
    """A plan from an old picture of the cluster is refused even while the advice is valid."""
    plan = backend.plan(sample_advice(clock.now(), valid_s=1e6), backend.snapshot())
    clock.advance(86400.0)
    _must_refuse(backend, plan, "a plan from a day-old snapshot was applied")


def check_plan_reads_as_text(backend: Backend, clock: VirtualClock) -> None:
    """Steps are non-empty lines that name the job."""
    plan = backend.plan(sample_advice(clock.now()), backend.snapshot())
    assert plan.steps, "a shift must have steps"
    assert all(step.strip() and "\n" not in step for step in plan.steps), "a step must be one line of text"
    assert any("1" in step for step in plan.steps), "no step names the job"


def _must_refuse(backend: Backend, plan: Plan, message: str) -> None:
    try:
        backend.apply(plan)
    except BackendRefused:
        return
    raise AssertionError(message)
