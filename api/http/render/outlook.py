"""Outlooks as API models."""

from __future__ import annotations

from api.http.render.base import absent, number, rfc3339
from api.http.schemas.base import Absent
from api.http.schemas.outlook import DemandOut, EndOut, StartOut
from api.outlook import Outlook
from forecast.predict.ends_types import DemandForecast, RemainingTime, StartTime
from forecast.predict.types import Absence
from telemetry.ids import JobId


def start(value: StartTime | Absence | None) -> StartOut | Absent:
    """When a waiting job starts."""
    if value is None:
        return Absent(
            why="no_data",
            reason="The queue was listed a moment ago and has not been replayed yet.",
            points_present=None,
            points_needed=None,
        )
    if isinstance(value, Absence):
        return absent(value)
    return StartOut(
        start_at=rfc3339(value.start_s),
        start_s=value.start_s,
        low_s=value.low_s,
        high_s=number(value.high_s),
        ahead_count=value.ahead_count,
        model=value.model,
        reason=value.reason,
    )


def ends(outlooks: dict[str, Outlook], most: int) -> list[EndOut]:
    """The running jobs that are expected to end first; those of which nothing can be said are left out."""
    found = [said for one in outlooks.values() for said in one.ends.values() if isinstance(said, RemainingTime)]
    return [_end(said) for said in sorted(found, key=lambda said: (said.point_s, str(said.job)))[:most]]


def demand(outlook: Outlook | None) -> list[DemandOut | Absent]:
    """The whole cluster first, then its partitions."""
    if outlook is None:
        return []
    return [_demand(one) for _, one in sorted(outlook.demand.items())]


def start_of(outlooks: dict[str, Outlook], source: str, job: JobId) -> StartTime | Absence | None:
    """What one scheduler's outlook says of a job."""
    outlook = outlooks.get(source)
    return None if outlook is None else outlook.starts.get(job)


def _end(said: RemainingTime) -> EndOut:
    return EndOut(
        id=str(said.job),
        age_s=said.age_s,
        remaining_s=said.point_s,
        low_s=said.low_s,
        high_s=said.high_s,
        limit_s=number(said.limit_s),
        coverage80=number(said.coverage80),
        model=said.model,
        reason=said.reason,
    )


def _demand(value: DemandForecast | Absence) -> DemandOut | Absent:
    if isinstance(value, Absence):
        return absent(value)
    return DemandOut(
        name=value.name,
        made_at_s=value.made_at_s,
        leads_s=list(value.leads_s),
        levels=list(value.levels),
        used=[[float(v) for v in row] for row in value.used_count.T],
        free=[[float(v) for v in row] for row in value.free_count.T],
        total=value.total_count,
        models=list(value.models),
        reason=value.reason,
    )
