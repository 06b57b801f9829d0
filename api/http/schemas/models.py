"""Answers about trained models."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from api.http.schemas.base import Answer, Rfc3339


class LiveSkillOut(Answer):
    """How forecasts of a version did once the truth was in."""

    skill: float = Field(description="1 - loss / persistence's loss, geometric mean over job and metric.")
    origins: int = Field(description="Scored forecasts.")
    series: int = Field(description="Jobs and metrics.")


class ModelVersionOut(Answer):
    """One version."""

    version: str = Field(description="Digest of data, parameters, code and the champion it was judged beside.")
    state: str = Field(description="`champion`, `challenger` or `quarantined`.")
    quarantine: str | None = Field(description="Why it may not serve; null when it may.")
    recipe: str = Field(description="Which way of forecasting won.")
    parameters: dict[str, Any]
    seed: int
    code: dict[str, str] = Field(description="Version of gpucast, digest of the code that trains, libraries.")
    data: dict[str, Any] = Field(description="Digest, span and size of what it learnt from.")
    figures: dict[str, dict[str, list[float | None]]] = Field(
        description="Model -> figure -> [value, low, high]: 95 % interval, on windows after everything it learnt from."
    )
    judged: dict[str, Any] = Field(description="Those windows, and the champion it was judged beside.")
    tried: dict[str, float | None] = Field(description="Recipe -> loss / persistence's on earlier windows, losers too.")
    created_s: float
    created_at: Rfc3339
    live: LiveSkillOut | None = Field(description="null before the service scored one of its forecasts.")


class ModelEventOut(Answer):
    """Something that was done."""

    at_s: float
    at: Rfc3339
    kind: str = Field(description="`trained`, `promoted`, `refused`, `rolled_back` or `quarantined`.")
    version: str
    reason: str
    by: str = Field(description="`person` or `service`.")


class ModelOut(Answer):
    """One trained model."""

    name: str
    champion: str | None = Field(description="Version that the store says serves; null for the built-in models.")
    serving: str | None = Field(description="Version that does serve; null for the built-in models.")
    refused: str | None = Field(description="Why the champion is not loaded; null when it is.")
    since_s: float | None
    why: str = Field(description="Why this champion.")
    before: list[str] = Field(description="Former champions, the newest last; empty text for the built-in models.")
    versions: list[ModelVersionOut] = Field(description="The newest first.")
    unreadable: dict[str, str] = Field(description="Version -> why its manifest cannot be used.")
    events: list[ModelEventOut] = Field(description="The newest last.")


class ModelList(Answer):
    """Every trained model."""

    items: list[ModelOut]
    next_cursor: str | None
    total: int
