"""The HTTP contract: every route answers as described, every error is a problem document, the description is pinned."""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from jsonschema import Draft202012Validator

from api.http.app import create_app
from api.intake import Intake
from api.outlook import Outlook
from api.push import Push
from api.reads import AdviceRecord, History, WiringView
from collectors.nccl.standing import CommunicatorState
from forecast.predict.health.types import HealthReport
from forecast.predict.types import JobForecast, LinkForecast
from telemetry.ids import JobId, LinkId
from telemetry.roster import JobRecord, Roster
from telemetry.samples import SampleBatch
from telemetry.topology import Topology
from tests.kit.fake_reads import COARSE, HOT, IDLE, RHYTHMS, STALE, FakeReads
from tests.kit.http_client import call, get
from tests.kit.remote_write import v1

REPOSITORY = Path(__file__).resolve().parents[2]
GOLDEN = REPOSITORY / "tests" / "golden" / "openapi.json"
TRAIN = str(RHYTHMS[0].job)
GOOD: dict[str, str] = {
    "/v1/jobs": "/v1/jobs",
    "/v1/jobs/{job_id}": f"/v1/jobs/{TRAIN}",
    "/v1/jobs/{job_id}/forecast": f"/v1/jobs/{TRAIN}/forecast",
    "/v1/jobs/{job_id}/history": f"/v1/jobs/{TRAIN}/history?metric=gpu_power_watts",
    "/v1/jobs/{job_id}/phases": f"/v1/jobs/{TRAIN}/phases",
    "/v1/links": "/v1/links",
    "/v1/links/{link_id}": f"/v1/links/{HOT}",
    "/v1/links/{link_id}/congestion": f"/v1/links/{HOT}/congestion",
    "/v1/links/{link_id}/history": f"/v1/links/{HOT}/history",
    "/v1/queue": "/v1/queue",
    "/v1/collectives": "/v1/collectives",
    "/v1/findings": "/v1/findings",
    "/v1/topology": "/v1/topology?host=gpu-01",
    "/v1/advice": "/v1/advice",
    "/v1/advice/{advice_id}": "/v1/advice/a1f03c",
    "/v1/advice/{advice_id}:{verb}": "/v1/advice/a1f03c:approve",
    "/v1/intents:estimate": "/v1/intents:estimate",
    "/v1/accuracy": "/v1/accuracy",
    "/v1/models": "/v1/models",
    "/v1/health": "/v1/health",
    "/v1/plugins": "/v1/plugins",
    "/v1/telemetry/write": "/v1/telemetry/write",
    "/v1/steps": "/v1/steps",
    "/-/healthy": "/-/healthy",
    "/-/ready": "/-/ready",
    "/livez": "/livez",
    "/readyz": "/readyz",
    "/metrics": "/metrics",
}
SENT: dict[str, dict[str, Any]] = {
    "/v1/telemetry/write": {
        "content": v1(({"__name__": "up"}, [(1_796_074_200.0, 1.0)])),
        "headers": {"Content-Type": "application/x-protobuf", "Content-Encoding": "snappy"},
    },
    "/v1/steps": {"json": {"job": "slurm:7", "step": 1}},
    "/v1/intents:estimate": {"json": {"text": "a 10 B transformer on 64 H100"}},
}
"""What the good request of a route carries."""
WITHOUT_JSON = {"/metrics", "/v1/telemetry/write"}


class EmptyReads(FakeReads):
    """A service that has seen nothing yet."""

    def __init__(self) -> None:
        super().__init__(ready=False)

    def jobs(self) -> list[JobForecast]:
        """None."""
        return []

    def links(self) -> list[LinkForecast]:
        """None."""
        return []

    def advice(self) -> list[AdviceRecord]:
        """None."""
        return []

    def link_history(self, link: LinkId, window_s: float) -> History | None:
        """None."""
        return None

    def record(self, job: JobId) -> JobRecord | None:
        """None."""
        return None

    def rosters(self) -> tuple[Roster, ...]:
        """None."""
        return ()

    def outlooks(self) -> dict[str, Outlook]:
        """None."""
        return {}

    def wiring(self) -> WiringView:
        """Nothing is known."""
        return WiringView(Topology())

    def sickness(self) -> HealthReport:
        """Nothing was looked at."""
        return HealthReport()

    def collectives(self) -> tuple[CommunicatorState, ...]:
        """None."""
        return ()


