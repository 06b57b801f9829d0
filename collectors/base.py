"""The collector seam. No I/O here, so that other rooms may import it."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from telemetry.samples import SampleBatch, Window


@runtime_checkable
class Collector(Protocol):
    """One source of samples.

    The contract, checked by ``collectors.checks``: a source that is down, slow, empty or torn gives a batch
    with a finding, never an exception and never a made-up value; times lie inside the window; units are the
    catalogue's.
    """

    name: str
    """What ``doctor`` and metrics call it, such as the target's URL."""
    provides: frozenset[str]
    """Catalogue metrics it may give."""

    async def collect(self, window: Window) -> SampleBatch:
        """Samples inside ``window``.

        A scraper gives what the page shows now, stamped with the time of the scrape (``window.end_s``) unless
        the page carries its own timestamps; a history source gives everything it holds in the window.
        """
        ...
