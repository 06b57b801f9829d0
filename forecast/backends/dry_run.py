"""The backend that does nothing: it shows what would be done."""

from __future__ import annotations

from collections.abc import Callable

from forecast.advisor.types import Advice
from forecast.backends.base import Plan, Receipt
from telemetry.clock import Clock
from telemetry.errors import AdviceError, BackendConflict, BackendRefused
from telemetry.topology import ClusterSnapshot

MAX_SNAPSHOT_AGE_S = 120.0
"""A plan from an older picture of the cluster is refused."""


class DryRunBackend:
    """Plans as text, applies nothing.

    Args:
        snapshot_source: gives the cluster as it is now.
        clock: where time comes from.
    """

    name = "dry_run"

    def __init__(self, snapshot_source: Callable[[], ClusterSnapshot], clock: Clock) -> None:
        self._snapshot_source = snapshot_source
        self._clock = clock
        self._done: dict[str, Receipt] = {}

    def snapshot(self) -> ClusterSnapshot:
        """The cluster as it is now."""
        return self._snapshot_source()

    def plan(self, advice: Advice, snapshot: ClusterSnapshot) -> Plan:
        """The advice in words, one line per call.

        Raises:
            AdviceError: an action that nobody here knows how to say.
            BackendConflict: the job is not in the snapshot.
        """
        return Plan(
            advice_id=advice.id,
            backend=self.name,
            steps=_steps(advice, snapshot),
            snapshot_at_s=snapshot.at_s,
            expires_at_s=advice.expires_at_s,
        )

    def apply(self, plan: Plan) -> Receipt:
        """Touch nothing, and say so.

        Raises:
            BackendRefused: the plan has expired, or its snapshot is too old.
        """
        before = self._done.get(plan.advice_id)
        if before is not None:
            return Receipt(plan.advice_id, False, "shown before; nothing was done then or now", before.applied_at_s)
        now_s = self._clock.now()
        refuse_old(plan, now_s)
        count = len(plan.steps)
        detail = f"dry run: {count} step{'' if count == 1 else 's'} shown, nothing was touched"
        receipt = Receipt(plan.advice_id, False, detail, now_s)
        self._done[plan.advice_id] = receipt
        return receipt


def refuse_old(plan: Plan, now_s: float) -> None:
    """The law that every backend keeps before it acts.

    Raises:
        BackendRefused: the plan has expired, or its snapshot is older than ``MAX_SNAPSHOT_AGE_S``.
    """
    if now_s >= plan.expires_at_s:
        raise BackendRefused(
            f"the plan for advice {plan.advice_id} expired {now_s - plan.expires_at_s:.0f} s ago",
            mend="Ask for fresh advice",
        )
    if now_s - plan.snapshot_at_s > MAX_SNAPSHOT_AGE_S:
        raise BackendRefused(
            f"the plan for advice {plan.advice_id} rests on a snapshot {now_s - plan.snapshot_at_s:.0f} s old",
            mend="Plan again from the cluster as it is now",
        )


def _steps(advice: Advice, snapshot: ClusterSnapshot) -> tuple[str, ...]:
    """What would be done, in words an administrator can check."""
    if not advice.action:
        return ()
    offset_s = advice.action.get("offset_s")
    if advice.kind != "shift" or isinstance(offset_s, str) or offset_s is None or advice.job is None:
        raise AdviceError(
            f"advice {advice.id} of kind {advice.kind!r} has no plan in the dry run",
            mend="Known kinds are shift and hold",
        )
    view = next((job for job in snapshot.jobs if job.job == advice.job), None)
    if view is None:
        raise BackendConflict(
            f"{advice.job} is not in the cluster any more, so advice {advice.id} has no one to act on"
        )
    hosts = ", ".join(view.nodes) or "unknown hosts"
    return (
        f"suspend {advice.job} on {hosts} ({len(view.gpus)} GPUs) at the end of its iteration",
        f"wait {float(offset_s):.3f} s",
        f"resume {advice.job}",
    )
