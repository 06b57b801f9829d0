"""One kept connection to one exporter that answers plainly, at a fraction of what a general HTTP client costs.

At 1,250 pages a second the general client is what a reader spends most on. This one reads ``200`` replies of a known
length or in chunks, whole or gzipped, and gives anything else up: the caller then asks again by the general client.
"""

from __future__ import annotations

import asyncio
import threading
import zlib
from typing import cast
from urllib.parse import urlsplit

_MOST_HEAD_BYTES = 65_536
_MOST_CHUNK_LINE = 1024
_READ_BYTES = 262_144
_END = b"\r\n\r\n"
_HEX = frozenset(b"0123456789abcdefABCDEF")


class NotPlain(Exception):
    """The reply needs the general client.

    Args:
        for_good: True when the next one will need it too.
    """

    def __init__(self, why: str, *, for_good: bool = False) -> None:
        super().__init__(why)
        self.for_good = for_good


class _Landing(threading.local):
    """Where a loop's connections read into, one after the other; a place of its own for each thread.

    A fresh place for each reading would cost more than the reading: the kernel has to find and clear its memory.
    """

    def __init__(self) -> None:
        self.place = bytearray(_READ_BYTES)


_landing = _Landing()


class PlainConnection(asyncio.BufferedProtocol):
    """Reads one page again and again. One request at a time.

    Args:
        url: ``http://`` without user and password.
        accept: value of the header ``Accept``.
        max_bytes: of the page, after decompression.
    """

    def __init__(self, url: str, accept: str, max_bytes: int) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port or 80
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        head = f"GET {target} HTTP/1.1\r\nHost: {parts.netloc}\r\nAccept: {accept}\r\nAccept-Encoding: gzip\r\n\r\n"
        self._request = head.encode("ascii")
        self._max_bytes = max_bytes
        self._transport: asyncio.Transport | None = None
        self._page: asyncio.Future[bytes] | None = None
        self._reply = _Reply(max_bytes)

    @staticmethod
    def suits(url: str) -> bool:
        """Whether an address may be read this way at all."""
        parts = urlsplit(url)
        return (
            parts.scheme == "http"
            and "@" not in parts.netloc
            and url.isascii()
            and url.isprintable()
            and " " not in url
        )

    async def get(self, timeout_s: float) -> bytes:
        """The page.

        Raises:
            NotPlain: no usable reply by this way.
            TimeoutError: none in time.
        """
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        timer = None
        try:
            if self._transport is None or self._transport.is_closing():
                async with asyncio.timeout_at(deadline_s):
                    await loop.create_connection(lambda: self, self._host, self._port)
            assert self._transport is not None
            self._reply = _Reply(self._max_bytes)
            self._page = loop.create_future()
            # A timer of its own instead of asyncio.timeout: half the cost of it, at thousands of replies a second.
            timer = loop.call_at(deadline_s, self._too_late)
            self._transport.write(self._request)
            return await self._page
        except OSError as dead:
            self.close()
            if isinstance(dead, TimeoutError):
                raise
            raise NotPlain(str(dead)) from dead
        except BaseException:
            self.close()  # what still comes must not be taken for the next reply
            raise
        finally:
            self._page = None
            if timer is not None:
                timer.cancel()

    def _too_late(self) -> None:
        if self._page is not None and not self._page.done():
            self._page.set_exception(TimeoutError())

    def close(self) -> None:
        """Drop the connection; ``get`` opens another."""
        if self._transport is not None:
            self._transport.abort()
            self._transport = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        # Not asked by its class: other event loops' transports have classes of their own.
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop."""
        self._transport = None
        if self._page is not None and not self._page.done():
            self._page.set_exception(NotPlain(f"the connection broke: {exc or 'closed'}"))

    def get_buffer(self, sizehint: int) -> bytearray:
        """Called by the loop, which reads into this and calls ``buffer_updated`` before it does anything else."""
        del sizehint
        return _landing.place

    def buffer_updated(self, nbytes: int) -> None:
        """Called by the loop."""
        if self._page is None or self._page.done():
            self.close()  # nobody asked
            return
        try:
            page = self._reply.feed(_landing.place, nbytes)
        except NotPlain as other:
            self._page.set_exception(other)
        else:
            if page is not None:
                self._page.set_result(page)


class _Reply:
    """One reply on its way in. Every byte is looked at a bounded number of times, however it is cut up."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._got = bytearray()
        self._body_at = 0
        self._length = -1
        """Of the body; -1 when it comes in chunks."""
        self._chunk_at = 0
        self._chunks: list[bytes] = []
        self._gzipped = False

    def feed(self, data: bytes | bytearray, size: int | None = None) -> bytes | None:
        """The page once it is whole.

        Args:
            data: the next bytes of the reply.
            size: how many of them; all when None.
        """
        size = len(data) if size is None else size
        if not self._got:
            end = data.find(_END, 0, size)
            if end >= 0:
                self._body_at = self._chunk_at = end + len(_END)
                self._read_head(bytes(memoryview(data)[:end]))
                if 0 <= self._length == size - self._body_at:  # nearly always it comes in one piece
                    return self._unpacked(bytes(memoryview(data)[self._body_at : size]))
        looked_at = max(len(self._got) - len(_END), 0)
        self._got += memoryview(data)[:size]
        if len(self._got) > 2 * self._max_bytes + _MOST_HEAD_BYTES:
            raise NotPlain("too large")
        if not self._body_at:
            end = self._got.find(_END, looked_at)
            if end < 0:
                if len(self._got) > _MOST_HEAD_BYTES:
                    raise NotPlain("the head does not end")
                return None
            self._body_at = self._chunk_at = end + len(_END)
            self._read_head(bytes(self._got[:end]))
        return self._of_length() if self._length >= 0 else self._of_chunks()

    def _read_head(self, head: bytes) -> None:
        status, *lines = head.split(b"\r\n")
        if not status.startswith(b"HTTP/1.1 200"):
            raise NotPlain(status[:60].decode("latin-1"))
        headers: dict[bytes, bytes] = {}
        for line in lines:
            name, _, value = line.partition(b":")
            name = name.lower()
            if name in headers and name in (b"content-length", b"transfer-encoding", b"content-encoding"):
                raise NotPlain("a header comes twice")
            headers[name] = value.strip().lower()
        if b"close" in headers.get(b"connection", b""):
            raise NotPlain("closes after each reply", for_good=True)
        if headers.get(b"content-type", b"").startswith((b"text/html", b"application/json")):
            raise NotPlain("no metrics page")
        self._gzipped = headers.get(b"content-encoding") == b"gzip"
        if not self._gzipped and headers.get(b"content-encoding", b"identity") != b"identity":
            raise NotPlain("packed in another way", for_good=True)
        length, coding = headers.get(b"content-length"), headers.get(b"transfer-encoding")
        if coding == b"chunked" and length is None:
            return
        if coding is not None or length is None or not length.isdigit() or len(length) > 12:
            raise NotPlain("its length is not told", for_good=True)
        self._length = int(length)
        if self._length > self._max_bytes:
            raise NotPlain("too large")

    def _of_length(self) -> bytes | None:
        size = len(self._got) - self._body_at
        if size < self._length:
            return None
        if size > self._length:
            raise NotPlain("more came than was told")
        return self._unpacked(bytes(memoryview(self._got)[self._body_at :]))

    def _of_chunks(self) -> bytes | None:
        while True:
            line_end = self._got.find(b"\r\n", self._chunk_at, self._chunk_at + _MOST_CHUNK_LINE)
            if line_end < 0:
                if len(self._got) - self._chunk_at >= _MOST_CHUNK_LINE:
                    raise NotPlain("a chunk without a length")
                return None
            digits = bytes(self._got[self._chunk_at : line_end]).split(b";")[0].strip()
            if not digits or len(digits) > 8 or not _HEX.issuperset(digits):
                raise NotPlain("a chunk without a length")
            size, start = int(digits, 16), line_end + 2
            if len(self._got) < start + size + 2:
                return None
            if self._got[start + size : start + size + 2] != b"\r\n":
                raise NotPlain("a chunk of another length")
            if size == 0:
                if len(self._got) != start + 2:
                    raise NotPlain("more came after the last chunk")
                return self._unpacked(b"".join(self._chunks))
            self._chunks.append(bytes(self._got[start : start + size]))
            self._chunk_at = start + size + 2

    def _unpacked(self, body: bytes) -> bytes:
        if self._gzipped:
            unpack = zlib.decompressobj(wbits=31)
            try:
                body = unpack.decompress(body, self._max_bytes + 1)
            except zlib.error as bad:
                raise NotPlain(str(bad)) from bad
            if not unpack.eof and len(body) <= self._max_bytes:
                raise NotPlain("the packed page is cut")
            if unpack.unused_data:
                raise NotPlain("the packed page has a second part", for_good=True)
        if len(body) > self._max_bytes:
            raise NotPlain("too large")
        return body
