"""The cheap way to read pages: the same pages as the general client gives, or none."""

from __future__ import annotations

import asyncio
import gzip
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.plain_http import NotPlain, PlainConnection, _Reply
from collectors.scrape import ExporterCollector
from telemetry.samples import Problem, Window

PAGE = b'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-b0000000-0000-4000-8000-000000000000",hostname="n1"} 42\n'
HEAD = b"HTTP/1.1 200 OK\r\n"


def whole(page: bytes, extra: bytes = b"") -> bytes:
    return HEAD + extra + b"Content-Length: %d\r\n\r\n" % len(page) + page


def chunked(page: bytes, size: int, extra: bytes = b"") -> bytes:
    parts = [page[i : i + size] for i in range(0, len(page), size)]
    body = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)
    return HEAD + extra + b"Transfer-Encoding: chunked\r\n\r\n" + body + b"0\r\n\r\n"


PACKED = gzip.compress(PAGE, mtime=0)
GZIP = b"Content-Encoding: gzip\r\n"
GOOD = [whole(PAGE), chunked(PAGE, 7), whole(PACKED, GZIP), chunked(PACKED, 11, GZIP)]


@pytest.mark.parametrize("reply", GOOD)
@given(cuts=st.lists(st.integers(0, 300), max_size=12))
def test_however_a_reply_is_cut_up_it_gives_the_page_with_its_last_byte(reply, cuts):
    edges = sorted({0, len(reply), *(cut for cut in cuts if cut < len(reply))})
    reading = _Reply(1000)
    found = [reading.feed(reply[a:b]) for a, b in pairwise(edges)]
    assert found[-1] == PAGE
    assert not any(found[:-1])


@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 302 Found\r\nLocation: /x\r\n\r\n",
        b"HTTP/1.0 200 OK\r\n\r\n",
        whole(PAGE, b"Connection: close\r\n"),
        whole(PAGE, b"Content-Type: text/html\r\n"),
        whole(PAGE, b"Content-Encoding: br\r\n"),
        whole(PAGE, b"Content-Length: 3\r\n"),
        whole(PAGE, b"Transfer-Encoding: chunked\r\n"),
        whole(PAGE) + b"x",
        whole(b"x" * 1001),
        whole(gzip.compress(b"x" * 1001, mtime=0), GZIP),
        whole(PACKED[:-9], GZIP),
        whole(PACKED + PACKED, GZIP),
        whole(b"no gzip", GZIP),
        HEAD + b"\r\n",
        HEAD + b"Content-Length: -1\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n",
        HEAD + b"x" * 70_000,
    ],
)
def test_a_reply_that_is_not_plain_is_given_up(reply):
    with pytest.raises(NotPlain):
        _Reply(1000).feed(reply)


@given(st.binary(max_size=400))
def test_no_bytes_break_the_reader(data):
    for start in (b"", HEAD, HEAD + b"Transfer-Encoding: chunked\r\n\r\n"):
        try:
            _Reply(1000).feed(start + data)
        except NotPlain:
            continue


@pytest.mark.parametrize(
    ("url", "suits"),
    [
        ("http://10.0.0.1:9400/metrics", True),
        ("http://n1/metrics?a=b", True),
        ("https://n1/metrics", False),
        ("http://user:secret@n1/metrics", False),
        ("http://n1/a\r\nX: y", False),
    ],
)
def test_only_plain_addresses_without_passwords_are_read_so(url, suits):
    assert PlainConnection.suits(url) is suits


class _Server:
    """Answers each request with the next of its replies; None hangs, b"" closes."""

    def __init__(self, replies: list[bytes | None]) -> None:
        self.replies = replies
        self.heads: list[bytes] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                self.heads.append(await reader.readuntil(b"\r\n\r\n"))
                reply = self.replies.pop(0)
                if reply is None:
                    await asyncio.sleep(3600)
                elif not reply:
                    return
                else:
                    writer.write(reply)
                    await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()


async def _collect(replies: list[bytes | None], times: int, timeout_s: float = 5.0):
    server = _Server(replies)
    listening = await asyncio.start_server(server, "127.0.0.1", 0)
    collector = ExporterCollector(
        f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/metrics", timeout_s=timeout_s
    )
    try:
        batches = [await collector.collect(Window(t, t)) for t in (100.0 + 10.0 * i for i in range(times))]
    finally:
        await collector.close()
        listening.close()
    return batches, server


