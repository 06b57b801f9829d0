"""Answers about the wiring of the cluster."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from api.http.schemas.base import Answer, LinkText


class HostOut(Answer):
    """Where a host stands."""

    id: str
    leaf: str | None = Field(description="Its leaf switch; null when unknown.")
    switches: list[str | None] = Field(description="Switches above it, nearest first; null at a tier that is not told.")
    domains: dict[str, str] = Field(description="Kind of domain (`nvlink`, `rack`, `block`, ...) -> its name.")
    gpu_count: int | None = Field(description="Whole GPUs; null when unknown.")
    product: str | None = Field(description="GPU model.")
    inside: dict[str, Any] | None = Field(
        description="GPUs, NICs, MIG instances and distances, as `gpucast topology --json` prints them; only for hosts "
        "asked for by `host`, null otherwise or when unknown."
    )


class DomainOut(Answer):
    """Hosts that belong together."""

    kind: str
    name: str
    hosts: list[str]


class WiredLinkOut(Answer):
    """A cable, watched at one port."""

    id: LinkText
    tier: str | None
    a: str = Field(description="Device that owns the port.")
    b: str | None = Field(description="Device at the other end; null when unknown.")
    capacity_bytes_per_s: float | None = Field(description="Of one direction; null when unknown.")


class SaysOut(Answer):
    """What a source says."""

    source: str
    value: str


class ConflictOut(Answer):
    """Sources that cannot all be right."""

    subject: str
    what: str
    says: list[SaysOut]
    kept: str | None = Field(description="What is used; null when that leaves it unknown.")


class TopologySourceOut(Answer):
    """A source named in the settings."""

    source: str
    host: str | None = Field(description="Whose inside it shows; null when it says so itself.")
    format: str | None = Field(description="What it was taken for; null when nothing of it is used.")
    age_s: float | None = Field(
        description="0 for what it gives now; else the age of its last good content that is used."
    )
    error: str | None = Field(description="Why its newest content cannot be used.")


class TopologyOut(Answer):
    """The wiring as forecasts and advice use it. Telemetry's own cables come first, then the sources in their order."""

    host_count: int
    link_count: int
    truncated: bool = Field(
        description="True when hosts, domains or links were left out; ask with `host` or a larger `limit`."
    )
    hosts: list[HostOut] = Field(description="Sorted by name.")
    domains: list[DomainOut]
    links: list[WiredLinkOut]
    aliases: dict[str, str] = Field(description="Another name of a switch or domain -> the name used here.")
    conflicts: list[ConflictOut]
    unknowns: list[str] = Field(description="Sentences on what is not known.")
    sources: list[TopologySourceOut]
    told_by: str = Field(description="Every source that told something, joined by commas.")