@pytest.fixture
def app() -> FastAPI:
    """The app over made-up data."""
    reads = FakeReads()
    return create_app(reads, push=Push(StoredAtOnce(), reads.now))


class StoredAtOnce(Intake):
    """An intake without a store."""

    def __init__(self) -> None:
        pass

    async def keep(self, batches: Sequence[SampleBatch]) -> None:
        """Nothing fails here."""


def described(app: FastAPI) -> dict[str, dict[str, Any]]:
    """Paths of the OpenAPI document."""
    paths: dict[str, dict[str, Any]] = app.openapi()["paths"]
    return paths


def validator(app: FastAPI, path: str, status: str = "200", kind: str = "application/json") -> Draft202012Validator:
    """What the description says of one reply."""
    document = app.openapi()
    (operation,) = document["paths"][path].values()
    schema = operation["responses"][status]["content"][kind]["schema"]
    return Draft202012Validator({**schema, "components": document["components"]})


def ask(app: FastAPI, path: str) -> Any:
    """The good request of a route."""
    (method,) = described(app)[path]
    return call(app, method.upper(), GOOD[path], **SENT.get(path, {}))


def is_problem(reply: Any) -> bool:
    """Whether a reply is a whole problem document."""
    body = reply.json()
    return (
        reply.headers["content-type"] == "application/problem+json"
        and {"type", "title", "status", "detail", "instance"} <= set(body)
        and body["status"] == reply.status_code
        and body["type"].startswith("urn:gpucast:problem:")
        and len(body["detail"]) > 10
    )


def test_the_good_requests_cover_every_described_route(app: FastAPI) -> None:
    """A route added without a line here fails."""
    assert set(GOOD) == set(described(app))


@pytest.mark.parametrize("path", [path for path in GOOD if path not in WITHOUT_JSON])
def test_every_answer_is_as_described(app: FastAPI, path: str) -> None:
    """Nothing missing, nothing extra, no NaN."""
    reply = ask(app, path)
    assert reply.status_code == 200
    assert reply.headers["content-type"] == "application/json"
    assert "NaN" not in reply.text
    assert "Infinity" not in reply.text
    validator(app, path).validate(reply.json())


@pytest.mark.parametrize("job", [IDLE, COARSE, STALE, *(rhythm.job for rhythm in RHYTHMS)], ids=str)
def test_every_kind_of_job_is_answered_as_described(app: FastAPI, job: JobId) -> None:
    """With a forecast or with the reason why there is none, always 200."""
    for tail in ("", "/forecast", "/phases"):
        reply = get(app, f"/v1/jobs/{job}{tail}")
        assert reply.status_code == 200
        validator(app, "/v1/jobs/{job_id}" + tail).validate(reply.json())


def test_every_link_is_answered_as_described(app: FastAPI) -> None:
    """Also those without capacity or traffic."""
    for link in get(app, "/v1/links").json()["items"]:
        for tail in ("", "/congestion", "/history"):
            reply = get(app, f"/v1/links/{link['id']}{tail}")
            assert reply.status_code == 200
            validator(app, "/v1/links/{link_id}" + tail).validate(reply.json())


@pytest.mark.parametrize(("job", "why"), [(IDLE, "idle"), (COARSE, "sampling_too_coarse"), (STALE, "stale")], ids=str)
def test_no_forecast_is_an_answer_with_a_reason(app: FastAPI, job: JobId, why: str) -> None:
    """Status 200, a word for programs, a sentence for people."""
    period = get(app, f"/v1/jobs/{job}/forecast").json()["period"]
    assert (period["absent"], period["why"]) == (True, why)
    assert len(period["reason"].split()) > 5


