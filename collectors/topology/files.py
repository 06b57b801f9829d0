"""Topology sources as files and addresses; each is read again only when it changed."""

from __future__ import annotations

import http.client
import re
import urllib.error
import urllib.request
from pathlib import Path

from collectors.aside import call_aside
from collectors.topology.reading import MAX_BYTES
from telemetry.errors import BadReply, SourceUnreachable

_ADDRESS = ("http://", "https://")
_Mark = tuple[int, int, int]


def named_source(text: str) -> tuple[str, str]:
    """The address, and the host that it is about; a file whose own name has an equals sign is taken as it is."""
    source, equals, host = text.rpartition("=")
    if not equals or "?" in source or not re.fullmatch(r"[\w.-]+", host) or Path(text).exists():
        return text, ""
    return source, host


class ChangedFile:
    """A file or address, read beside the loop.

    Args:
        source: path, or http address.
        timeout_s: for an address.
    """

    def __init__(self, source: str, timeout_s: float) -> None:
        self._source = source
        self._timeout_s = timeout_s
        self._mark: _Mark | None = None

    async def __call__(self) -> bytes | None:
        """The whole content; None for a file that did not change since the content that was given last.

        Raises:
            SourceUnreachable: it cannot be read.
            BadReply: it is too large.
        """
        if self._source.startswith(_ADDRESS):
            return await call_aside(self._asked)
        # Whoever waits no longer gets no content, which is then still to be given: the mark stays off until it is here.
        known, self._mark = self._mark, None
        data, self._mark = await call_aside(self._read, known)
        return data

    def _read(self, known: _Mark | None) -> tuple[bytes | None, _Mark]:
        path = Path(self._source)
        try:
            state = path.stat()
            mark = (state.st_mtime_ns, state.st_size, state.st_ino)
            if mark == known:
                return None, mark
            with path.open("rb") as file:
                data = file.read(MAX_BYTES + 1)
        except (OSError, ValueError) as error:
            why = f"cannot be read: {getattr(error, 'strerror', None) or error}"
            raise SourceUnreachable(self._source, why, mend="Check the path in topology.sources") from error
        return self._bounded(data), mark

    def _asked(self) -> bytes:
        try:
            with urllib.request.urlopen(self._source, timeout=self._timeout_s) as reply:
                return self._bounded(reply.read(MAX_BYTES + 1))
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise SourceUnreachable(self._source, f"no answer ({getattr(error, 'reason', error)})") from error

    def _bounded(self, data: bytes) -> bytes:
        if len(data) > MAX_BYTES:
            raise BadReply(self._source, f"larger than {MAX_BYTES // 2**20} MiB")
        return data
