"""Errors as problem documents."""

from __future__ import annotations

import logging

import pytest
from starlette.exceptions import HTTPException

from api.http.app import create_app
from api.http.problems import problem_of, unknown
from api.reads import AdviceRecord
from forecast.predict.types import JobForecast
from telemetry.errors import (
    AdviceError,
    BackendConflict,
    BackendRefused,
    BackendUnreachable,
    GpucastError,
    ModelError,
    StoreError,
)
from tests.kit.fake_reads import FakeReads
from tests.kit.http_client import call, get


@pytest.mark.parametrize(
    ("error", "status", "slug"),
    [
        (AdviceError("no"), 409, "advice-conflict"),
        (BackendConflict("no"), 409, "backend-conflict"),
        (BackendRefused("no"), 409, "backend-refused"),
        (BackendUnreachable("no"), 502, "backend-unreachable"),
        (StoreError("no"), 503, "store-unavailable"),
        (ModelError("no"), 500, "service-error"),
        (HTTPException(404), 404, "no-such-route"),
        (HTTPException(418, "teapot"), 418, "http-error"),
        (ValueError("secret path /etc"), 500, "internal-error"),
    ],
)
def test_each_error_has_its_status_and_slug(error: Exception, status: int, slug: str) -> None:
    """One translation, in one place."""
    problem = problem_of(error)
    assert (problem.status, problem.slug) == (status, slug)


def test_an_unforeseen_fault_tells_no_internals() -> None:
    """The log has them, the reply does not."""
    assert "secret" not in problem_of(ValueError("secret path /etc")).detail


def test_an_unknown_id_names_the_nearest_known_ones() -> None:
    """A typing error is mended at a glance."""
    problem = unknown("job", "slurm:8123", ["kubernetes:a:b", "slurm:81234"])
    assert problem.status == 404
    assert problem.extra["known"] == ["slurm:81234"]
    assert unknown("job", "x", []).detail == "There is no job 'x'. No job is known yet."


class BrokenReads(FakeReads):
    """A service that fails in two ways."""

    def jobs(self) -> list[JobForecast]:
        """Fail as a fault in the code does."""
        raise ZeroDivisionError("inner detail")

    def decide(self, advice_id: str, verb: str) -> AdviceRecord:
        """Fail as a scheduler that does not answer."""
        raise BackendUnreachable("the Kubernetes API at 10.0.0.1 gave no answer", mend="Check the network")

    def advice(self) -> list[AdviceRecord]:
        """Fail as the service says on purpose."""
        raise GpucastError("the ledger is closed")


def test_a_fault_inside_the_service_is_a_500_problem_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The caller gets a document, the operator the traceback."""
    with caplog.at_level(logging.ERROR, logger="gpucast.http"):
        reply = get(create_app(BrokenReads()), "/v1/jobs")
    assert (reply.status_code, reply.headers["content-type"]) == (500, "application/problem+json")
    assert "inner detail" not in reply.text
    assert "inner detail" in caplog.text
    assert reply.headers["x-content-type-options"] == "nosniff"


def test_errors_raised_on_purpose_keep_their_sentence() -> None:
    """They name the thing and the mend."""
    app = create_app(BrokenReads())
    reply = call(app, "POST", "/v1/advice/a1f03c:approve")
    assert (reply.status_code, reply.json()["detail"]) == (
        502,
        "the Kubernetes API at 10.0.0.1 gave no answer. Check the network",
    )
    assert get(app, "/v1/advice").json()["detail"] == "the ledger is closed"
