"""Answers about advice."""

from __future__ import annotations

from pydantic import Field

from api.http.schemas.base import Answer, JobText, LinkText, Rfc3339


class EffectOut(Answer):
    """What an advice says will happen, as an 80 % interval."""

    metric: str = Field(description="What is measured, unit at the end.")
    baseline: float | None = Field(description="Its value lately, without the advice.")
    low: float | None
    median: float | None
    high: float | None
    window_s: float | None = Field(description="Over how long it is measured, once the advice took effect.")


class PlanOut(Answer):
    """What would be done, in the scheduler's own words."""

    backend: str
    steps: list[str]
    snapshot_at_s: float
    expires_at_s: float


class ReceiptOut(Answer):
    """What was done."""

    applied: bool = Field(description="False for a dry run or a repeat.")
    detail: str
    applied_at: Rfc3339
    applied_at_s: float


class GradeOut(Answer):
    """How an advice turned out."""

    verdict: str = Field(description="`inside`, `better` or `worse` than the predicted interval, or `inconclusive`.")
    measured: float | None = Field(description="The metric afterwards; null when it could not be measured.")
    reason: str
    graded_at_s: float


class AdviceOut(Answer):
    """One thing to do, or a reasoned nothing, and what became of it."""

    id: str
    kind: str
    status: str = Field(
        description="`open`, `approved`, `applied`, `graded`, `expired`, `rejected`, `failed` or `rolled_back`."
    )
    mode: str = Field(description="How far this kind may go: `observe`, `recommend`, `approve` or `auto`.")
    verbs: list[str] = Field(description="What may be posted now: `approve`, `reject`, `rollback`.")
    job: JobText | None
    link: LinkText | None
    action: dict[str, float | str]
    reason: str = Field(description="A sentence with the numbers used.")
    numbers: dict[str, float | None]
    predicted: EffectOut | None = Field(description="null for a hold.")
    made_at: Rfc3339
    made_at_s: float
    expires_at: Rfc3339
    expires_at_s: float
    inverse: dict[str, float | str] | None = Field(description="Action that undoes it; null when nothing needs to be.")
    plan: PlanOut | None
    receipt: ReceiptOut | None
    grade: GradeOut | None


class AdviceList(Answer):
    """Advice, newest first."""

    items: list[AdviceOut]
    next_cursor: str | None
    total: int
