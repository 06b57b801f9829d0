"""Topology sources of a running service: looked at now and then, merged anew when one of them changed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path

from collectors.aside import call_aside
from collectors.topology.keeper import Fresh, Kept, SourceState, last_good, packed, unpacked
from collectors.topology.read import SourceText
from telemetry.errors import BadReply, SourceError, SourceUnreachable
from telemetry.samples import Finding, Problem, SampleBatch, Window
from telemetry.topology import Topology

Read = Callable[[], Awaitable[bytes | None]]
"""The whole content of a source, None while it is as before. Raises SourceError."""
_MOST_KEPT_BYTES = 512 * 2**20


class TopologyBook:
    """One topology of several sources.

    Args:
        order: their (source, host), the most trusted first.
        keep_file: where the last good content of each lies over a restart; nowhere when None.
    """

    def __init__(self, order: Sequence[tuple[str, str]], keep_file: Path | None = None) -> None:
        self.topology = Topology()
        """Of every source that was ever good; others may still be merged with it."""
        self.problem = ""
        """Why the last good contents cannot be kept on disk; empty while they can."""
        self._order = tuple(order)
        self._keep_file = keep_file
        self._fresh: dict[tuple[str, str], Fresh] = {}
        self._states: dict[tuple[str, str], SourceState] = {}
        self._lock = asyncio.Lock()
        self._told = self._merged = 0
        self._kept: dict[str, Kept] = self._from_disk()

    async def put(self, fresh: Fresh, now_s: float) -> SourceState:
        """Take in what a source gives now; its state in the topology that comes of it."""
        text = fresh if isinstance(fresh, SourceText) else fresh[0]
        key = (text.source, text.host)
        self._fresh[key] = fresh
        self._told += 1
        mine = self._told
        async with self._lock:
            # Sources that come together are merged together.
            if self._merged < mine:
                upto = self._told
                known = [self._fresh[place] for place in self._order if place in self._fresh]
                topology, states, self._kept = await call_aside(last_good, known, dict(self._kept), now_s)
                self.topology, self._merged = topology, upto
                self._states = {(state.source, state.host): state for state in states}
                await call_aside(self._to_disk)
        return self._states[key]

    def states(self, now_s: float) -> tuple[SourceState, ...]:
        """Every source that was looked at, in the order of trust; ages are of ``now_s``."""
        states = [self._states[key] for key in self._order if key in self._states]
        return tuple(self._aged(state, now_s) for state in states)

    def _aged(self, state: SourceState, now_s: float) -> SourceState:
        kept = self._kept.get(f"{state.source}={state.host}")
        if kept is None or not state.error or state.age_s is None:
            return state
        return replace(state, age_s=max(0.0, now_s - kept.at_s))

    def _from_disk(self) -> dict[str, Kept]:
        path = self._keep_file
        try:
            if path is None or not path.exists() or path.stat().st_size > _MOST_KEPT_BYTES:
                return {}
            kept = unpacked(path.read_bytes(), str(path))
        except (OSError, BadReply) as error:
            self.problem = f"the last good topology in {path} cannot be used: {error}"
            return {}
        wanted = {f"{source}={host}" for source, host in self._order}
        return {key: one for key, one in kept.items() if key in wanted}

    def _to_disk(self) -> None:
        """Beside it first, so that a full disk leaves the older file whole."""
        if self._keep_file is None:
            return
        beside = self._keep_file.with_name(f"{self._keep_file.name}.new")
        try:
            beside.write_bytes(packed(self._kept))
            beside.replace(self._keep_file)
            self.problem = ""
        except OSError as error:
            self.problem = f"the last good topology cannot be kept in {self._keep_file}: {error.strerror or error}"


class TopologySource:
    """One source as a collector: it has no samples, and ``doctor`` shows how it stands.

    Args:
        source: path, address, ``kubernetes`` or ``slurm``.
        host: whose inside it shows; empty when it says so itself.
        read: gives its content.
        book: where it goes.
        timeout_s: longest wait for it.
    """

    provides: frozenset[str] = frozenset()

    def __init__(self, source: str, host: str, read: Read, book: TopologyBook, timeout_s: float) -> None:
        self.name = f"topology:{source}" + (f"={host}" if host else "")
        self._text = SourceText(b"", source, host)
        self._read = read
        self._book = book
        self._timeout_s = timeout_s
        self._data: bytes | None = None
        self._failed: Finding | None = None

    async def collect(self, window: Window) -> SampleBatch:
        """No samples; a finding when the source cannot be used, and what is odd about it when it changed."""
        try:
            async with asyncio.timeout(self._timeout_s):
                data = await self._read()
        except TimeoutError:
            slow = SourceUnreachable(self._text.source, f"no whole answer within {self._timeout_s:g} s")
            return await self._without(slow, window, Problem.TIMEOUT)
        except SourceError as error:
            problem = Problem.UNREACHABLE if isinstance(error, SourceUnreachable) else Problem.NOT_TEXT
            return await self._without(error, window, problem)
        if data is None or data == self._data:
            return self._said(window, (self._failed,) if self._failed else ())
        self._data, self._failed = data, None
        state = await self._book.put(replace(self._text, data=data), window.end_s)
        if state.error:
            self._failed = Finding(Problem.NOT_TEXT, self.name, state.error)
        return self._said(window, (self._failed,) if self._failed else state.findings)

    async def _without(self, error: SourceError, window: Window, problem: Problem) -> SampleBatch:
        self._data = None
        finding = Finding(problem, self.name, str(error))
        if self._failed is None or self._failed.detail != finding.detail:
            await self._book.put((self._text, error), window.end_s)
        self._failed = finding
        return self._said(window, (finding,))

    def _said(self, window: Window, findings: tuple[Finding, ...]) -> SampleBatch:
        return SampleBatch.empty(source=self.name, findings=findings, received_s=window.end_s)
