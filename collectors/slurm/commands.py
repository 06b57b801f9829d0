"""Asking Slurm by its command line tools: two calls a reading, whatever the number of jobs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, tzinfo

from collectors.aside import call_aside
from collectors.slurm.answers import errors_of, load_reply, read_jobs
from collectors.slurm.notes import Notes
from collectors.slurm.reading import Reading, ReadingFailed
from collectors.slurm.records import SlurmJob
from collectors.slurm.text import read_scontrol_jobs, read_scontrol_nodes
from telemetry.errors import BadReply
from telemetry.samples import Problem

MIB = 2**20
_STDERR_BYTES = 16_384
_END_S = 2.0
JOBS_JSON = ("squeue", "--all", "--json")
JOBS_TEXT = ("scontrol", "--all", "--detail", "show", "job")
NODES_TEXT = ("scontrol", "--all", "--detail", "show", "node")
"""Text for the nodes: the JSON of sinfo differs most between versions, and scontrol tells the GPUs in use in all of them."""
TOPOLOGY_TEXT = ("scontrol", "show", "topology")
_NO_JSON = ("unrecognized option", "invalid option", "unable to find plugin", "unable to load", "--json")
_REFUSED = ("permission denied", "access denied", "authentication", "unauthorized", "protocol authentication")
_NO_JOBS = "no jobs in the system"
_NO_NODES = "no nodes in the system"
_NO_TOPOLOGY = "no topology information"


class SlurmCommands:
    """Reads a cluster through ``squeue`` and ``scontrol``.

    ``squeue --json`` is asked first, since no text of a user can be taken for a field there; a version without it is asked
    for ``scontrol show job`` from then on.

    Args:
        timeout_s: for each call; the program is ended then. Slurm's own tools wait up to a minute for a controller.
        max_bytes: of what a program prints.
        environment: of the programs; this process's own when None.
        zone: of times without one, from versions that ignore ``SLURM_TIME_FORMAT``; this machine's when None.
    """

    name = "slurm"

    def __init__(
        self,
        timeout_s: float = 10.0,
        max_bytes: int = 256 * MIB,
        environment: Mapping[str, str] | None = None,
        zone: tzinfo | None = None,
    ) -> None:
        self._timeout_s = timeout_s
        self._max_bytes = max_bytes
        self._environment = environment
        self._zone = zone
        self._text_only = ""
        """Why JSON is not asked for; empty while it is."""

    async def read(self) -> Reading:
        """Jobs and nodes as they are now.

        Raises:
            ReadingFailed: a program is missing, too slow, refused, or printed nothing that can be used.
        """
        notes = Notes()
        jobs = await self._jobs(notes)
        body = await self._run(NODES_TEXT, _NO_NODES)
        nodes = read_scontrol_nodes(_text(body))
        if body.strip() and not nodes:
            raise ReadingFailed(Problem.NOT_TEXT, f"scontrol printed no nodes but {_start(body)}")
        _check_ends(body, "scontrol")
        return Reading(jobs, nodes, notes)

    async def topology(self) -> bytes:
        """What ``scontrol show topology`` prints; empty where Slurm has none.

        Raises:
            ReadingFailed: the program is missing, too slow, refused, or printed too much.
        """
        body = await self._run(TOPOLOGY_TEXT, _NO_TOPOLOGY)
        return b"" if _NO_TOPOLOGY in _text(body[:_STDERR_BYTES]).lower() else body

    async def close(self) -> None:
        """Nothing is kept open."""

    async def _jobs(self, notes: Notes) -> list[SlurmJob]:
        if not self._text_only:
            try:
                return await self._json_jobs(notes)
            except ReadingFailed as failed:
                if not any(sign in failed.detail.lower() for sign in _NO_JSON):
                    raise
                self._text_only = failed.detail
        body = await self._run(JOBS_TEXT, _NO_JOBS)
        zone = self._zone or datetime.now().astimezone().tzinfo or UTC
        jobs = await call_aside(read_scontrol_jobs, _text(body), zone)
        if body.strip() and not jobs and _NO_JOBS not in _text(body).lower():
            raise ReadingFailed(Problem.NOT_TEXT, f"scontrol printed no jobs but {_start(body)}")
        _check_ends(body, "scontrol")
        return jobs

    async def _json_jobs(self, notes: Notes) -> list[SlurmJob]:
        body = await self._run(JOBS_JSON, "")
        if not body.strip():
            raise ReadingFailed(Problem.EMPTY, "squeue printed nothing")
        try:
            document = await call_aside(load_reply, body, self.name)
        except BadReply as bad:
            problem = Problem.TORN if body.lstrip().startswith(b"{") else Problem.NOT_TEXT
            raise ReadingFailed(problem, f"squeue {bad.message.removeprefix(f'{self.name}: ')}") from bad
        for error in errors_of(document):
            notes.add(f"squeue says: {error}")
        if not isinstance(document.get("jobs"), list):
            raise ReadingFailed(Problem.NOT_TEXT, "squeue printed JSON without a list of jobs")
        return await call_aside(read_jobs, document, notes)

    async def _run(self, command: Sequence[str], nothing: str) -> bytes:
        """What a program prints.

        Raises:
            ReadingFailed: it is missing, too slow, printed too much or ended with an error; ``nothing`` is no error.
        """
        environment = dict(os.environ if self._environment is None else self._environment)
        environment |= {"SLURM_TIME_FORMAT": "%s", "LC_ALL": "C"}
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=environment,
                start_new_session=True,
            )
        except FileNotFoundError as missing:
            text = f"{command[0]} is not installed here; install Slurm's client tools, or set slurm.rest_url"
            raise ReadingFailed(Problem.UNREACHABLE, text) from missing
        except OSError as refused:
            raise ReadingFailed(Problem.UNREACHABLE, f"{command[0]} cannot be started: {refused.strerror}") from refused
        try:
            async with asyncio.timeout(self._timeout_s):
                out, err = await asyncio.gather(
                    _read_up_to(process, self._max_bytes), _read_start(process.stderr, _STDERR_BYTES)
                )
                code = await process.wait()
        except TimeoutError as slow:
            raise ReadingFailed(
                Problem.TIMEOUT, f"{command[0]} gave no whole answer within {self._timeout_s:g} s"
            ) from slow
        finally:
            await _end(process)
        if out is None:
            text = f"{command[0]} printed more than {self._max_bytes / MIB:g} MiB"
            raise ReadingFailed(Problem.TOO_LARGE, text)
        if code != 0 and not (nothing and nothing in (_text(out) + err).lower()):
            raise ReadingFailed(*_why(command[0], err or _text(out)[:_STDERR_BYTES], code))
        return out


def _why(program: str, said: str, code: int) -> tuple[Problem, str]:
    """The problem and a sentence, from what a program said before it ended with an error."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    last = lines[-1] if lines else f"nothing, and ended with {code}"
    low = said.lower()
    if any(sign in low for sign in _REFUSED):
        mend = "give this user an operator's rights, or read slurmrestd with a token"
        return Problem.QUERY_ERROR, f"{program} was refused: {last}; {mend}"
    if any(sign in low for sign in _NO_JSON):
        return Problem.QUERY_ERROR, f"{program} has no --json: {last}"
    return Problem.UNREACHABLE, f"{program} says: {last}"


