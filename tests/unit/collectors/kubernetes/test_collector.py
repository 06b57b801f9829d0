"""The API server as a source: pages, refusals, and whose pods have which GPUs."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from collectors.kubernetes.client import KubernetesLists
from collectors.kubernetes.collector import KubernetesCollector
from collectors.ownership import Ownership
from telemetry.ids import GpuId, JobId
from telemetry.samples import Problem, Sighting, Window
from tests.kit.kubernetes import lists, node, pod
from tests.kit.page_server import serve, text_page


def _collect(handler, ownership=None, **given):
    async def run():
        async with serve(handler) as url:
            collector = KubernetesCollector(KubernetesLists(url, **given), ownership)
            try:
                return await collector.collect(Window(5.0, 5.0)), collector.roster
            finally:
                await collector.close()

    return asyncio.run(run())


def test_pages_are_followed_to_the_end():
    """Lists come in pages; only what is not over is asked for."""
    asked: list[str] = []
    pods = [pod(f"p-{i}", "gpu-01", 1) for i in range(7)]
    batch, roster = _collect(lists(asked, nodes=[node("gpu-01")], pods=pods), page_items=3)
    assert [(job.job.name, job.gpu_count) for job in roster.jobs] == [("ml:p", 7)]
    assert len(asked) == 4
    assert "status.phase" in asked[1]
    assert {key.metric: value for key, value in zip(batch.keys, batch.value.tolist(), strict=True)}[
        "node_gpu_used_count"
    ] == 7.0


def test_devices_by_claims_are_asked_for_only_where_pods_have_some():
    """Resource claims of the version that the server has; without them counts are kept, with a reason."""
    asked: list[str] = []
    _collect(lists(asked, nodes=[node("gpu-01")], pods=[pod("a", "gpu-01")]))
    assert not any("resource.k8s.io" in path for path in asked)
    item = pod("a", "gpu-01", 0, spec={"resourceClaims": [{"name": "g", "resourceClaimName": "c"}]})
    claim = {
        "metadata": {"namespace": "ml", "name": "c"},
        "status": {"allocation": {"devices": {"results": [{"driver": "d", "pool": "gpu-01", "device": "x"}]}}},
    }
    piece = {
        "spec": {
            "driver": "d",
            "pool": {"name": "gpu-01"},
            "devices": [{"name": "x", "attributes": {"uuid": {"string": "GPU-7"}}}],
        }
    }
    served = lists(asked, nodes=[node("gpu-01")], pods=[item], resourceclaims=[claim], resourceslices=[piece])
    batch, _ = _collect(served)
    assert [(s.gpu, s.job) for s in batch.sightings] == [(GpuId("gpu-01", "GPU-7"), JobId("kubernetes", "ml:a"))]


def test_labels_tell_the_devices_and_the_api_the_job():
    """The API knows that a pod has 2 GPUs, the labels which: nothing is missing and the job has one name."""
    ownership = Ownership()
    cards = [GpuId("gpu-01", f"GPU-{i}") for i in range(8)]
    ownership.index.learn((card, i) for i, card in enumerate(cards))
    seen = [Sighting(card, 4.0, JobId("kubernetes", "ml:odd"), "ml/train-0/main", True, 1) for card in cards[:2]]
    ownership.from_labels(seen)
    meta = {"labels": {"jobset.sigs.k8s.io/jobset-name": "train"}}
    batch, roster = _collect(lists(nodes=[node("gpu-01")], pods=[pod("train-0", "gpu-01", 2, meta=meta)]), ownership)
    assert roster.shares == ()
    assert batch.findings == ()
    assert {s.gpu for s in batch.sightings if s.job is None} == set(cards[2:])
    assert {s.job for s in ownership.from_labels(seen)} == {JobId("kubernetes", "ml:train")}


@pytest.mark.parametrize(
    ("handler", "problem", "words"),
    [
        (
            text_page(b'{"kind":"Status","message":"nodes is forbidden"}', status=403),
            Problem.QUERY_ERROR,
            "grant get and list",
        ),
        (text_page(b'{"kind":"Status"}', status=401), Problem.QUERY_ERROR, "token is missing or expired"),
        (text_page(b"<html>", status=502), Problem.HTTP_STATUS, "HTTP 502"),
        (text_page(b'{"kind":"Status"}', status=410), Problem.PARTIAL, "changed too much"),
        (text_page(b"", status=302), Problem.HTTP_STATUS, "HTTP 302"),
        (text_page(b"[]"), Problem.EMPTY, "nothing"),
        (text_page(b'{"items": 3}'), Problem.NOT_TEXT, "no list"),
        (lists(nodes=[node("cpu-01", 0)], pods=[]), Problem.EMPTY, "offers GPUs"),
    ],
)
def test_refusals(handler, problem, words):
    """What the API says no with, in a sentence that names the mend."""
    batch, _ = _collect(handler)
    assert len(batch) == 0
    assert batch.findings[0].problem is problem
    assert words in batch.findings[0].detail


def test_a_server_that_never_ends_its_list():
    """The same page again and again is told, not followed."""

    async def handler(request: web.Request) -> web.StreamResponse:
        return web.json_response({"items": [node("gpu-01")], "metadata": {"continue": "again"}})

    batch, _ = _collect(handler)
    assert batch.findings[0].problem is Problem.PARTIAL


def test_tokens(tmp_path):
    """Sent to this machine or over https only; read from the file each time."""
    token = tmp_path / "token"
    token.write_text("abc\n")
    given: list[str | None] = []
    inner = lists(nodes=[node("gpu-01")], pods=[])

    async def handler(request: web.Request) -> web.StreamResponse:
        given.append(request.headers.get("Authorization"))
        return await inner(request)

    assert len(_collect(handler, token_file=token)[0]) == 3
    assert set(given) == {"Bearer abc"}

    async def plain():
        collector = KubernetesCollector(KubernetesLists("http://kube.example:80", token_file=token))
        try:
            return await collector.collect(Window(1.0, 1.0))
        finally:
            await collector.close()

    assert "https only" in asyncio.run(plain()).findings[0].detail


def test_outside_of_a_cluster_without_an_address(monkeypatch):
    """It says what to set."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    batch = asyncio.run(KubernetesCollector(KubernetesLists()).collect(Window(1.0, 1.0)))
    assert "set kubernetes.url" in batch.findings[0].detail
