"""Findings through the API and as metrics."""

from __future__ import annotations

from typing import Any

import pytest

from api.http.app import create_app
from api.http.metrics import exposition
from api.http.settings import HttpSettings
from tests.kit.fake_reads import FakeReads
from tests.kit.http_client import get


def _ask(query: str = "") -> dict[str, Any]:
    reply = get(create_app(FakeReads()), f"/v1/findings{query}")
    assert reply.status_code == 200
    answer: dict[str, Any] = reply.json()
    return answer


def test_all_findings_worst_first_with_what_is_unknown() -> None:
    """Nothing asked: everything, with scores and the signs that cannot be looked for."""
    answer = _ask()
    assert [one["severity"] for one in answer["items"]] == ["critical", "warning", "info"]
    assert answer["total"] == 3
    assert answer["scores"][0]["score"] == 0.0
    assert answer["unknown"][0]["missing"] == ["nccl_busbw_bytes_per_s"]


@pytest.mark.parametrize(
    ("query", "kinds"),
    [
        ("?entity=gpu-09", ["xid"]),
        ("?entity=gpu-10:GPU-1", ["throttled"]),
        ("?entity=slurm:81234", ["xid", "straggler"]),
        ("?job=slurm:81234&severity=critical", ["xid"]),
        ("?kind=straggler", ["straggler"]),
        ("?severity=warning", ["xid", "straggler"]),
        ("?entity=nobody", []),
    ],
)
def test_filters_narrow_the_list(query: str, kinds: list[str]) -> None:
    """A host has what is on it, a job what it suffers from."""
    assert [one["kind"] for one in _ask(query)["items"]] == kinds


def test_pages_hold_every_finding_once() -> None:
    """The cursor goes on where the page before ended."""
    first = _ask("?limit=2")
    second = _ask(f"?limit=2&cursor={first['next_cursor']}")
    assert [one["kind"] for one in first["items"] + second["items"]] == ["xid", "straggler", "throttled"]
    assert second["next_cursor"] is None


def test_an_unknown_severity_is_a_problem() -> None:
    """422 with a sentence, as everywhere."""
    assert get(create_app(FakeReads()), "/v1/findings?severity=dire").status_code == 422


def test_metrics_show_only_what_has_a_finding() -> None:
    """A fleet of well cards adds no series."""
    lines = exposition(FakeReads(), HttpSettings()).splitlines()
    scores = [line for line in lines if line.startswith("gpucast_health_score_ratio{")]
    assert 'gpucast_health_score_ratio{thing="gpu",entity="gpu-09:GPU-3"} 0' in scores
    assert len(scores) == 4
    assert 'gpucast_health_findings{kind="xid",severity="critical"} 1' in lines
    assert 'gpucast_health_unknown{sign="slow_collective"} 1' in lines
