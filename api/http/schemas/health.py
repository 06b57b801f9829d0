"""Answers about accuracy, sources and readiness."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from api.http.schemas.base import Answer, Rfc3339


class AccuracyOut(Answer):
    """How served forecasts of one series did once the truth was in."""

    subject: str = Field(description="A job or a link.")
    metric: str = Field(description="Catalogue name, or `congestion`.")
    model: str
    model_version: str
    skill: float | None = Field(description="1 - WQL / WQL of persistence (Brier for congestion).")
    coverage80: float | None = Field(description="null for congestion.")
    coverage95: float | None = Field(description="null for congestion.")
    scored: int


class AccuracyList(Answer):
    """Live accuracy by subject and metric."""

    items: list[AccuracyOut]
    next_cursor: str | None
    total: int


class TargetOut(Answer):
    """One source of samples."""

    source: str
    role: str = Field(
        description="`telemetry`, or what is read beside it and makes nothing ready: `scheduler`, `collectives`, `topology`."
    )
    up: bool = Field(description="Whether the last attempt gave samples.")
    last_ok_at: Rfc3339 | None
    last_ok_s: float | None
    interval_s: float | None = Field(description="How often it is read now.")
    refresh_s: float | None = Field(description="How often its values really change; null when not known yet.")
    clock_offset_s: float | None = Field(description="Our clock minus its timestamps; null when it sends none.")
    samples: int = Field(description="Per reply.")
    findings: dict[str, int] = Field(description="What was wrong with its replies, counted since the start.")
    last_error: str = Field(description="A sentence; empty when fine.")
    details: dict[str, str] = Field(description="Finding -> the newest sentence about it.")


class ServerOut(Answer):
    """A source that serves a GPU."""

    source: str
    entity: str = Field(description="`node:device` as this source names it.")


class TwiceOut(Answer):
    """A GPU that more than one source serves."""

    device: str = Field(description="UUID, or what stands in its place.")
    servers: list[ServerOut]


class DevicesOut(Answer):
    """The GPUs that sources serve; of each kind the first hundred are named."""

    total: int = Field(description="GPUs and slices.")
    without_job_total: int = Field(description="How many belong to no job that is known; idle ones are among them.")
    without_job: list[str]
    without_node: list[str] = Field(description="Those whose host no source names.")
    twice_total: int = Field(description="How many are served by more than one source.")
    twice: list[TwiceOut]
    nodes_of: dict[str, list[str]] = Field(description="Source -> hosts whose GPUs it serves, at most a hundred.")


class HealthOut(Answer):
    """Whether the service can serve, its sources, and how far it may act."""

    ready: bool
    reasons: list[str] = Field(description="Why it is not ready; empty when it is.")
    now_at: Rfc3339
    now_s: float
    started_at: Rfc3339
    started_s: float
    version: str
    mode: str = Field(description="The highest mode set for any kind of action.")
    backend: str = Field(description="Who would act.")
    sources_up: int
    sources_total: int
    targets: list[TargetOut]
    missing_fields: dict[str, str] = Field(description="Metric -> what its absence costs.")
    devices: DevicesOut


class PluginOut(Answer):
    """What another package brings."""

    seam: str = Field(description="`collectors`, `models`, `rules` or `backends`.")
    name: str
    module: str
    distribution: str = Field(description="The package that brings it.")
    version: str
    loaded: bool
    error: str = Field(description="Why it is left out; empty when it was loaded.")
    in_use: bool = Field(
        description="Rules always; a collector with [[plugin.NAME]], a model in forecast.models, the backend of the settings."
    )


class PluginList(Answer):
    """Plug-ins by seam and name."""

    items: list[PluginOut]
    next_cursor: str | None
    total: int


class ProbeOut(Answer):
    """Answer to a probe."""

    status: Literal["ok", "ready"]
