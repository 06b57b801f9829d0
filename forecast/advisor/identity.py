"""Ids of advice: the same advice made again has the same id."""

from __future__ import annotations

import hashlib

from telemetry.ids import JobId, LinkId


def advice_id(kind: str, job: JobId | None, link: LinkId | None, action: str) -> str:
    """Sixteen hex digits over kind, job, link and the action in coarse words."""
    text = "|".join((kind, str(job or ""), str(link or ""), action))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
