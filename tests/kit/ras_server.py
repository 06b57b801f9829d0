"""A tiny NCCL RAS on loopback that answers with whatever a test tells it to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class RasServer:
    """What the server heard, and where it listens.

    Args:
        port: on 127.0.0.1.
    """

    def __init__(self) -> None:
        self.port = 0
        self.heard: list[str] = []


@asynccontextmanager
async def ras_server(
    answer: bytes = b"",
    *,
    greeting: bytes = b"SERVER PROTOCOL 3\n",
    delay_s: float = 0.0,
    endless: bytes = b"",
) -> AsyncIterator[RasServer]:
    """A server until the context ends; its greeting and its answer are the test's."""
    server = RasServer()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.CancelledError):
            try:
                while line := (await reader.readline()).decode().strip():
                    server.heard.append(line)
                    if line.startswith("CLIENT PROTOCOL"):
                        writer.write(greeting)
                    elif line.endswith("STATUS"):
                        await asyncio.sleep(delay_s)
                        writer.write(answer)
                        while endless:
                            writer.write(endless)
                            await writer.drain()
                            await asyncio.sleep(0.001)  # drain alone gives way only when buffers are full
                        break
                    else:
                        writer.write(b"OK\n")
                    await writer.drain()
                await writer.drain()
            finally:
                writer.close()

    listening = await asyncio.start_server(talk, "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
