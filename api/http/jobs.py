"""Jobs: what they do, what they will do, what they did."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from api.http import render, schemas
from api.http.answers import answer, tagged
from api.http.dependencies import MaxPoints, ReadsDep, RenderedDep, WindowSeconds, errors
from api.http.paging import Cursor, Limit, page
from api.http.problems import unknown
from api.reads import Reads
from forecast.predict.types import Absence, JobForecast, Why
from telemetry.errors import SchemaError
from telemetry.ids import JobId

router = APIRouter(tags=["jobs"])
JobPath = Annotated[str, Path(max_length=512, description="`backend:name`, such as `kubernetes:team-a:train`.")]


def _job(reads: Reads, text: str) -> JobForecast:
    try:
        found = reads.job(JobId.parse(text))
    except SchemaError:
        found = None
    if found is None:
        raise unknown("job", text, (str(job.job) for job in reads.jobs()))
    return found


@router.get("/v1/jobs", response_model=schemas.JobList, responses=errors(422))
async def list_jobs(request: Request, reads: ReadsDep, limit: Limit = 100, cursor: Cursor = None) -> Response:
    """Every job in short, sorted by id."""
    jobs = reads.jobs()
    chosen, following = page(jobs, limit, cursor, lambda job: str(job.job))
    items = [render.job_summary(job, reads.record(job.job)) for job in chosen]
    return answer(request, schemas.JobList(items=items, next_cursor=following, total=len(jobs)))


# The routes with a tail come first: a job's id is matched as a path, since a site's names may hold a slash.
@router.get("/v1/jobs/{job_id:path}/forecast", response_model=schemas.JobForecastOut, responses=errors(404, 422))
async def job_forecast(
    request: Request,
    job_id: JobPath,
    reads: ReadsDep,
    rendered: RenderedDep,
    metric: Annotated[
        list[str] | None, Query(max_length=64, description="Only these metrics; repeat it for several. All without.")
    ] = None,
) -> Response:
    """Phase, period, next lull and quantile paths of one job."""
    found = _job(reads, job_id)
    key = f"job {found.job} {sorted(set(metric)) if metric else ''}"
    body, tag = rendered.get(key, found) or rendered.put(key, found, render.job_forecast(found, metric))
    return tagged(request, body, tag)


@router.get(
    "/v1/jobs/{job_id:path}/history",
    response_model=schemas.HistoryOut | schemas.Absent,
    responses=errors(404, 422),
)
async def job_history(
    request: Request,
    job_id: JobPath,
    reads: ReadsDep,
    metric: Annotated[str, Query(min_length=1, max_length=128, description="Catalogue name.")],
    window_s: WindowSeconds = 60.0,
    max_points: MaxPoints = 5000,
) -> Response:
    """Actual values of one metric of a job, on a grid."""
    found = _job(reads, job_id)
    values = reads.job_history(found.job, metric, window_s)
    if values is None:
        reason = f"{found.job} has no values of {metric} in the last {window_s:g} s"
        return answer(request, render.absent(Absence(Why.NO_DATA, reason)))
    return answer(request, render.history(str(found.job), values, max_points))


@router.get("/v1/jobs/{job_id:path}/phases", response_model=schemas.PhasesOut, responses=errors(404, 422))
async def job_phases(request: Request, job_id: JobPath, reads: ReadsDep) -> Response:
    """Past phases of a job, what it does now, and its next lull."""
    found = _job(reads, job_id)
    return answer(request, render.phases(found.job, reads.phases(found.job), found))


@router.get("/v1/jobs/{job_id:path}", response_model=schemas.JobSummary, responses=errors(404, 422))
async def job(request: Request, job_id: JobPath, reads: ReadsDep) -> Response:
    """One job in short."""
    found = _job(reads, job_id)
    return answer(request, render.job_summary(found, reads.record(found.job)))
