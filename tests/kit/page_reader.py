"""Reads pages as the scraper does, without a network."""

from __future__ import annotations

from collectors.entities import Place
from collectors.exposition import PageParser
from collectors.fields import FieldMapper
from telemetry.samples import SampleBatch


class PageReader:
    """One parser and one mapper for each source."""

    def __init__(self) -> None:
        self._parts: dict[str, tuple[PageParser, FieldMapper]] = {}

    def read(self, source: str, page: bytes, node: str, now_s: float) -> SampleBatch:
        """The page as a batch received ``now_s``."""
        if source not in self._parts:
            self._parts[source] = (PageParser(), FieldMapper(source, Place(node)))
        parser, mapper = self._parts[source]
        return mapper.batch(parser.parse(page), now_s)
