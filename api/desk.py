"""The desk on which advice lies from proposal to grade."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from api.reads import AdviceRecord
from forecast.advisor.advise import Applied
from forecast.advisor.types import Advice, Grade, Mode
from forecast.backends.base import Backend, Plan
from telemetry.errors import AdviceError, BackendError
from telemetry.topology import ClusterSnapshot

log = logging.getLogger("gpucast")
KEEP = 200
"""Newest records kept in memory."""
OPEN = frozenset({"open", "approved"})
Measure = Callable[[Advice, float], Grade | None]
"""(advice, moment from which it counts) -> its grade, None while it is too early to tell."""


class AdviceDesk:
    """Keeps advice, lets it act only as far as its kind's mode allows, and has it graded.

    Nothing here touches the network but ``backend.apply``, which the caller runs off the event loop.

    Args:
        backend: who would act.
        modes: per kind of action; a kind not named here is only observed.
    """

    def __init__(self, backend: Backend, modes: Mapping[str, Mode]) -> None:
        self._backend = backend
        self._modes = dict(modes)
        self._records: dict[str, AdviceRecord] = {}
        self._count_from_s: dict[str, float] = {}

    @property
    def mode(self) -> Mode:
        """The highest mode set for any kind."""
        order = list(Mode)
        return max(self._modes.values(), key=order.index, default=Mode.OBSERVE)

    @property
    def backend_name(self) -> str:
        """Who would act."""
        return self._backend.name

    def records(self) -> list[AdviceRecord]:
        """Every record, newest first."""
        return sorted(self._records.values(), key=lambda record: record.advice.made_at_s, reverse=True)

    def get(self, advice_id: str) -> AdviceRecord | None:
        """One record."""
        return self._records.get(advice_id)

    def offer(self, advice: Iterable[Advice], snapshot: ClusterSnapshot) -> list[AdviceRecord]:
        """Take in fresh advice; gives back the records that are new.

        Advice that already lies here open is renewed; advice that was acted on or rejected is not offered again
        until it has been graded or has expired.
        """
        fresh: list[AdviceRecord] = []
        for item in advice:
            known = self._records.get(item.id)
            if known is not None and known.status in OPEN:
                self._records[item.id] = replace(known, advice=replace(item, made_at_s=known.advice.made_at_s))
                continue
            waits = known is not None and known.status in {"applied", "rejected", "failed"}
            if waits and known is not None and item.made_at_s < known.advice.expires_at_s:
                continue
            record = AdviceRecord(item, self._modes.get(item.kind, Mode.OBSERVE), "open", self._plan(item, snapshot))
            self._records[item.id] = record
            self._count_from_s.pop(item.id, None)
            fresh.append(record)
        for record in self.records()[KEEP:]:
            del self._records[record.advice.id]
        return fresh

    def _plan(self, advice: Advice, snapshot: ClusterSnapshot) -> Plan | None:
        if not advice.action:
            return None
        try:
            return self._backend.plan(advice, snapshot)
        except (AdviceError, BackendError):
            return None
        except Exception:  # a third party's backend may fail in any way; the advice itself is still good
            log.exception("backend %s could not plan advice %s", self._backend.name, advice.id)
            return None

    def standing(self) -> list[Advice]:
        """Advice of earlier rounds that still waits."""
        return [record.advice for record in self._records.values() if record.status in OPEN]

    def applied(self) -> list[Applied]:
        """Advice that was carried out, and when."""
        return [
            Applied(record.advice, record.receipt.applied_at_s)
            for record in self._records.values()
            if record.receipt is not None and record.receipt.applied
        ]

    def due(self) -> list[AdviceRecord]:
        """Records that may act now: approved ones, and open ones of a kind set to ``auto``."""
        return [
            record
            for record in self._records.values()
            if record.plan is not None
            and (record.status == "approved" or (record.status == "open" and record.mode is Mode.AUTO))
        ]

    def apply(self, advice_id: str, now_s: float) -> AdviceRecord:
        """Carry one record's plan out; a refusal is kept as its status."""
        record = self._records[advice_id]
        if record.plan is None:
            raise AdviceError(f"advice {advice_id} has nothing to do", mend="A hold is never applied")
        try:
            receipt = self._backend.apply(record.plan)
            record = replace(record, status="applied", receipt=receipt)
            self._count_from_s[advice_id] = receipt.applied_at_s
        except Exception as error:  # as above; tried again it might act twice
            if not isinstance(error, BackendError):
                log.exception("backend %s failed on advice %s", self._backend.name, advice_id)
            grade = Grade(advice_id, "inconclusive", None, f"it could not be applied: {error}", now_s)
            record = replace(record, status="failed", grade=grade)
        self._records[advice_id] = record
        return record

    def decide(self, advice_id: str, verb: str, now_s: float) -> AdviceRecord:
        """Record what a person decided.

        Raises:
            AdviceError: unknown id, a verb that does not fit the status, or approval where the mode forbids it.
        """
        record = self._records.get(advice_id)
        if record is None:
            raise AdviceError(f"there is no advice {advice_id!r}", mend="GET /v1/advice lists the ids")
        if record.status not in OPEN:
            raise AdviceError(f"advice {advice_id} is {record.status}, so it cannot be changed by {verb}")
        if verb == "reject":
            record = replace(record, status="rejected")
        elif verb == "approve":
            if record.mode not in {Mode.APPROVE, Mode.AUTO}:
                raise AdviceError(
                    f"kind {record.advice.kind} is in mode {record.mode}, which never acts",
                    mend=f"Raise advice.modes.{record.advice.kind} to approve in the settings",
                )
            if now_s > record.advice.expires_at_s:
                raise AdviceError(f"advice {advice_id} has expired")
            record = replace(record, status="approved")
        else:
            raise AdviceError(f"cannot {verb} an advice that was never applied")
        self._records[advice_id] = record
        return record

    def settle(self, now_s: float, measure: Measure) -> list[AdviceRecord]:
        """Expire what waited too long and grade what has had its time; gives back the newly graded."""
        graded: list[AdviceRecord] = []
        for advice_id, record in list(self._records.items()):
            if record.status in OPEN and now_s > record.advice.expires_at_s:
                self._records[advice_id] = replace(record, status="expired")
            elif record.status == "applied" and record.grade is None:
                grade = measure(record.advice, self._count_from_s[advice_id])
                if grade is not None:
                    self._records[advice_id] = replace(record, status="graded", grade=grade)
                    graded.append(self._records[advice_id])
        return graded