def _page(value: int) -> bytes:
    return PAGE.replace(b" 42", b" %d" % value)


async def _values(replies: list[bytes | None], times: int) -> tuple[list[float], _Server]:
    batches, server = await _collect(replies, times)
    return [round(float(batch.value[0]), 6) for batch in batches], server


@pytest.mark.asyncio
async def test_later_pages_are_the_ones_that_the_server_shows_then():
    replies = [whole(_page(1)), chunked(_page(2), 9), whole(gzip.compress(_page(3)), GZIP), whole(_page(4))]
    values, server = await _values(replies, 4)
    assert values == [0.01, 0.02, 0.03, 0.04]
    assert not any(b"aiohttp" in head for head in server.heads[1:])


@pytest.mark.asyncio
async def test_a_kept_connection_that_the_server_closed_costs_no_reading():
    values, _ = await _values([whole(_page(1)), whole(_page(2)), b"", whole(_page(3)), whole(_page(4))], 4)
    assert values == [0.01, 0.02, 0.03, 0.04]


@pytest.mark.asyncio
async def test_a_server_that_closes_each_time_is_read_by_the_general_client():
    closing = [whole(_page(n), b"Connection: close\r\n") for n in (1, 2, 2, 3)]
    values, server = await _values(closing, 3)
    assert values == [0.01, 0.02, 0.03]
    assert b"aiohttp" in server.heads[-1]


@pytest.mark.asyncio
async def test_a_status_other_than_200_is_told_as_ever():
    refused = b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"
    batches, _ = await _collect([whole(PAGE), refused, refused], 2)
    assert [finding.problem for finding in batches[1].findings] == [Problem.HTTP_STATUS]
    assert "503" in batches[1].findings[0].detail


@pytest.mark.asyncio
async def test_a_late_reply_is_never_taken_for_the_next_one():
    batches, _ = await _collect([whole(_page(1)), None, whole(_page(3))], 3, timeout_s=0.3)
    assert [finding.problem for finding in batches[1].findings] == [Problem.TIMEOUT]
    assert float(batches[2].value[0]) == pytest.approx(0.03)


class ForeignTransport:
    """A transport of another event loop: it does all that is asked of it and is of no class of asyncio's."""

    def __init__(self) -> None:
        self.sent = b""

    def write(self, data: bytes) -> None:
        self.sent += data

    def is_closing(self) -> bool:
        return False

    def abort(self) -> None:
        return


def test_a_transport_of_another_event_loop_serves_as_well():
    """Loops such as uvloop's bring transports that are no ``asyncio.Transport``."""

    async def read() -> tuple[bytes, bytes]:
        connection = PlainConnection("http://n1/metrics", "text/plain", 1000)
        transport = ForeignTransport()
        connection.connection_made(transport)
        reading = asyncio.create_task(connection.get(5.0))
        await asyncio.sleep(0)
        reply = whole(PAGE)
        connection.get_buffer(-1)[: len(reply)] = reply
        connection.buffer_updated(len(reply))
        return await reading, transport.sent

    page, sent = asyncio.run(read())
    assert page == PAGE
    assert sent.startswith(b"GET /metrics HTTP/1.1\r\n")


@given(st.lists(st.integers(1, 60), min_size=2, max_size=8))
def test_connections_share_where_they_read_into_and_not_what_they_read(sizes):
    """Replies that come in turns, piece by piece, give each connection its own page."""
    pages = [PAGE, PAGE.replace(b"42", b"17"), PAGE.replace(b"n1", b"n2")]

    async def read() -> list[bytes]:
        connections = [PlainConnection("http://n1/metrics", "text/plain", 1000) for _ in pages]
        for connection in connections:
            connection.connection_made(ForeignTransport())
        readings = [asyncio.create_task(connection.get(5.0)) for connection in connections]
        await asyncio.sleep(0)
        replies = [whole(page) for page in pages]
        for size in (*sizes, 1000):
            for place, connection in enumerate(connections):
                piece, replies[place] = replies[place][:size], replies[place][size:]
                if piece:
                    connection.get_buffer(-1)[: len(piece)] = piece
                    connection.buffer_updated(len(piece))
        return await asyncio.gather(*readings)

    assert asyncio.run(read()) == pages
