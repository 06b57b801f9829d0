"""Topology sources as files and addresses; each is read again only when it changed."""

from __future__ import annotations

import http.client
import re
import urllib.error
import urllib.request
from pathlib import Path

from collectors.topology.reading import MAX_BYTES
from telemetry.errors import BadReply, SourceUnreachable

_ADDRESS = ("http://", "https://")


def named_source(text: str) -> tuple[str, str]:
    """The address, and the host that it is about; a file whose own name has an equals sign is taken as it is."""
    source, equals, host = text.rpartition("=")
    if not equals or "?" in source or not re.fullmatch(r"[\w.-]+", host) or Path(text).exists():
        return text, ""
    return source, host


class ChangedFile:
    """A file or address; blocks on the disk or the network.

    Args:
        source: path, or http address.
        timeout_s: for an address.
    """

    def __init__(self, source: str, timeout_s: float) -> None:
        self._source = source
        self._timeout_s = timeout_s
        self._mark: tuple[int, int, int] | None = None

    def __call__(self) -> bytes | None:
        """The whole content; None for a file that did not change since the last call.

        Raises:
            SourceUnreachable: it cannot be read.
            BadReply: it is too large.
        """
        return self._asked() if self._source.startswith(_ADDRESS) else self._read()

    def _read(self) -> bytes | None:
        path = Path(self._source)
        try:
            state = path.stat()
            mark = (state.st_mtime_ns, state.st_size, state.st_ino)
            if mark == self._mark:
                return None
            with path.open("rb") as file:
                data = file.read(MAX_BYTES + 1)
        except (OSError, ValueError) as error:
            self._mark = None
            why = f"cannot be read: {getattr(error, 'strerror', None) or error}"
            raise SourceUnreachable(self._source, why, mend="Check the path in topology.sources") from error
        self._mark = mark
        return self._bounded(data)

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
