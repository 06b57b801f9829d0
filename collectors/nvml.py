"""This host's GPUs through NVML, where no dcgm-exporter runs: as a collector, and as a page for others to scrape."""

from __future__ import annotations

import asyncio
import socket
import time
from dataclasses import replace
from typing import Any

from aiohttp import web

from collectors.aside import call_aside
from collectors.attribution import OwnerRules
from collectors.device_index import indices_of
from collectors.entities import Place
from collectors.exposition import PageParser
from collectors.fields import FieldMapper
from collectors.nvml_page import NvmlPage, load_library
from collectors.ownership import Ownership
from telemetry.catalogue import METRICS
from telemetry.errors import ConfigError, SourceError, SourceUnreachable
from telemetry.samples import Finding, Problem, SampleBatch, Window

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class NvmlCollector:
    """This host's GPUs.

    Args:
        node: this host's name; what the system says when empty.
        library: ``pynvml`` or something that speaks like it; loaded at the first reading when None.
        rules: the site's naming of owners.
        timeout_s: longest wait for the driver. A driver that hangs is asked no second time meanwhile.
        ownership: told which card has which index, for a scheduler's numbers; None where there is no scheduler.
    """

    def __init__(
        self,
        node: str = "",
        *,
        library: Any = None,
        rules: OwnerRules | None = None,
        timeout_s: float = 5.0,
        ownership: Ownership | None = None,
    ) -> None:
        self._node = node or socket.gethostname()
        self.name = f"nvml:{self._node}"
        self.provides = frozenset(metric.name for metric in METRICS if metric.name.startswith("gpu_"))
        self._library = library
        self._page: NvmlPage | None = None
        self._parser = PageParser()
        self._mapper = FieldMapper(self.name, Place(self._node), rules)
        self._timeout_s = timeout_s
        self._ownership = ownership
        self._reading: asyncio.Task[bytes] | None = None

    async def collect(self, window: Window) -> SampleBatch:
        """What the cards say now, stamped ``window.end_s``."""
        try:
            text = await self.text()
        except SourceUnreachable as dead:
            return self._failure(Problem.UNREACHABLE, dead.message, window.end_s)
        except SourceError as odd:
            return self._failure(Problem.TOO_LARGE, odd.message, window.end_s)
        except ConfigError as missing:
            return self._failure(Problem.UNREACHABLE, str(missing), window.end_s)
        except TimeoutError:
            said = f"the NVIDIA driver gave no answer within {self._timeout_s:g} s"
            return self._failure(Problem.TIMEOUT, said, window.end_s)
        parsed = self._parser.parse(text)
        batch = self._mapper.batch(parsed, window.end_s)
        lost = self._page.lost if self._page is not None else ()
        findings = (*batch.findings, *(Finding(Problem.PARTIAL, self.name, f"a GPU is lost: {one}") for one in lost))
        if not len(batch):
            text_of = "no GPU answers" if lost else "the driver knows of no GPU"
            findings = (*findings, Finding(Problem.EMPTY, self.name, text_of))
            return SampleBatch.empty(source=self.name, findings=findings, received_s=window.end_s)
        batch = replace(batch, findings=findings)
        if self._ownership is None:
            return batch
        self._ownership.index.learn(indices_of(parsed.layout.labels, Place(self._node)))
        return self._ownership.settle(batch)

    async def text(self) -> bytes:
        """The page as it is now; a reading under way is waited for, not doubled.

        Raises:
            TimeoutError: the driver hangs.
            SourceError: the driver does not answer, or says what cannot be.
            ConfigError: the library is not installed.
        """
        if self._reading is None:
            self._reading = asyncio.create_task(call_aside(self.render))
        reading = self._reading
        done, _ = await asyncio.wait({reading}, timeout=self._timeout_s)
        if not done:
            raise TimeoutError
        self._reading = None
        return reading.result()

    def render(self) -> bytes:
        """The page as it is now; blocks.

        Raises:
            SourceError: the driver does not answer, or says what cannot be.
            ConfigError: the library is not installed.
        """
        if self._page is None:
            self._page = NvmlPage(self._library or load_library(), self._node)
        return self._page.render(time.monotonic())

    def close(self) -> None:
        """Release the driver."""
        if self._page is not None and self._reading is None:
            self._page.close()

    def _failure(self, problem: Problem, text: str, now_s: float) -> SampleBatch:
        self._mapper.restart()
        finding = Finding(problem, self.name, text)
        return SampleBatch.empty(source=self.name, findings=(finding,), received_s=now_s)


def page_app(collector: NvmlCollector) -> web.Application:
    """The page as an HTTP service: ``GET /metrics``, read anew for each request, one at a time."""
    turn = asyncio.Lock()

    async def metrics(_: web.Request) -> web.Response:
        async with turn:
            try:
                text = await collector.text()
            except TimeoutError:
                return web.Response(status=503, text="the NVIDIA driver gives no answer\n")
            except (SourceError, ConfigError) as error:
                return web.Response(status=503, text=f"{error}\n")
        return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE})

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    return app
