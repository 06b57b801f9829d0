"""A tiny HTTP server on loopback that gives out whatever a test tells it to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serve(handler: Handler) -> AsyncIterator[str]:
    """The server's base URL while it runs; every path goes to ``handler``."""

    async def route(request: web.Request) -> web.StreamResponse:
        return await handler(request)

    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", route)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    try:
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


def text_page(body: bytes, *, status: int = 200, content_type: str = "text/plain") -> Handler:
    """Always the same page."""

    async def handler(request: web.Request) -> web.StreamResponse:
        return web.Response(body=body, status=status, content_type=content_type)

    return handler


def slow_page(delay_s: float, body: bytes = b"") -> Handler:
    """A page that comes late."""

    async def handler(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(delay_s)
        return web.Response(body=body)

    return handler


def endless_page(line: bytes) -> Handler:
    """A page without an end."""

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(line * 1000)
        except (ConnectionError, asyncio.CancelledError):
            return response

    return handler


def broken_page(body: bytes) -> Handler:
    """A page whose connection breaks after ``body``, before the promised length."""

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": str(len(body) + 500)})
        await response.prepare(request)
        await response.write(body)
        assert request.transport is not None
        request.transport.close()
        return response

    return handler
