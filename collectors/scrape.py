"""Scrape exporters over HTTP. A target that is dead, slow, huge or torn gives a finding and delays nobody."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import aiohttp
import numpy as np

from collectors.address import shown_address
from collectors.attribution import OwnerRules
from collectors.cadence import Cadence
from collectors.custom_map import CustomMap
from collectors.device_index import indices_of
from collectors.entities import Place, host_of
from collectors.exposition import PageParser, ParsedPage
from collectors.fields import FieldMapper
from collectors.ownership import Ownership
from collectors.plain_http import NotPlain, PlainConnection
from collectors.wiring import Wiring, capacities_of, nics_of, wiring_of
from telemetry.catalogue import METRICS
from telemetry.ids import LinkId
from telemetry.samples import Finding, FloatArray, Problem, SampleBatch, Window

MIB = 1024**2
CLOCK_AHEAD_S = 5.0
MOST_AHEAD_S = 60.0
"""A timestamp further ahead of ours than this cannot be used: one such source would move "now" for all the others."""
CLOCK_BEHIND_S = 35.0
"""dcgm-exporter refreshes every 30 s by default; a newest timestamp older than that plus slack is a slow clock."""
_PARSE_ASIDE_BYTES = MIB
"""Pages above this are parsed in a thread, so that one huge page does not hold up the loop."""
_WIRING_AGAIN_S = 60.0
_LEAST_TIMEOUT_S = 0.05
"""aiohttp takes 0 for no limit."""
_ACCEPT = "text/plain;version=0.0.4;q=1,*/*;q=0.1"


class _ScrapeFailed(Exception):
    """No usable page; carries the finding."""

    def __init__(self, problem: Problem, detail: str) -> None:
        super().__init__(detail)
        self.problem = problem


def open_session() -> aiohttp.ClientSession:
    """A session to share between all targets; to be called inside the running loop.

    There is no limit on connections: with one, targets that hang would keep the others waiting for a free place.
    """
    connector = aiohttp.TCPConnector(limit=0, ttl_dns_cache=300)
    return aiohttp.ClientSession(connector=connector, headers={"Accept": _ACCEPT}, raise_for_status=False)


class ExporterCollector:
    """One exporter's page.

    Args:
        url: of the page, such as ``http://10.0.0.11:9400/metrics``.
        session: shared; opened on first use and closed by ``close`` when None.
        node: host name to use where the labels give none; the URL's host when empty.
        rules: the site's naming of owners.
        cadence: decides which repeats are observations.
        timeout_s: for the whole scrape.
        max_bytes: of the page, after decompression.
        ownership: where the page's word on owners meets a scheduler's; None where there is no scheduler.
        custom: the site's own metrics.
    """

    def __init__(
        self,
        url: str,
        session: aiohttp.ClientSession | None = None,
        *,
        node: str = "",
        rules: OwnerRules | None = None,
        cadence: Cadence | None = None,
        timeout_s: float = 5.0,
        max_bytes: int = 64 * MIB,
        custom: CustomMap | None = None,
        ownership: Ownership | None = None,
    ) -> None:
        self.name = shown_address(url)
        self._url = url
        own = custom.metrics if custom else ()
        self.provides = frozenset(metric.name for metric in (*METRICS, *own) if metric.sources)
        self.cadence = cadence or Cadence()
        self.clock_offset_s: float | None = None
        self.wiring: tuple[Wiring, ...] = ()
        self.capacity_bytes_per_s: dict[str, float] = {}
        self.nics: set[LinkId] = set()
        self._session = session
        self._own_session = session is None
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._timeout_s = timeout_s
        self._max_bytes = max_bytes
        self._plain = PlainConnection(url, _ACCEPT, max_bytes) if PlainConnection.suits(url) else None
        self._good_before = False
        self._parser = PageParser()
        self._place = Place(node, host_of(url))
        self._mapper = FieldMapper(self.name, self._place, rules, custom)
        self._ownership = ownership
        self._last: tuple[object, FloatArray, FloatArray | None] | None = None
        self._wired_at: tuple[object, float] | None = None

    async def collect(self, window: Window) -> SampleBatch:
        """The page as it is now, stamped ``window.end_s`` unless it carries timestamps.

        An empty batch without findings means that the page repeats what was collected already.
        """
        now_s = window.end_s
        try:
            page, cut = await self._fetch()
        except _ScrapeFailed as failed:
            return self._failure(Finding(failed.problem, self.name, str(failed)), now_s)
        if len(page) > _PARSE_ASIDE_BYTES:
            parsed = await asyncio.to_thread(self._parser.parse, page)
        else:
            parsed = self._parser.parse(page)
        findings = self._clock_findings(parsed, now_s)
        batch = self._mapper.batch(_none_far_ahead(parsed, now_s), now_s)
        findings = batch.findings + findings
        if cut and not any(finding.problem is Problem.TORN for finding in findings):
            findings += (Finding(Problem.TORN, self.name, "the connection broke before the page ended"),)
        if not len(batch):
            self.cadence.failed()
            return SampleBatch.empty(
                source=self.name, findings=(*findings, self._nothing_useful(parsed)), received_s=now_s
            )
        self._note_wiring(parsed, batch)
        if not self.cadence.observe(now_s, self._changed(parsed, batch)):
            return SampleBatch.empty(source=self.name, received_s=now_s)
        if len(findings) != len(batch.findings):  # they only ever grow
            batch = replace(batch, findings=findings)
        return batch if self._ownership is None else self._ownership.settle(batch)

    async def close(self) -> None:
        """Release the connections that are this collector's own."""
        if self._plain is not None:
            self._plain.close()
        if self._own_session and self._session is not None:
            await self._session.close()
            self._session = None

    async def _fetch(self) -> tuple[bytes, bool]:
        """The page, and whether the connection broke before its end.

        Where the last reply was good, the next is read by the cheap way, and by the general one should it need that.
        """
        timeout = self._timeout
        if self._good_before and self._plain is not None:
            started_s = time.monotonic()
            try:
                return await self._plain.get(self._timeout_s), False
            except TimeoutError as slow:
                self._good_before = False
                raise self._too_slow() from slow
            except NotPlain as other:
                self._plain = None if other.for_good else self._plain
                left_s = self._timeout_s - (time.monotonic() - started_s)
                timeout = aiohttp.ClientTimeout(total=max(left_s, _LEAST_TIMEOUT_S))
        self._good_before = False
        page, cut = await self._fetch_any(timeout)
        self._good_before = not cut
        return page, cut

    def _too_slow(self) -> _ScrapeFailed:
        return _ScrapeFailed(Problem.TIMEOUT, f"no whole page within {self._timeout_s:g} s")

    async def _fetch_any(self, timeout: aiohttp.ClientTimeout) -> tuple[bytes, bool]:
        """What ``_fetch`` gives, whatever the server's ways."""
        if self._session is None:
            self._session = open_session()
        chunks: list[bytes] = []
        try:
            async with self._session.get(self._url, timeout=timeout, allow_redirects=False) as reply:
                _check_head(reply)
                size = 0
                async for chunk in reply.content.iter_any():
                    size += len(chunk)
                    if size > self._max_bytes:
                        limit = f"the page is larger than {self._max_bytes / MIB:.3g} MiB"
                        raise _ScrapeFailed(Problem.TOO_LARGE, limit)
                    chunks.append(chunk)
        except TimeoutError as slow:
            raise self._too_slow() from slow
        except aiohttp.ClientPayloadError as broken:
            if not chunks:
                raise _ScrapeFailed(Problem.TORN, "the connection broke before the page came") from broken
            return b"".join(chunks), True
        except (aiohttp.ClientError, OSError, ValueError) as dead:
            reason = str(dead).strip() or type(dead).__name__
            raise _ScrapeFailed(Problem.UNREACHABLE, f"cannot be reached: {reason}") from dead
        return b"".join(chunks), False

    def _failure(self, finding: Finding, now_s: float) -> SampleBatch:
        self._mapper.restart()
        self.cadence.failed()
        return SampleBatch.empty(source=self.name, findings=(finding,), received_s=now_s)

    def _nothing_useful(self, parsed: ParsedPage) -> Finding:
        if any(problem is Problem.NOT_TEXT for problem, _, _ in parsed.notes) and not parsed.layout.names:
            return Finding(Problem.EMPTY, self.name, "no line of text; is this a metrics page?")
        return Finding(Problem.EMPTY, self.name, "no sample of a known metric on the page; is this the right address?")

    def _changed(self, parsed: ParsedPage, batch: SampleBatch) -> bool:
        """Whether the page tells anything that the one before did not."""
        last = self._last
        stamps = None if parsed.at_s is None else batch.at_s
        self._last = (parsed.layout, batch.value, stamps)
        if last is None or last[0] is not parsed.layout or last[1].shape != batch.value.shape:
            return True
        if (last[2] is None) != (stamps is None):
            return True
        if stamps is not None and last[2] is not None and not np.array_equal(last[2], stamps):
            return True
        differs = last[1] != batch.value
        if not differs.any():
            return False
        first = int(differs.argmax())  # a NaN differs from itself, and nearly always it is no NaN
        return batch.value[first] == batch.value[first] or not np.array_equal(last[1], batch.value, equal_nan=True)

    def _clock_findings(self, parsed: ParsedPage, now_s: float) -> tuple[Finding, ...]:
        """Compare the page's newest timestamp with this machine's clock; the samples keep their own."""
        if parsed.at_s is None:
            self.clock_offset_s = None
            return ()
        offset_s = now_s - float(np.nanmax(parsed.at_s))
        self.clock_offset_s = offset_s
        count = int(np.isfinite(parsed.at_s).sum())
        if offset_s < -CLOCK_AHEAD_S:
            text = f"its clock is {-offset_s:.1f} s ahead of ours"
            if offset_s < -MOST_AHEAD_S:
                text += "; such samples get the time at which they arrived. Set that host's clock (NTP)"
            return (Finding(Problem.CLOCK_AHEAD, self.name, text, count),)
        if offset_s > CLOCK_BEHIND_S:
            text = f"its newest sample is {offset_s:.1f} s old by our clock; is its exporter stuck, or that host's clock off?"
            return (Finding(Problem.CLOCK_BEHIND, self.name, text, count),)
        return ()

    def _note_wiring(self, parsed: ParsedPage, batch: SampleBatch) -> None:
        now_s = time.monotonic()
        if self._wired_at and self._wired_at[0] is parsed.layout and now_s < self._wired_at[1] + _WIRING_AGAIN_S:
            return
        self._wired_at = (parsed.layout, now_s)
        if self._ownership is not None:
            self._ownership.index.learn(indices_of(parsed.layout.labels, self._place))
        self.wiring = wiring_of(parsed)
        self.capacity_bytes_per_s |= capacities_of(batch)
        self.nics = nics_of(batch)


def _none_far_ahead(parsed: ParsedPage, now_s: float) -> ParsedPage:
    """The page with timestamps that lie too far ahead taken out, so that those samples are stamped on arrival."""
    if parsed.at_s is None or not bool((parsed.at_s > now_s + MOST_AHEAD_S).any()):
        return parsed
    return replace(parsed, at_s=np.where(parsed.at_s > now_s + MOST_AHEAD_S, np.nan, parsed.at_s))


def _check_head(reply: aiohttp.ClientResponse) -> None:
    if 300 <= reply.status < 400:
        target = reply.headers.get("Location", "elsewhere")
        raise _ScrapeFailed(Problem.HTTP_STATUS, f"HTTP {reply.status}: sends us to {target}; give that address")
    if reply.status != 200:
        raise _ScrapeFailed(Problem.HTTP_STATUS, f"HTTP {reply.status} {reply.reason or ''}".rstrip())
    if reply.content_type in ("text/html", "application/json"):
        raise _ScrapeFailed(Problem.NOT_TEXT, f"answers with {reply.content_type}, not a metrics page")
