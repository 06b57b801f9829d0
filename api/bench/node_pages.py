"""A process that serves the pages of many nodes on loopback, as cheaply as it can: a benchmark's other side."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import cast

_HOST_IN_PAGE = b"bench-01"
_UUID_IN_PAGE = b"GPU-b0000000-0000-"
_NODES_PER_ADDRESS = 250
_START_WAIT_S = 120.0


def addresses(n_nodes: int, port: int) -> list[str]:
    """One URL per node. Each node has a loopback address of its own, so that no two share a connection."""
    return [
        f"http://127.1.{node // _NODES_PER_ADDRESS}.{node % _NODES_PER_ADDRESS + 1}:{port}/{node}"
        for node in range(n_nodes)
    ]


def pages_of_node(pages: Sequence[bytes], node: int) -> list[bytes]:
    """The same numbers under another host name and other UUIDs."""
    host, uuid = b"node-%05d" % node, b"GPU-b%07x-0000-" % node
    return [page.replace(_HOST_IN_PAGE, host).replace(_UUID_IN_PAGE, uuid) for page in pages]


@contextmanager
def serving(pages: Sequence[bytes], n_nodes: int) -> Iterator[int]:
    """Serve ``n_nodes`` pages from a process of their own; gives the port. The next variant follows at each request.

    Args:
        pages: variants of one node's page, which differ in their values.
        n_nodes: how many nodes.
    """
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, list(pages), n_nodes), daemon=True)
    process.start()
    try:
        if not ours.poll(_START_WAIT_S):
            raise TimeoutError(f"the page server did not start within {_START_WAIT_S:.0f} s")
        yield int(ours.recv())
    finally:
        process.terminate()
        process.join()


def _serve(told: Connection, pages: list[bytes], n_nodes: int) -> None:
    asyncio.run(_serve_forever(told, pages, n_nodes))


async def _serve_forever(told: Connection, pages: list[bytes], n_nodes: int) -> None:
    replies = [[_reply(page) for page in pages_of_node(pages, node)] for node in range(n_nodes)]
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _PageProtocol(replies), "0.0.0.0", 0, backlog=4096)
    told.send(server.sockets[0].getsockname()[1])
    await server.serve_forever()


def _reply(page: bytes) -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {len(page)}\r\n\r\n"
    return head.encode() + page


class _PageProtocol(asyncio.Protocol):
    """HTTP/1.1 GET and keep-alive, no more."""

    def __init__(self, replies: list[list[bytes]]) -> None:
        self._replies = replies
        self._turn = 0
        self._request = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where to answer."""
        # Not asked by its class: other event loops' transports have classes of their own.
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Answer once the head of a request is whole."""
        self._request += data
        if not self._request.endswith(b"\r\n\r\n"):
            return
        path, self._request = self._request.split(b" ", 2)[1], b""
        variants = self._replies[int(path[1:])]
        self._turn += 1
        self._transport.write(variants[self._turn % len(variants)])
