"""Advice records as API models."""

from __future__ import annotations

from api.http import schemas
from api.http.render.base import number, rfc3339
from api.reads import AdviceRecord
from forecast.advisor.types import Effect, Grade, Mode
from forecast.backends.base import Plan, Receipt


def allowed_verbs(record: AdviceRecord, now_s: float) -> list[str]:
    """What a user may post now; the service still has the last word.

    Anything waiting may be rejected; approval needs something to do, and a mode in which the kind may act.
    """
    if record.status not in {"open", "approved"} or now_s > record.advice.expires_at_s:
        return []
    may_act = record.mode in {Mode.APPROVE, Mode.AUTO} and record.plan is not None and record.status == "open"
    return ["approve", "reject"] if may_act else ["reject"]


def _effect(value: Effect) -> schemas.EffectOut:
    return schemas.EffectOut(
        metric=value.metric,
        baseline=number(value.baseline),
        low=number(value.low),
        median=number(value.median),
        high=number(value.high),
        window_s=number(value.window_s),
    )


def _plan(value: Plan) -> schemas.PlanOut:
    return schemas.PlanOut(
        backend=value.backend,
        steps=list(value.steps),
        snapshot_at_s=value.snapshot_at_s,
        expires_at_s=value.expires_at_s,
    )


def _receipt(value: Receipt) -> schemas.ReceiptOut:
    return schemas.ReceiptOut(
        applied=value.applied,
        detail=value.detail,
        applied_at=rfc3339(value.applied_at_s),
        applied_at_s=value.applied_at_s,
    )


def _grade(value: Grade) -> schemas.GradeOut:
    return schemas.GradeOut(
        verdict=value.verdict, measured=number(value.measured), reason=value.reason, graded_at_s=value.graded_at_s
    )


def advice(record: AdviceRecord, now_s: float) -> schemas.AdviceOut:
    """An advice and what became of it."""
    given = record.advice
    return schemas.AdviceOut(
        id=given.id,
        kind=given.kind,
        status=record.status,
        mode=str(record.mode),
        verbs=allowed_verbs(record, now_s),
        job=None if given.job is None else str(given.job),
        link=None if given.link is None else str(given.link),
        action=dict(given.action),
        reason=given.reason,
        numbers={name: number(value) for name, value in given.numbers.items()},
        predicted=None if given.predicted is None else _effect(given.predicted),
        made_at=rfc3339(given.made_at_s),
        made_at_s=given.made_at_s,
        expires_at=rfc3339(given.expires_at_s),
        expires_at_s=given.expires_at_s,
        inverse=None if given.inverse is None else dict(given.inverse),
        plan=None if record.plan is None else _plan(record.plan),
        receipt=None if record.receipt is None else _receipt(record.receipt),
        grade=None if record.grade is None else _grade(record.grade),
    )
