"""The dry run shows what would be done, and does nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from forecast.backends.checks import sample_advice, sample_snapshot
from forecast.backends.dry_run import DryRunBackend
from telemetry.clock import VirtualClock
from telemetry.errors import AdviceError, BackendConflict, BackendRefused
from telemetry.ids import JobId


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
def backend(clock):
    return DryRunBackend(lambda: sample_snapshot(clock.now()), clock)


def test_plan_names_job_hosts_and_pause(backend, clock):
    """Three lines an administrator can check."""
    plan = backend.plan(sample_advice(clock.now()), backend.snapshot())
    assert plan.steps == (
        "suspend slurm:1 on n1 (1 GPUs) at the end of its iteration",
        "wait 1.500 s",
        "resume slurm:1",
    )


def test_receipt_says_that_nothing_was_touched(backend, clock):
    """Applied is False and the sentence says why; the second time too."""
    plan = backend.plan(sample_advice(clock.now()), backend.snapshot())
    first = backend.apply(plan)
    clock.advance(5.0)
    second = backend.apply(plan)
    assert not first.applied
    assert "nothing was touched" in first.detail
    assert not second.applied
    assert second.applied_at_s == first.applied_at_s


def test_repeat_after_expiry_is_still_a_repeat(backend, clock):
    """A receipt once given is given again, not turned into a refusal."""
    plan = backend.plan(sample_advice(clock.now()), backend.snapshot())
    backend.apply(plan)
    clock.advance(3600.0)
    assert "before" in backend.apply(plan).detail


def test_expired_plan_is_refused_with_a_mend(backend, clock):
    """The refusal says how late it is and what to do."""
    plan = backend.plan(sample_advice(clock.now(), valid_s=10.0), backend.snapshot())
    clock.advance(15.0)
    with pytest.raises(BackendRefused, match="5 s ago") as caught:
        backend.apply(plan)
    assert caught.value.mend


def test_unknown_kind_is_named(backend, clock):
    """Advice that nobody here can say has no plan."""
    with pytest.raises(AdviceError, match="'resize'"):
        backend.plan(replace(sample_advice(clock.now()), kind="resize"), backend.snapshot())


def test_job_that_ended_is_a_conflict(backend, clock):
    """The world changed: there is no one to act on."""
    gone = replace(sample_advice(clock.now()), job=JobId("slurm", "77"))
    with pytest.raises(BackendConflict, match="slurm:77"):
        backend.plan(gone, backend.snapshot())