async def _read_up_to(process: asyncio.subprocess.Process, limit: int) -> bytes | None:
    """All that a program prints; None when it is more than ``limit``, and the program is then ended."""
    assert process.stdout is not None
    chunks, size, killed = [], 0, False
    while chunk := await process.stdout.read(65_536):
        size += len(chunk)
        if size <= limit:
            chunks.append(chunk)
        elif not killed:
            killed = True
            chunks.clear()
            _kill(process)
    return b"".join(chunks) if size <= limit else None


async def _read_start(stream: asyncio.StreamReader | None, limit: int) -> str:
    """The first bytes of a stream, which is read to its end so that its writer never waits."""
    assert stream is not None
    kept = b""
    while chunk := await stream.read(65_536):
        kept = (kept + chunk)[:limit]
    return _text(kept)


def _kill(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


async def _end(process: asyncio.subprocess.Process) -> None:
    """End the program and what it started, if it still runs."""
    if process.returncode is not None:
        return
    _kill(process)
    # wait() comes back only once the pipes are read to their end; a grandchild of another session may hold them open.
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_END_S):
            for stream in (process.stdout, process.stderr):
                while stream is not None and await stream.read(65_536):
                    pass
            await process.wait()


def _check_ends(body: bytes, program: str) -> None:
    if body and not body.endswith(b"\n"):
        raise ReadingFailed(Problem.TORN, f"{program}'s text ends in the middle of a line")


def _text(body: bytes) -> str:
    return body.decode("utf-8", "replace")


def _start(body: bytes) -> str:
    return repr(_text(body[:80]).strip())
