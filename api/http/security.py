"""Guards in front of every route: Host and Origin checks, body cap, security headers."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.http.headers import SECURITY_HEADERS
from api.http.problems import Problem, problem_response

_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


def host_name(authority: str) -> str:
    """The host in ``host[:port]``, lower case, brackets of IPv6 removed; empty when there is none."""
    return (urlsplit(f"//{authority}").hostname or "") if authority else ""


class GuardMiddleware:
    """Refuses foreign hosts, cross-site writes and large bodies; adds the security headers.

    A page on another site can reach a loopback service by rebinding its own name to 127.0.0.1: its requests then
    carry that name in ``Host``. A cross-site form or fetch carries a foreign ``Origin``.

    Args:
        app: what to guard.
        allowed_hosts: names accepted in ``Host``; None accepts any.
        max_body_bytes: largest request body.
        larger: path -> largest body there, where it is another.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        allowed_hosts: frozenset[str] | None,
        max_body_bytes: int,
        larger: Mapping[str, int] | None = None,
    ) -> None:
        self.app = app
        self.allowed_hosts = allowed_hosts
        self.max_body_bytes = max_body_bytes
        self.larger = dict(larger or {})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Guard one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        limit = self.larger.get(str(scope["path"]), self.max_body_bytes)
        refusal = self._refusal(str(scope["method"]), headers, limit)
        if refusal:
            status, slug, detail = refusal
            await problem_response(Problem(status, slug, detail), str(scope["path"]))(scope, receive, send)
            return
        await self.app(scope, _capped(receive, limit), _with_headers(send))

    def _refusal(self, method: str, headers: Headers, limit: int) -> tuple[int, str, str] | None:
        host = headers.get("host", "")
        if self.allowed_hosts is not None and _host_or_empty(host) not in self.allowed_hosts:
            mend = "Use http://127.0.0.1 or http://localhost, or add the name to the allowed hosts."
            return 421, "foreign-host", f"This service does not answer for the host {host[:200]!r}. {mend}"
        origin = headers.get("origin")
        if method not in _SAFE_METHODS and origin is not None and urlsplit(origin).netloc != host:
            return 403, "foreign-origin", "A page of another site may not change anything here."
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > limit:
            return 413, "body-too-large", _too_large(limit)
        return None


def _too_large(limit: int) -> str:
    return f"The body is larger than {limit} bytes, the most this service reads here."


def _capped(receive: Receive, limit: int) -> Receive:
    """A body without a declared length is counted as it arrives."""
    seen = 0

    async def capped() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > limit:
            # The framework passes its own exception through while it reads a body; others become a 400.
            raise HTTPException(413, _too_large(limit))
        return message

    return capped


def _host_or_empty(authority: str) -> str:
    try:
        return host_name(authority)
    except ValueError:
        return ""


def _with_headers(send: Send) -> Send:
    async def wrapped(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in SECURITY_HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return wrapped