def test_a_known_job_without_values_of_a_metric_gives_an_absence(app: FastAPI) -> None:
    """Not a 404: the job exists."""
    reply = get(app, f"/v1/jobs/{IDLE}/history?metric=gpu_power_watts")
    assert (reply.status_code, reply.json()["absent"], reply.json()["why"]) == (200, True, "no_data")


@pytest.mark.parametrize(
    "text", [TRAIN, TRAIN.replace(":", "%3A"), "%6Bubernetes:team-a:train-10b"], ids=["plain", "encoded", "odd"]
)
def test_ids_may_be_percent_encoded(app: FastAPI, text: str) -> None:
    """All spellings of one address are one job."""
    assert get(app, f"/v1/jobs/{text}/forecast").json()["id"] == TRAIN


def test_an_id_may_hold_a_slash() -> None:
    """Switch ports are called Eth1/49."""

    class SlashReads(FakeReads):
        def links(self) -> list[LinkForecast]:
            from dataclasses import replace

            return [replace(link, link=LinkId("sw-1", "Eth1/49", "leaf")) for link in super().links()[:1]]

    app = create_app(SlashReads())
    for text in ("sw-1:Eth1%2F49", "sw-1:Eth1/49"):
        assert get(app, f"/v1/links/{text}").json()["port"] == "Eth1/49"
        assert get(app, f"/v1/links/{text}/congestion").json()["id"] == "sw-1:Eth1/49"


def test_a_service_that_has_seen_nothing_answers_empty_lists_and_is_not_ready() -> None:
    """Empty is not an error; not ready is, and says why."""
    app = create_app(EmptyReads())
    for path in ("/v1/jobs", "/v1/links", "/v1/advice"):
        assert get(app, path).json() == {"items": [], "next_cursor": None, "total": 0}
    ready = get(app, "/-/ready")
    assert ready.status_code == 503
    assert is_problem(ready)
    assert len(ready.json()["reasons"]) == 2
    assert get(app, "/readyz").status_code == 503
    assert get(app, "/-/healthy").status_code == get(app, "/livez").status_code == 200
    assert get(app, "/metrics").status_code == 200


@pytest.mark.parametrize("path", ["/-/healthy", "/-/ready", "/livez", "/readyz"])
def test_probes_may_use_head(app: FastAPI, path: str) -> None:
    """As Prometheus' management API allows."""
    reply = call(app, "HEAD", path)
    assert reply.status_code == 200


def test_unknown_ids_are_404_and_name_what_is_near(app: FastAPI) -> None:
    """For each resource, and also for text that is no id at all."""
    for path, near in (
        ("/v1/jobs/kubernetes:team-a:train-10", TRAIN),
        ("/v1/jobs/nonsense", None),
        ("/v1/links/leaf-1:swp4", "leaf-1:swp49"),
        ("/v1/links/nonsense/history", None),
        ("/v1/advice/a1f03", "a1f03c"),
    ):
        reply = get(app, path)
        assert (reply.status_code, is_problem(reply)) == (404, True)
        assert near is None or near in reply.json()["known"]
    assert call(app, "POST", "/v1/advice/nope:approve").status_code == 404


@pytest.mark.parametrize(
    "path",
    [
        "/v1/jobs?limit=0",
        "/v1/jobs?limit=x",
        "/v1/jobs?limit=1001",
        "/v1/jobs?cursor=bad",
        "/v1/links?cursor=%00",
        f"/v1/jobs/{TRAIN}/history",
        f"/v1/jobs/{TRAIN}/history?metric=",
        f"/v1/jobs/{TRAIN}/history?metric=gpu_power_watts&window_s=-1",
        f"/v1/jobs/{TRAIN}/history?metric=gpu_power_watts&window_s=nan",
        f"/v1/jobs/{TRAIN}/history?metric=gpu_power_watts&window_s=1e12",
        f"/v1/links/{HOT}/history?max_points=0",
    ],
)
def test_a_wrong_parameter_is_a_422_that_names_it(app: FastAPI, path: str) -> None:
    """Never a 500, never a silent default."""
    reply = get(app, path)
    assert (reply.status_code, is_problem(reply)) == (422, True)
    name = re.findall(r"limit|cursor|metric|window_s|max_points", reply.json()["detail"])
    assert name


