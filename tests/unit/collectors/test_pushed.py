"""Bodies kept in a file are shown as they would be stored."""

from __future__ import annotations

import json

import pytest

from collectors.inspect import inspect_source
from tests.kit.remote_write import STALE, v1, v2

AT = 1_767_225_600.0
POWER = {"Hostname": "n1", "UUID": "GPU-1", "__name__": "DCGM_FI_DEV_POWER_USAGE", "instance": "n1:9400"}


@pytest.mark.parametrize(("enc", "name"), [(v1, "prometheus.WriteRequest"), (v2, "io.prometheus.write.v2.Request")])
def test_a_remote_write_body_is_recognised(enc, name):
    """By itself; nobody tells which message it is."""
    found = inspect_source(enc((POWER, [(AT, 70.0), (AT + 1, STALE)]), ({"__name__": "up"}, [(AT, 1.0)])), "body")
    assert found.format == f"remote write request ({name})"
    assert [(row.metric, row.entity, row.value, row.at_s) for row in found.rows] == [
        ("gpu_power_watts", "n1:GPU-1", 70.0, AT),
        ("gpu_power_watts", "n1:GPU-1", None, AT + 1),
    ]
    assert [finding.count for finding in found.findings] == [1]
    assert found.summary.startswith("3 samples: 1 samples of 1 series would be kept, 1 are missing")


@pytest.mark.parametrize("enc", [v1, v2])
def test_a_body_without_a_known_series_is_still_one(enc):
    found = inspect_source(enc(({"__name__": "up"}, [(AT, 1.0)])), "body")
    assert (found.format[:20], found.rows) == ("remote write request", ())


@pytest.mark.parametrize("form", [json.dumps, lambda items: "\n".join(json.dumps(item) for item in items)])
def test_reports_of_steps_are_recognised(form):
    items = [{"job": "slurm:7", "step": i, "at_s": AT + i, "loss": "nan"} for i in range(2)]
    found = inspect_source(form([*items, items[0], {**items[0], "step": -1}]).encode(), "steps.json")
    assert found.format == "steps that a job reports"
    assert found.summary == "3 reports of 1 jobs, 1 told before"
    assert [row.value for row in found.rows if row.metric == "job_step_total"] == [0.0, 1.0]
    assert len(found.missing) == 2
    assert [finding.detail for finding in found.findings] == ["report 4: step is not a whole number from 0 on"]


@pytest.mark.parametrize("data", [b"{}", b"[]", b'{"a": 1}', b"\x00", b"\x05hello", b"[[[["])
def test_other_bytes_are_not_taken_for_them(data):
    found = inspect_source(data, "x")
    assert "remote write" not in found.format
    assert "steps" not in found.format


def test_a_report_without_a_time_shows_none():
    """It gets the time of its arrival, which a file does not tell."""
    found = inspect_source(b'{"job": "slurm:7", "step": 1}', "x")
    assert [row.at_s for row in found.rows] == [None]
