"""The ingest benchmark: right shape, and both parsers see the same pages."""

from __future__ import annotations

import json

import pytest
from prometheus_client.parser import text_string_to_metric_families

from api.bench import ingest, prometheus_backfill, remote_write
from api.bench.ingest_http import measure, rows_of
from collectors.exposition import PageParser
from collectors.remote_write.receiver import Message, Receiver


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(ingest, "_N_PAGES", 16)
    monkeypatch.setattr(prometheus_backfill, "N_NODES", 1)
    monkeypatch.setattr(ingest, "_N_PAGES_REFERENCE", 8)
    monkeypatch.setattr(ingest, "_over_http", lambda *_: [])
    monkeypatch.setattr(ingest, "_by_remote_write", lambda *_, **__: [])


def test_every_task_is_run_by_both(small):
    told: list[str] = []
    result = ingest.run(None, told.append)
    document = json.loads(result.to_json())
    assert {(row["task"], row["model"]) for row in document["rows"]} == {
        *((task, model) for task in ("parse", "page-to-store") for model in ("gpucast", "prometheus_client")),
        *(("prometheus-backfill", model) for model in prometheus_backfill.MODELS),
    }
    assert all(row["metric"] == "samples_per_cpu_s" and row["value"] > 0 for row in document["rows"])
    assert all(row["ci_low"] <= row["value"] <= row["ci_high"] for row in document["rows"])
    assert told


def test_pages_are_seeded_valid_and_change_from_one_to_the_next():
    first, second = ingest.make_pages(2, 7)
    assert ingest.make_pages(2, 7) == [first, second]
    parser = PageParser()
    ours, then = parser.parse(first), parser.parse(second)
    samples = [s for family in text_string_to_metric_families(first.decode()) for s in family.samples]
    assert ours.value.tolist() == [float(s.value) for s in samples]
    assert len(samples) == 160
    assert then.layout is ours.layout
    assert len(first) != len(second)
    assert (ours.value != then.value).mean() > 0.9


def test_over_http_every_node_is_read_and_stored():
    """Each node is read again and again, every sample under the node's own name, and the figures are those counted."""
    run = measure(ingest.make_pages(3, 7), 4, interval_s=0.2, measured_s=1.5, warm_up_s=0.2)
    assert run.series == 4 * 8 * 20
    assert run.samples == run.reads * 8 * 20 > 0
    assert {row.metric: row.value for row in rows_of(run, "t")}["samples_per_s"] == run.samples / run.wall_s
    assert run.cpu_s > 0
    assert run.rss_bytes > 0


def test_remote_write_is_measured_from_body_to_store() -> None:
    """Both versions; every sample that is sent is taken, else the figure would be too good."""
    rows = remote_write.rows(7, lambda _: None, n_nodes=2, n_scrapes=3)
    assert [(row.task, row.model, row.metric) for row in rows] == [
        ("remote-write", "gpucast", "samples_per_cpu_s"),
        ("remote-write-2", "gpucast", "samples_per_cpu_s"),
    ]
    assert all(0 < row.ci_low <= row.value <= row.ci_high for row in rows)
    for message in Message:
        (first, *_) = remote_write._bodies(message, 7, 2, 1)
        received = [Receiver("x").take(body, message, remote_write._FIRST_AT_S + 60.0) for body in first]
        assert sum(one.taken for one in received) == sum(one.samples for one in received) == 2 * 160