@pytest.mark.parametrize("path", sorted(GOOD))
def test_a_wrong_method_is_a_405_that_says_which_are_right(app: FastAPI, path: str) -> None:
    """With Allow, as HTTP asks."""
    reply = call(app, "PATCH", GOOD[path])
    assert (reply.status_code, is_problem(reply)) == (405, True)
    assert reply.headers["allow"]


def test_whatever_is_asked_the_answer_is_json_or_a_problem(app: FastAPI) -> None:
    """Seeded random methods, paths, queries and headers: nothing answers 5xx, nothing but problems answers 4xx."""
    dice = random.Random(20261130)
    pieces = [
        "v1",
        "jobs",
        "links",
        "advice",
        TRAIN,
        str(HOT),
        "forecast",
        "history",
        "..",
        "%00",
        "%2F",
        "é",
        "a1f03c:",
        ":",
    ]
    pieces += ["approve", "a" * 600, "{job_id}", "'", "static", "-", "ready", "metrics", "", "%F0%9F%98%80", "\\", "*"]
    queries = [
        "",
        "?limit=-5",
        "?metric=%00",
        "?window_s=inf",
        "?cursor=" + "A" * 2000,
        "?" + "&".join(["metric=x"] * 90),
    ]
    seen: set[int] = set()
    for _ in range(400):
        path = "/" + "/".join(dice.choices(pieces, k=dice.randint(1, 5))) + dice.choice(queries)
        headers = {"If-None-Match": dice.choice(['"', "*", ",,,", 'W/"x"']), "Accept": dice.choice(["*/*", "text/xml"])}
        method = dice.choice(["GET", "GET", "GET", "POST", "PUT", "DELETE", "OPTIONS"])
        reply = call(app, method, path, headers=headers, content=dice.choice([b"", b"\xff{", b"x" * 1000]))
        seen.add(reply.status_code)
        assert reply.status_code < 500, (method, path)
        assert reply.status_code < 400 or is_problem(reply), (method, path, reply.text)
    assert {200, 404, 405} <= seen


@pytest.mark.parametrize(
    "path",
    [p for p in GOOD if p.startswith("/v1") and p not in {"/v1/health", "/v1/advice/{advice_id}:{verb}", *SENT}],
)
def test_an_unchanged_answer_costs_a_304(app: FastAPI, path: str) -> None:
    """The same tag, no body; another tag, a body."""
    first = ask(app, path)
    tag = first.headers["etag"]
    assert first.headers["cache-control"] == "private, no-cache"
    again = get(app, GOOD[path], headers={"If-None-Match": tag})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert get(app, GOOD[path], headers={"If-None-Match": '"other"'}).content == first.content


def test_a_newer_forecast_has_another_tag() -> None:
    """A cached answer is never taken for a new one."""
    now = [1_796_074_200.0]
    app = create_app(FakeReads(lambda: now[0]))
    path = f"/v1/jobs/{TRAIN}/forecast"
    tag = get(app, path).headers["etag"]
    now[0] += 1.0
    newer = get(app, path, headers={"If-None-Match": tag})
    assert newer.status_code == 200
    assert newer.headers["etag"] != tag


def test_what_the_state_of_the_moment_is_is_never_stored(app: FastAPI) -> None:
    """Probes, health and metrics."""
    for path in ("/v1/health", "/-/healthy", "/-/ready", "/metrics"):
        assert get(app, path).headers["cache-control"] == "no-store"


def test_pages_of_a_list_give_each_thing_once(app: FastAPI) -> None:
    """Following next_cursor to its end."""
    seen: list[str] = []
    cursor = ""
    while True:
        reply = get(app, f"/v1/jobs?limit=2{cursor}").json()
        seen += [job["id"] for job in reply["items"]]
        if reply["next_cursor"] is None:
            break
        cursor = f"&cursor={reply['next_cursor']}"
    assert seen == [job["id"] for job in get(app, "/v1/jobs").json()["items"]]
    assert len(seen) == reply["total"] == 6


