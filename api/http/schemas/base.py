"""What every answer builds on: absences, skill, quantile paths, histories, problems."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Rfc3339 = Annotated[str, Field(json_schema_extra={"format": "date-time"}, examples=["2026-11-30T21:30:00.250Z"])]
JobText = Annotated[str, Field(description="A job: `backend:name`.", examples=["kubernetes:team-a:train"])]
LinkText = Annotated[str, Field(description="A link: `device:port`.", examples=["leaf-1:swp49"])]


class Answer(BaseModel):
    """Base of everything answered."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class ProblemDocument(BaseModel):
    """An error, as RFC 9457 asks; extension members may follow."""

    model_config = ConfigDict(extra="allow", frozen=True)
    type: str = Field(description="A URN that programs may compare.", examples=["urn:gpucast:problem:unknown-job"])
    title: str = Field(description="The status in words.")
    status: int = Field(ge=400, le=599)
    detail: str = Field(description="A sentence that names the thing at fault and the mend.")
    instance: str = Field(description="Path of the request.")


class Absent(Answer):
    """There is no answer of this kind, and why; a normal reply with status 200."""

    absent: Literal[True] = True
    why: str = Field(description="One word for programs, such as `idle`, `stale`, `sampling_too_coarse`.")
    reason: str = Field(description="A sentence with the numbers, for people.")
    points_present: int | None = Field(None, description="How many points there are, where that is the reason.")
    points_needed: int | None = Field(None, description="How many are needed.")


class SkillOut(Answer):
    """How the served model did on the recent past of this very series."""

    skill: float | None = Field(description="1 - WQL(model) / WQL(persistence); 0 is persistence, 1 is perfect.")
    coverage80: float | None = Field(description="Share of truths inside the 80 % interval, 0..1.")
    coverage95: float | None = Field(description="Share of truths inside the 95 % interval, 0..1.")
    scored: int = Field(description="How many (origin, step) pairs this rests on.")


class QuantilePathOut(Answer):
    """Quantiles of one metric over the next steps, as a matrix.

    `values[i][h]` is the quantile `levels[i]` at `start_s + (h + 1) * step_s`, in `unit`.
    """

    metric: str
    unit: str
    start_at: Rfc3339
    start_s: float = Field(description="The cutoff in the source's clock, Unix seconds.")
    step_s: float
    levels: list[float] = Field(description="Quantile levels, ascending, 0..1.")
    values: list[list[float | None]] = Field(description="One row per level, one column per step.")
    model: str = Field(description="`persistence` when nothing beat it.")
    model_version: str
    skill: SkillOut
    reason: str = Field(description="Why this model was chosen.")


class HistoryOut(Answer):
    """Actual values on a grid, oldest first; `value[i]` is at `at_s[i]`, null where missing."""

    id: str
    metric: str
    unit: str
    at_s: list[float]
    value: list[float | None]
    truncated: bool = Field(description="True when older points of the window were left out.")
