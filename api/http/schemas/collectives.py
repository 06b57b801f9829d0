"""Answers about what the communication library tells."""

from __future__ import annotations

from pydantic import Field

from api.http.schemas.base import Answer, JobText, Rfc3339


class TroubleOut(Answer):
    """Something wrong that RAS tells of."""

    kind: str = Field(description="`missing`, `dead`, `unresponsive`, `async_error`, `aborted` or `lagging`.")
    sentence: str
    ranks: list[int] = Field(description="Whom it touches, at most a few named.")
    rank_count: int = Field(description="How many it touches.")
    host: str | None = Field(description="Of the first of them.")
    pid: int | None = Field(description="Of the first of them.")
    operation: str | None
    behind_count: int | None = Field(description="For `lagging`: operations behind the furthest rank.")


class LaunchedOut(Answer):
    """How far ranks are with an operation."""

    furthest_count: int
    last_count: int


class CommunicatorOut(Answer):
    """One communicator: who takes part, who is missing, what was not recorded."""

    id: str = Field(description="`name:hash`.")
    job: JobText | None = Field(description="null when nothing tells; `job_reason` says why.")
    job_reason: str
    in_trouble: bool = Field(description="Ranks are missing, failed or behind.")
    rank_count: int = Field(description="Ranks it should have; 0 when not told.")
    host_count: int
    hosts: list[str] = Field(description="At most 64 of them.")
    recorded_ranks: int | None = Field(description="With a record of Inspector; null where that is not read.")
    missing_ranks: int | None = Field(description="RAS has no data of them; null where RAS was not asked.")
    failed_ranks: int | None = Field(description="They report an error or an abort; null where RAS was not asked.")
    launched: dict[str, LaunchedOut] = Field(description="By operation; empty where RAS was not asked.")
    missed_count: int = Field(description="Operations that the sequence numbers tell of and no record describes.")
    missed: dict[str, int] = Field(description="The same by operation. Messages under 8 KiB never have a record.")
    troubles: list[TroubleOut]
    last_at: Rfc3339
    last_s: float = Field(description="Newest record or answer, Unix seconds.")
    sources: list[str]


class CollectivesOut(Answer):
    """Communicators, those in trouble first, then by job."""

    items: list[CommunicatorOut]
    next_cursor: str | None
    total: int
    in_trouble: int = Field(description="How many of all of them are in trouble.")
    unread: str = Field(description="Why nothing is known; empty when something is.")
