"""Answers about ends, starts and demand, foreseen from the schedulers' lists."""

from __future__ import annotations

from pydantic import Field

from api.http.schemas.base import Answer, JobText, Rfc3339


class StartOut(Answer):
    """When a waiting job is expected to start."""

    start_at: Rfc3339
    start_s: float = Field(description="The median, Unix seconds.")
    low_s: float = Field(description="Lower end of the 80 % interval, Unix seconds.")
    high_s: float | None = Field(description="Upper end; null when some replays never start it.")
    ahead_count: int = Field(description="Waiting jobs that come before it.")
    model: str = Field(description="`replay` of the queue, or `persistence`: it waits as the last one waited.")
    reason: str = Field(description="The numbers used, and how good it was lately.")


class EndOut(Answer):
    """How long a running job is expected to run on."""

    id: JobText
    age_s: float = Field(description="How long it has run.")
    remaining_s: float = Field(description="Most probably right within a factor of two.")
    low_s: float = Field(description="Lower end of the 80 % interval of the remaining seconds.")
    high_s: float = Field(description="Upper end.")
    limit_s: float | None = Field(description="Seconds until its limit ends it; null without one.")
    coverage80: float | None = Field(description="Share of ended jobs inside their 80 % interval.")
    model: str = Field(description="`history`, `steps` or `history+steps`.")
    reason: str


class DemandOut(Answer):
    """GPUs in use and free ahead. `used[i][h]` is the quantile `levels[i]` at `leads_s[h]` seconds from `made_at_s`."""

    name: str = Field(description="The partition; empty for the whole cluster.")
    made_at_s: float
    leads_s: list[float]
    levels: list[float]
    used: list[list[float]]
    free: list[list[float]]
    total: float = Field(description="GPUs in service.")
    models: list[str] = Field(description="What is served at each lead; `persistence` where nothing beat it.")
    reason: str
