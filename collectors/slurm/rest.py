"""Asking slurmrestd: two requests a reading, whatever the number of jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aiohttp

from collectors.address import shown_address
from collectors.aside import call_aside
from collectors.slurm.answers import errors_of, load_reply, read_jobs, read_nodes, warnings_of
from collectors.slurm.notes import Notes
from collectors.slurm.reading import Reading, ReadingFailed
from telemetry.errors import BadReply
from telemetry.samples import Problem

MIB = 2**20
VERSIONS = tuple(f"v0.0.{number}" for number in range(46, 36, -1))
"""Newest first; a slurmrestd serves several of them."""
_MAX_TOKEN_BYTES = 65_536


class SlurmRest:
    """Reads a cluster through slurmrestd.

    Args:
        url: its address, such as ``http://slurm-01:6820``.
        token_file: file with a token (``scontrol token``), read anew each time, since tokens expire; None sends none.
        user: whose token it is; empty leaves it to the token.
        version: such as ``v0.0.44``; empty takes the newest that the server has.
        timeout_s: for each request.
        max_bytes: of an answer, after decompression.
    """

    def __init__(
        self,
        url: str,
        token_file: Path | None = None,
        user: str = "",
        version: str = "",
        timeout_s: float = 10.0,
        max_bytes: int = 256 * MIB,
    ) -> None:
        self.name = shown_address(url.rstrip("/"))
        self._url = url.rstrip("/")
        self._token_file = token_file
        self._user = user
        self._wanted = version
        self._version = version
        self._timeout_s = timeout_s
        self._max_bytes = max_bytes
        self._session: aiohttp.ClientSession | None = None

    async def read(self) -> Reading:
        """Jobs and nodes as they are now.

        Raises:
            ReadingFailed: no answer, a refusal, or nothing that can be used.
        """
        notes = Notes()
        if not self._version:
            self._version = await self._newest()
        jobs = await self._get("jobs", notes)
        nodes = await self._get("nodes", notes)
        return Reading(await call_aside(read_jobs, jobs, notes), read_nodes(nodes, notes), notes)

    async def close(self) -> None:
        """Release the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _newest(self) -> str:
        for version in VERSIONS:
            status, _ = await self._ask(f"{self._url}/slurm/{version}/ping")
            if status not in (404, 405):
                return version
        tried = f"{VERSIONS[-1]} to {VERSIONS[0]}"
        raise ReadingFailed(Problem.HTTP_STATUS, f"serves no version of the API from {tried}; is this slurmrestd?")

    async def _get(self, what: str, notes: Notes) -> dict[str, Any]:
        status, body = await self._ask(f"{self._url}/slurm/{self._version}/{what}")
        if status in (401, 403):
            raise ReadingFailed(
                Problem.QUERY_ERROR, f"HTTP {status}: the token is missing, expired or not allowed to read"
            )
        if status == 404 and not self._wanted:
            self._version = ""  # the server was replaced by one of another version
        if not body.strip():
            raise ReadingFailed(Problem.EMPTY, f"HTTP {status} with an empty answer to {what}")
        try:
            document = await call_aside(load_reply, body, self.name)
        except BadReply as bad:
            sentence = bad.message.removeprefix(f"{self.name}: ")
            if status != 200:
                raise ReadingFailed(Problem.HTTP_STATUS, f"HTTP {status} to {what}: {sentence}") from bad
            problem = Problem.TORN if body.lstrip().startswith(b"{") else Problem.NOT_TEXT
            raise ReadingFailed(problem, sentence) from bad
        errors = errors_of(document)
        if status != 200 or not isinstance(document.get(what), list):
            hint = "; a token that expired looks like this too" if status == 500 and self._token_file else ""
            raise ReadingFailed(Problem.QUERY_ERROR, f"HTTP {status} to {what}: {'; '.join(errors) or 'no list'}{hint}")
        for text in (*errors, *warnings_of(document)):
            notes.add(f"slurmrestd says of {what}: {text}")
        return document

    async def _ask(self, url: str) -> tuple[int, bytes]:
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=self._timeout_s)
            self._session = aiohttp.ClientSession(timeout=timeout, headers={"Accept": "application/json"})
        headers = self._headers()
        try:
            async with self._session.get(url, headers=headers, allow_redirects=False) as reply:
                chunks, size = [], 0
                async for chunk in reply.content.iter_any():
                    size += len(chunk)
                    if size > self._max_bytes:
                        raise ReadingFailed(
                            Problem.TOO_LARGE, f"the answer is larger than {self._max_bytes / MIB:g} MiB"
                        )
                    chunks.append(chunk)
                return reply.status, b"".join(chunks)
        except TimeoutError as slow:
            raise ReadingFailed(Problem.TIMEOUT, f"no whole answer within {self._timeout_s:g} s") from slow
        except aiohttp.ClientPayloadError as broken:
            raise ReadingFailed(Problem.TORN, "the connection broke before the answer ended") from broken
        except (aiohttp.ClientError, OSError, ValueError) as dead:
            raise ReadingFailed(
                Problem.UNREACHABLE, f"cannot be reached: {str(dead).strip() or type(dead).__name__}"
            ) from dead

    def _headers(self) -> dict[str, str]:
        headers = {"X-SLURM-USER-NAME": self._user} if self._user else {}
        if self._token_file is None:
            return headers
        try:
            with self._token_file.open("rb") as file:
                text = file.read(_MAX_TOKEN_BYTES).decode("ascii").strip()
        except OSError as error:
            raise ReadingFailed(
                Problem.UNREACHABLE, f"cannot read the token file {self._token_file}: {error.strerror}"
            ) from error
        except UnicodeDecodeError as error:
            raise ReadingFailed(Problem.UNREACHABLE, f"the token file {self._token_file} holds no token") from error
        token = text.removeprefix("SLURM_JWT=")  # the way scontrol prints it
        if not token or any(not letter.isprintable() or letter.isspace() for letter in token):
            raise ReadingFailed(Problem.UNREACHABLE, f"the token file {self._token_file} holds no token")
        return headers | {"X-SLURM-USER-TOKEN": token}
