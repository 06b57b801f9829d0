"""Asks NCCL RAS over TCP and makes samples of its answer."""

from __future__ import annotations

import asyncio

from collectors.aside import call_aside
from collectors.nccl.ras import RasReport, Trouble, TroubleKind, parse_ras
from collectors.nccl.ras_text import NOWHERE, parse_ras_text
from collectors.nccl.samples import BatchMaker, Row
from telemetry.errors import BadReply
from telemetry.ids import CollectiveId, CommunicatorId, SeriesKey
from telemetry.samples import Finding, Problem, Reason, SampleBatch, Window

PORT = 28028
MIB = 1024**2
MAX_BYTES = 64 * MIB
"""A job of 10,000 ranks in a few communicators each answers with some tens of MiB."""
_CLIENT_PROTOCOL = 3
_JSON_FROM = 3
"""Protocol in which a server first knows SET FORMAT."""
_MOST_LINE = 256
_MOST_FINDINGS = 50
PROVIDES = frozenset(
    {"nccl_launched_total", "nccl_launch_lag_count", "nccl_missing_ranks_count", "nccl_failed_ranks_count"}
)
_GONE = (TroubleKind.MISSING, TroubleKind.UNRESPONSIVE, TroubleKind.DEAD)


class _AskFailed(Exception):
    """No usable answer; carries the finding's problem."""

    def __init__(self, problem: Problem, detail: str) -> None:
        super().__init__(detail)
        self.problem = problem


async def ask_ras(host: str, port: int, *, timeout_s: float, max_bytes: int) -> bytes:
    """RAS's whole answer: JSON where the server can, else text.

    Raises:
        _AskFailed: nothing usable within the time.
    """
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(host, port, limit=max(_MOST_LINE, 65_536))
            try:
                return await _converse(reader, writer, timeout_s, max_bytes)
            finally:
                # Not close(): that waits for a peer that does not read, and after a timeout nothing ends the waiting.
                writer.transport.abort()
    except TimeoutError as slow:
        raise _AskFailed(Problem.TIMEOUT, f"no whole answer within {timeout_s:g} s") from slow
    except ValueError as odd:  # a line without an end
        raise _AskFailed(Problem.NOT_TEXT, f"does not speak RAS's protocol: {odd}") from odd
    except (OSError, OverflowError) as dead:  # OverflowError: a port that is none
        raise _AskFailed(Problem.UNREACHABLE, f"cannot be reached: {str(dead) or type(dead).__name__}") from dead


async def _converse(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, timeout_s: float, max_bytes: int
) -> bytes:
    greeting = await _say(reader, writer, f"CLIENT PROTOCOL {_CLIENT_PROTOCOL}")
    words = greeting.split()
    if words[:2] != ["SERVER", "PROTOCOL"] or len(words) < 3 or not words[2].isascii() or not words[2].isdigit():
        raise _AskFailed(Problem.NOT_TEXT, f"answers with {greeting[:60]!r}; is this NCCL RAS?")
    # RAS waits this long for ranks that do not answer; half of ours, so that its answer still comes in time.
    await _say(reader, writer, f"TIMEOUT {max(int(timeout_s / 2), 1)}")
    if int(words[2][:9]) >= _JSON_FROM:
        await _say(reader, writer, "SET FORMAT json")
    writer.write(b"VERBOSE STATUS\n")
    await writer.drain()
    chunks: list[bytes] = []
    size = 0
    while chunk := await reader.read(65_536):
        size += len(chunk)
        if size > max_bytes:
            raise _AskFailed(Problem.TOO_LARGE, f"the answer is larger than {max_bytes / MIB:.3g} MiB")
        chunks.append(chunk)
    return b"".join(chunks)


async def _say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, line: str) -> str:
    """The server's line in return; empty when it hung up."""
    writer.write(f"{line}\n".encode())
    await writer.drain()
    return (await reader.readline())[:_MOST_LINE].decode("utf-8", "replace").strip()


