"""Guards in front of every route."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI, Request

from api.http.app import create_app
from api.http.problems import install_problem_handlers
from api.http.security import GuardMiddleware, host_name
from api.http.settings import HttpSettings
from tests.kit.fake_reads import FakeReads
from tests.kit.http_client import call, get


@pytest.fixture
def app() -> FastAPI:
    """The app over made-up data."""
    return create_app(FakeReads())


@pytest.mark.parametrize(
    ("authority", "expected"),
    [
        ("LocalHost:8470", "localhost"),
        ("[::1]:80", "::1"),
        ("127.0.0.1", "127.0.0.1"),
        ("", ""),
        ("evil.example:80", "evil.example"),
    ],
)
def test_the_host_is_read_without_port_and_case(authority: str, expected: str) -> None:
    """Brackets of IPv6 go too."""
    assert host_name(authority) == expected


@pytest.mark.parametrize("base", ["http://127.0.0.1:8470", "http://localhost", "http://[::1]:8470"])
def test_loopback_names_are_served(app: FastAPI, base: str) -> None:
    """Whatever the port."""
    assert get(app, "/v1/jobs", base_url=base).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "[::1", "localhost.evil.example:80", ""])
def test_a_rebound_name_is_refused(app: FastAPI, host: str) -> None:
    """A page of another site that points its own name at loopback reads nothing."""
    reply = get(app, "/v1/jobs", headers={"Host": host})
    assert reply.status_code == 421
    assert reply.headers["content-type"] == "application/problem+json"
    assert reply.json()["type"] == "urn:gpucast:problem:foreign-host"


def test_a_site_may_allow_other_names() -> None:
    """One more name, or any."""
    named = create_app(FakeReads(), settings=HttpSettings(allowed_hosts=frozenset({"gpucast.example"})))
    assert get(named, "/v1/jobs", base_url="http://gpucast.example:8470").status_code == 200
    anyone = create_app(FakeReads(), settings=HttpSettings(allowed_hosts=None))
    assert get(anyone, "/v1/jobs", base_url="http://whatever.example").status_code == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:9999"])
def test_another_site_may_not_post(app: FastAPI, origin: str) -> None:
    """A simple cross-site form would otherwise approve advice."""
    reply = call(app, "POST", "/v1/advice/a1f03c:approve", headers={"Origin": origin})
    assert (reply.status_code, reply.json()["type"]) == (403, "urn:gpucast:problem:foreign-origin")
    assert get(app, "/v1/advice/a1f03c").json()["status"] == "open"


def test_the_page_itself_may_post(app: FastAPI) -> None:
    """The origin equals the host."""
    reply = call(app, "POST", "/v1/advice/a1f03c:reject", headers={"Origin": "http://127.0.0.1"})
    assert (reply.status_code, reply.json()["status"]) == (200, "rejected")


@pytest.mark.parametrize("length", ["65537", "99999999999", "-1", "abc"])
def test_a_body_that_declares_too_much_is_refused_unread(app: FastAPI, length: str) -> None:
    """Also a length that is no number."""
    reply = call(app, "POST", "/v1/advice/a1f03c:reject", headers={"Content-Length": length})
    assert (reply.status_code, reply.json()["type"]) == (413, "urn:gpucast:problem:body-too-large")


def test_a_body_without_a_length_is_counted_as_it_arrives() -> None:
    """A chunked upload cannot fill the memory."""
    app = FastAPI()

    @app.post("/echo")
    async def echo(request: Request) -> int:
        return len(await request.body())

    install_problem_handlers(app)
    app.add_middleware(GuardMiddleware, allowed_hosts=None, max_body_bytes=100)

    async def chunks(count: int) -> AsyncIterator[bytes]:
        for _ in range(count):
            yield b"x" * 30

    async def post(count: int) -> httpx.Response:
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://any") as client:
            return await client.post("/echo", content=chunks(count))

    assert asyncio.run(post(3)).text == "90"
    refused = asyncio.run(post(4))
    assert (refused.status_code, refused.json()["type"]) == (413, "urn:gpucast:problem:body-too-large")


@pytest.mark.parametrize("path", ["/", "/static/app.js", "/v1/jobs", "/metrics", "/nope", "/-/ready", "/openapi.json"])
def test_every_reply_carries_the_security_headers(app: FastAPI, path: str) -> None:
    """Scripts and connections only from this origin, no sniffing, no framing."""
    headers = get(app, path).headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "script-src 'self'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
