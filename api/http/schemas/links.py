"""Answers about links."""

from __future__ import annotations

from pydantic import Field

from api.http.schemas.base import Absent, Answer, JobText, LinkText, QuantilePathOut, Rfc3339, SkillOut


class CauseOut(Answer):
    """A job's part in a link's load."""

    job: JobText
    share_ratio: float | None = Field(description="Its share of the link's bytes lately, 0..1.")


class LinkSummary(Answer):
    """What a link carries and its chance to pass the threshold."""

    id: LinkText
    device: str
    port: str
    tier: str = Field(description="`nic`, `leaf`, `spine`, or empty when unknown.")
    made_at: Rfc3339
    made_at_s: float
    data_at_s: float
    age_s: float | None
    capacity_bytes_per_s: float | None = Field(description="Of one direction; null when unknown.")
    use_ratio: float | None = Field(description="Latest use, 0..1; null when missing.")
    threshold_ratio: float = Field(description="Use that counts as congested.")
    horizon_s: float = Field(description="How far the probability looks.")
    probability: float | Absent = Field(description="Chance that a sample passes the threshold within the horizon.")
    onset_at: Rfc3339 | None
    onset_s: float | None = Field(description="When the first crossing is expected; null when none is.")
    overload_s: float | None = Field(description="Expected time above the threshold within the horizon.")
    causes: list[CauseOut] = Field(description="Jobs by share, largest first.")
    skill: SkillOut | None = Field(
        description="Skill against climatology, in when the link next crosses the threshold, or in its use where it hardly ever did; null when not scored."
    )
    reason: str = Field(description="A sentence with the numbers used.")


class LinkCongestion(LinkSummary):
    """The same with the quantile path of the use."""

    path: QuantilePathOut | Absent


class LinkList(Answer):
    """Links, highest probability first."""

    items: list[LinkSummary]
    next_cursor: str | None
    total: int
