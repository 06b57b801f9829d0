"""Blocking calls beside the loop, in threads that nobody has to wait for."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def call_aside(call: Callable[..., T], *arguments: object) -> T:
    """What the call gives back or raises; it runs in a daemon thread of its own.

    ``asyncio.to_thread`` uses threads that the interpreter waits for at its end: a server that does not answer would
    then hold up the stop of the service for the whole of its timeout. For reading only: whoever cancels this leaves
    the call running unobserved.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]

    def work() -> None:
        result: T | None = None
        failed: BaseException | None = None
        try:
            result = call(*arguments)
        except BaseException as error:
            failed = error
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(settle, result, failed)

    threading.Thread(target=work, name=f"aside {getattr(call, '__name__', 'call')}", daemon=True).start()
    return await done
