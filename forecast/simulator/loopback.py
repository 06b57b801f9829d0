"""An aiohttp application on a port of this machine, for as long as a context lasts."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from telemetry.errors import ConfigError

LOOPBACK = "127.0.0.1"
ACCEPTED_WITHIN_S = 0.05


@asynccontextmanager
async def listen(app: web.Application, *, port: int, what: str, host: str = LOOPBACK) -> AsyncIterator[int]:
    """Serve ``app``; the value is the port bound, which matters when 0 was asked for.

    Args:
        app: routes.
        port: TCP port, 0 for any free one.
        what: what is served, for the error's sentence.
        host: address to bind; loopback unless somebody insists.

    Raises:
        ConfigError: the port is out of range, taken, or not allowed.
    """
    if not 0 <= port <= 65535:
        raise ConfigError(f"port {port} for {what} is not between 0 and 65535")
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)
    await runner.setup()
    try:
        opened = web.TCPSite(runner, host, port)
        try:
            await opened.start()
        except OSError as error:
            raise ConfigError(_bind_failure(error, host, port, what), mend="Choose another --port") from error
        yield int(runner.addresses[0][1])
    finally:
        for site in list(runner.sites):
            await site.stop()
        # A connection that is being accepted just now becomes known to the runner a moment later, and is closed with it.
        await asyncio.sleep(ACCEPTED_WITHIN_S)
        await runner.cleanup()


def _bind_failure(error: OSError, host: str, port: int, what: str) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"{host}:{port} for {what} is in use"
    if error.errno == errno.EACCES:
        return f"{host}:{port} for {what} is not allowed for this user"
    return f"{host}:{port} for {what} cannot be opened: {error.strerror or error}"
