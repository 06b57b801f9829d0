"""Answers about what is slow and sick."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from api.http.schemas.base import Answer, JobText, Rfc3339


class FindingOut(Answer):
    """One sign of sickness on one thing. Evidence only: nothing acts on it."""

    kind: str = Field(description="Such as `slow_job`, `straggler`, `slow_link`, `throttled`, `xid`.")
    thing: str = Field(description="`gpu`, `node`, `job`, `rank`, `link` or `communicator`.")
    entity: str = Field(description="Its id.")
    detail: str = Field(description="Tells apart findings of one kind on one thing, such as the number of an XID.")
    severity: Literal["info", "warning", "critical"]
    score: float = Field(ge=0, le=1, description="Strength of the evidence.")
    since_at: Rfc3339
    since_s: float = Field(description="When it began, as far as is known, in the source's clock.")
    evidence: str = Field(description="A sentence with the numbers.")
    to_do: str = Field(description="What a person should do.")
    sources: list[str] = Field(description="Metrics or reports that it rests on.")
    node: str | None = Field(description="Host; null where several or none.")
    jobs: list[JobText] = Field(description="Who suffers.")
    numbers: dict[str, float | None] = Field(description="The figures of the evidence by name.")


class HealthScoreOut(Answer):
    """How well a card, a host or a job is."""

    thing: str = Field(description="`gpu`, `node` or `job`.")
    entity: str
    score: float = Field(ge=0, le=1, description="1 without any finding; 0 is as sick as can be.")
    because: list[str] = Field(description="The evidence behind it, worst first.")


class UnjudgedOut(Answer):
    """A sign that could not be looked for."""

    sign: str
    job: JobText | None = Field(description="For which job; null for everything that is collected.")
    missing: list[str] = Field(description="Metrics that are not read; any one complete set of them is enough.")
    reason: str


class FindingList(Answer):
    """Findings, worst first; scores of the things that have any; what could not be judged."""

    items: list[FindingOut]
    next_cursor: str | None
    total: int
    looked_at: Rfc3339 | None
    looked_at_s: float | None = Field(description="Newest sample that was looked at; null before the first look.")
    seen: dict[str, int] = Field(
        description="How many GPUs, nodes and jobs are looked at; without a finding each has score 1."
    )
    scores: list[HealthScoreOut] = Field(description="Worst first, at most 200.")
    scores_total: int
    unknown: list[UnjudgedOut] = Field(description="Signs that could not be looked for, with the metrics they need.")
