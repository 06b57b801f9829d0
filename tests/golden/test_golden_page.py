"""Golden page -> golden batch: any change in what is stored from a page shows here as a difference."""

from __future__ import annotations

import json
from pathlib import Path

from collectors.entities import Place
from collectors.exposition import PageParser
from collectors.fields import FieldMapper
from telemetry.samples import Reason, SampleBatch

FOLDER = Path(__file__).parent


def as_document(batch: SampleBatch) -> dict[str, object]:
    """The batch as JSON that a reader can check."""
    samples = []
    for series, at_s, value, reason in zip(batch.series, batch.at_s, batch.value, batch.reason, strict=True):
        key = batch.keys[series]
        shown = None if reason else float(value)
        samples.append([key.metric, key.entity, float(at_s), shown, Reason(int(reason)).name])
    return {
        "samples": samples,
        "sightings": [
            [str(s.gpu), str(s.job) if s.job else None, s.workload, s.known, s.sharers] for s in batch.sightings
        ],
        "findings": sorted([f.problem.value, f.count, f.detail] for f in batch.findings),
    }


def test_the_golden_page_gives_the_golden_batch():
    page = PageParser().parse((FOLDER / "page.prom").read_bytes())
    batch = FieldMapper("page.prom", Place(fallback="node-09")).batch(page, 1767225600.0)
    golden = json.loads((FOLDER / "batch.json").read_text())
    assert as_document(batch) == golden
