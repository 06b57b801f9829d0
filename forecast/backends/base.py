"""The backend seam: advice becomes a plan that reads as text, and a plan is applied at most once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from forecast.advisor.types import Advice
from telemetry.topology import ClusterSnapshot


@dataclass(frozen=True, slots=True)
class Plan:
    """What would be done, in the scheduler's own words.

    Args:
        advice_id: which advice it carries out; applying the same id twice does it once.
        backend: who would do it.
        steps: one line per call, readable by the administrator.
        snapshot_at_s: time of the snapshot it was made from.
        expires_at_s: after this ``apply`` refuses.
    """

    advice_id: str
    backend: str
    steps: tuple[str, ...]
    snapshot_at_s: float
    expires_at_s: float


@dataclass(frozen=True, slots=True)
class Receipt:
    """What was done.

    Args:
        advice_id: which advice.
        applied: False for a dry run or a repeat.
        detail: a sentence.
        applied_at_s: Unix seconds.
    """

    advice_id: str
    applied: bool
    detail: str
    applied_at_s: float


@runtime_checkable
class Backend(Protocol):
    """A scheduler, or a stand-in.

    The contract, checked by ``forecast.backends.checks``: ``plan`` is pure and touches nothing; a dry run
    changes nothing; applying twice acts once; an expired plan or a stale snapshot is refused.
    """

    name: str

    def snapshot(self) -> ClusterSnapshot:
        """The cluster as it is now."""
        ...

    def plan(self, advice: Advice, snapshot: ClusterSnapshot) -> Plan:
        """Render the advice.

        Raises:
            AdviceError: this backend has no way to do it.
        """
        ...

    def apply(self, plan: Plan) -> Receipt:
        """Carry the plan out.

        Raises:
            BackendRefused: expired, or the scheduler said no.
            BackendConflict: the world changed since the snapshot.
            BackendUnreachable: no answer.
        """
        ...