class RasCollector:
    """A collector of one job's NCCL RAS.

    Args:
        host: any host of the job; one answers for all.
        port: NCCL_RAS_ADDR's port.
        timeout_s: for the whole conversation.
        max_bytes: of an answer.
    """

    def __init__(self, host: str, port: int = PORT, *, timeout_s: float = 10.0, max_bytes: int = MAX_BYTES) -> None:
        self.name = f"nccl-ras:{host}:{port}"
        self.provides = PROVIDES
        self.report: RasReport | None = None
        """The last answer; None when there was none, or when the last attempt failed."""
        self.report_at_s = 0.0
        """When it came, Unix seconds."""
        self._host, self._port = host, port
        self._timeout_s, self._max_bytes = timeout_s, max_bytes
        self._maker = BatchMaker(self.name, missing=Reason.NOT_FINITE)

    async def collect(self, window: Window) -> SampleBatch:
        """How the job's communicators fare now, stamped ``window.end_s``."""
        self.report = None
        try:
            answer = await ask_ras(self._host, self._port, timeout_s=self._timeout_s, max_bytes=self._max_bytes)
        except _AskFailed as failed:
            return self._nothing(failed.problem, str(failed), window)
        if not answer.strip():
            return self._nothing(Problem.EMPTY, "an empty answer", window)
        try:
            self.report = await call_aside(read_ras, answer, self.name)
        except BadReply as bad:
            torn = answer.lstrip()[:1] == b"{"
            return self._nothing(Problem.TORN if torn else Problem.NOT_TEXT, bad.message, window)
        if not self.report.communicators and not self.report.groups:
            return self._nothing(Problem.EMPTY, "no communicator in the answer", window)
        self.report_at_s = window.end_s
        return self._maker.batch(rows_of_report(self.report, window.end_s), window, findings_of(self.report, self.name))

    def _nothing(self, problem: Problem, text: str, window: Window) -> SampleBatch:
        finding = Finding(problem, self.name, text)
        return SampleBatch.empty(source=self.name, findings=(finding,), received_s=window.end_s)


def read_ras(answer: bytes, source: str) -> RasReport:
    """An answer in either form.

    Raises:
        BadReply: neither.
    """
    if answer.lstrip()[:1] == b"{":
        return parse_ras(answer, source)
    return parse_ras_text(answer, source)


def rows_of_report(report: RasReport, at_s: float) -> list[Row]:
    """The samples of an answer; a text answer has some of communicators in trouble only."""
    rows: list[Row] = []
    for one in report.communicators:
        rows.append((SeriesKey("nccl_missing_ranks_count", str(one.id)), at_s, float(one.n_missing)))
        rows.append(
            (SeriesKey("nccl_failed_ranks_count", str(one.id)), at_s, float(sum(rank.failed for rank in one.ranks)))
        )
        launches = one.launches()
        for operation in sorted({name for rank in one.ranks for name in rank.launched}):
            entity = str(CollectiveId(one.id, operation or "unknown"))
            most, fewest, _ = launches.get(operation, (None, None, ()))
            rows.append((SeriesKey("nccl_launched_total", entity), at_s, None if most is None else float(most)))
            if most is not None and fewest is not None:
                rows.append((SeriesKey("nccl_launch_lag_count", entity), at_s, float(most - fewest)))
    return rows if report.communicators else _rows_of_troubles(report.troubles, at_s)


def findings_of(report: RasReport, source: str) -> tuple[Finding, ...]:
    """What is wrong, with the job and with the answer, as findings; the first ones where there are many."""
    found = [
        Finding(Problem.WARNING, source, f"{trouble.kind} in {trouble.communicator}: {trouble.sentence}", trouble.count)
        for trouble in report.troubles[:_MOST_FINDINGS]
    ]
    if len(report.troubles) > _MOST_FINDINGS:
        more = len(report.troubles) - _MOST_FINDINGS
        found.append(Finding(Problem.WARNING, source, "more troubles of the same answer", more))
    found += [Finding(Problem.MALFORMED_LINE, source, text, count) for text, count in report.malformed.items()]
    if report.repeated:
        text = "communicators that are listed twice; the first is kept"
        found.append(Finding(Problem.DUPLICATE_SERIES, source, text, report.repeated))
    if report.timeouts:
        text = "ranks that did not answer RAS in time; the counts may be incomplete"
        found.append(Finding(Problem.PARTIAL, source, text, report.timeouts))
    return tuple(found)


def _rows_of_troubles(troubles: tuple[Trouble, ...], at_s: float) -> list[Row]:
    missing: dict[CommunicatorId, int] = {}
    lag: dict[CollectiveId, int] = {}
    for trouble in troubles:
        if trouble.communicator.hash == NOWHERE.hash:
            continue
        if trouble.kind in _GONE:
            missing[trouble.communicator] = missing.get(trouble.communicator, 0) + trouble.count
        elif trouble.kind is TroubleKind.LAGGING:
            lag[CollectiveId(trouble.communicator, trouble.operation)] = trouble.by
    rows: list[Row] = [(SeriesKey("nccl_missing_ranks_count", str(c)), at_s, float(n)) for c, n in missing.items()]
    return rows + [(SeriesKey("nccl_launch_lag_count", str(c)), at_s, float(n)) for c, n in lag.items()]
