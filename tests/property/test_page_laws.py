"""Any page of known families, with any labels and values, gives a lawful batch."""

from __future__ import annotations

import json

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.answer import read_answer
from collectors.entities import Place
from collectors.exposition import PageParser
from collectors.fields import FieldMapper
from collectors.series_map import SeriesMapper
from telemetry.catalogue import SOURCES_OF
from telemetry.samples import validate_batch

FIELDS = sorted(SOURCES_OF)
LABELS = [
    "gpu",
    "UUID",
    "gpu_uuid",
    "uuid",
    "serial_number",
    "gpu_id",
    "gpu_partition_id",
    "GPU_I_ID",
    "Hostname",
    "hostname",
    "device",
    "port",
    "nvlink",
    "cpu",
    "mode",
    "link_index",
    "clock_type",
    "export",
    "mountpoint",
    "fstype",
    "xid",
    "clock_event",
    "pod",
    "namespace",
    "hpc_job",
    "job_id",
    "switch",
    "instance",
]
VALUE = st.sampled_from(
    ["0", "1", "GPU-1", "nvme0n1", "mlx5_0", "a:b", "idle", "user", "{x}", "<<<NULL>>>", "dm-0", ""]
)
NUMBER = st.sampled_from(["0", "1", "0.5", "NaN", "+Inf", "-1", "9223372036854775794", "2147483632", "1e308", "x"])
LINE = st.tuples(
    st.sampled_from(FIELDS),
    st.sampled_from(["", "amd_", "x_y_"]),
    st.dictionaries(st.sampled_from(LABELS), VALUE | st.text(max_size=6), max_size=8),
    NUMBER,
)


def page(lines: list[tuple[str, str, dict[str, str], str]]) -> bytes:
    text = ""
    for field, prefix, labels, number in lines:
        inside = ",".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in labels.items())
        text += f"{prefix}{field}{{{inside}}} {number}\n"
    return text.encode("utf-8", "replace")


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(LINE, max_size=12), min_size=1, max_size=3), st.sampled_from(["", "n1"]))
def test_any_page_gives_a_lawful_batch(pages, node):
    """Page after page of one target: no exception, unique keys, a reason beside every missing value."""
    mapper, parser = FieldMapper("page", Place(node, "fallback")), PageParser()
    for at_s, lines in enumerate(pages):
        batch = mapper.batch(parser.parse(page(lines)), float(at_s))
        validate_batch(batch)
        pairs = set(zip(batch.series.tolist(), batch.at_s.tolist(), strict=True))
        assert len(pairs) == len(batch)
        assert all(finding.detail for finding in batch.findings)


@settings(max_examples=100, deadline=None)
@given(st.lists(LINE, max_size=10), st.lists(st.integers(0, 50), min_size=1, max_size=4))
def test_any_answer_gives_a_lawful_batch(lines, times):
    result = [
        {
            "metric": {"__name__": prefix + field, **labels},
            "values": [[at_s, number] for at_s in sorted(set(times))],
        }
        for field, prefix, labels, number in lines
    ]
    document = {"status": "success", "data": {"resultType": "matrix", "result": result}}
    batch = SeriesMapper("server").batch([read_answer(document, "server")], 60.0)
    validate_batch(batch)
    assert np.isin(batch.at_s, times).all()