def test_a_forecast_may_be_asked_for_some_metrics_only(app: FastAPI) -> None:
    """The filter changes the answer and its tag, not the job."""
    whole = get(app, f"/v1/jobs/{TRAIN}/forecast")
    part = get(app, f"/v1/jobs/{TRAIN}/forecast?metric=gpu_power_watts")
    assert list(part.json()["metrics"]) == ["gpu_power_watts"]
    assert part.json()["metrics"]["gpu_power_watts"] == whole.json()["metrics"]["gpu_power_watts"]
    assert part.headers["etag"] != whole.headers["etag"]


def test_advice_is_decided_once(app: FastAPI) -> None:
    """The second word on the same advice is a conflict."""
    first = call(app, "POST", "/v1/advice/a1f03c:approve")
    assert (first.status_code, first.json()["status"]) == (200, "applied")
    second = call(app, "POST", "/v1/advice/a1f03c:reject")
    assert (second.status_code, is_problem(second)) == (409, True)
    assert call(app, "POST", "/v1/advice/a1f03c:explode").status_code == 422


def test_the_description_is_openapi_3_1_and_names_problems_as_the_only_errors(app: FastAPI) -> None:
    """No route describes an error of another shape."""
    document = get(app, "/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    for path, operations in document["paths"].items():
        for operation in operations.values():
            errors = {status: body for status, body in operation["responses"].items() if status not in ("200", "204")}
            assert "default" in errors, path
            assert all(list(body["content"]) == ["application/problem+json"] for body in errors.values()), path
    assert "HTTPValidationError" not in document["components"]["schemas"]


def test_the_description_is_the_pinned_one(app: FastAPI) -> None:
    """A change of the API is seen; refresh with GPUCAST_WRITE_GOLDEN=1 (docs/api.md)."""
    now = json.dumps(app.openapi(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    if os.environ.get("GPUCAST_WRITE_GOLDEN"):
        GOLDEN.write_text(now, encoding="utf-8")
    assert now == GOLDEN.read_text(encoding="utf-8"), (
        "the HTTP API changed. If that is meant, run: GPUCAST_WRITE_GOLDEN=1 pytest tests/contract/test_http_api.py"
    )


def _documented() -> dict[str, str]:
    """Route -> its example in docs/api.md."""
    text = (REPOSITORY / "docs" / "api.md").read_text(encoding="utf-8")
    parts = re.split(r"^### ", text, flags=re.MULTILINE)[1:]
    found: dict[str, str] = {}
    for part in parts:
        heading, _, body = part.partition("\n")
        example = re.search(r"```json\n(.*?)```", body, re.DOTALL)
        for route in re.findall(r"`(?:GET|POST) (\S+)`", heading):
            found[route] = example[1] if example else ""
    return found


def test_every_route_is_documented_with_an_example_that_is_as_described(app: FastAPI) -> None:
    """A field renamed in the code makes its example wrong."""
    documented = _documented()
    assert set(documented) == set(described(app))
    for path, example in documented.items():
        if path not in WITHOUT_JSON:
            validator(app, path).validate(json.loads(example))


def test_every_kind_of_problem_is_documented() -> None:
    """Programs branch on the type."""
    code = "".join(path.read_text(encoding="utf-8") for path in (REPOSITORY / "api" / "http").glob("*.py"))
    slugs = set(re.findall(r'(?:Problem\(\d+, |\d{3}, |4\d\d: )"([a-z]+(?:-[a-z]+)+)"', code))
    slugs |= {"unknown-job", "unknown-link", "unknown-advice"}
    text = (REPOSITORY / "docs" / "api.md").read_text(encoding="utf-8")
    assert len(slugs) > 10
    assert [slug for slug in sorted(slugs) if f"`{slug}`" not in text] == []
