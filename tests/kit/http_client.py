"""A synchronous client of an ASGI app, without sockets."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
from fastapi import FastAPI


def call(app: FastAPI, method: str, path: str, *, base_url: str = "http://127.0.0.1", **options: Any) -> httpx.Response:
    """One request; a failure inside the app becomes the reply a real caller would see."""

    async def go() -> httpx.Response:
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url=base_url) as client:
            return await client.request(method, path, **options)

    return asyncio.run(go())


def get(app: FastAPI, path: str, **options: Any) -> httpx.Response:
    """One GET."""
    return call(app, "GET", path, **options)
