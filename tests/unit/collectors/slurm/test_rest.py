"""Slurm by slurmrestd."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from collectors.slurm.collector import SlurmCollector
from collectors.slurm.rest import SlurmRest
from telemetry.samples import Problem, Window
from tests.kit.page_server import serve, slow_page, text_page
from tests.kit.slurm import JOB

JOBS = {"meta": {}, "errors": [], "jobs": [JOB]}
NODES = {
    "meta": {},
    "errors": [],
    "nodes": [{"name": "gpu-01", "state": ["MIXED"], "gres": "gpu:4", "gres_used": "gpu:2"}],
}


def _server(jobs, status=200, version="v0.0.41", asked=None):
    async def handler(request: web.Request) -> web.StreamResponse:
        if asked is not None:
            asked.append(
                (request.path, request.headers.get("X-SLURM-USER-TOKEN"), request.headers.get("X-SLURM-USER-NAME"))
            )
        if f"/slurm/{version}/" not in request.path:
            return web.Response(status=404, text="Unable find requested URL.")
        if request.path.endswith("ping"):
            return web.json_response({})
        if request.path.endswith("nodes"):
            return web.json_response(NODES)
        return web.json_response(jobs, status=status)

    return handler


def _collect(handler, **given):
    async def run():
        async with serve(handler) as url:
            collector = SlurmCollector(SlurmRest(url, **given))
            try:
                await collector.collect(Window(1.0, 1.0))
                return await collector.collect(Window(2.0, 2.0)), collector.roster
            finally:
                await collector.close()

    return asyncio.run(run())


def test_the_newest_version_served_is_found_once(tmp_path):
    """Versions are tried from the newest; then two requests a reading, with the token of the file."""
    token, asked = tmp_path / "token", []
    token.write_text("SLURM_JWT=abc.def\n")
    batch, roster = _collect(_server(JOBS, asked=asked), token_file=token, user="eve")
    assert (len(batch), roster.at_s, roster.jobs[0].gpu_count) == (3, 2.0, 2)
    paths = [path.rpartition("/")[2] for path, _, _ in asked]
    assert paths == [*["ping"] * 6, "jobs", "nodes", "jobs", "nodes"]
    assert {(given, user) for _, given, user in asked} == {("abc.def", "eve")}


@pytest.mark.parametrize(
    ("handler", "problem", "words"),
    [
        (_server(JOBS, version="v9"), Problem.HTTP_STATUS, "serves no version"),
        (_server({"message": "no"}, 401), Problem.QUERY_ERROR, "token is missing, expired"),
        (
            _server({"errors": [{"source": "slurm_load_jobs", "error": "Unspecified error"}], "jobs": []}, 500),
            Problem.QUERY_ERROR,
            "slurm_load_jobs: Unspecified error",
        ),
        (_server({"meta": {}}), Problem.QUERY_ERROR, "no list"),
        (text_page(b"<html>", content_type="text/html"), Problem.NOT_TEXT, "no JSON"),
        (text_page(b'{"jobs": ['), Problem.TORN, "no JSON"),
        (slow_page(5.0), Problem.TIMEOUT, "within 0.3 s"),
    ],
)
def test_refusals(handler, problem, words):
    """What slurmrestd says no with, in a sentence."""
    batch, roster = _collect(handler, timeout_s=0.3)
    assert (len(batch), roster.at_s) == (0, 0.0)
    assert batch.findings[0].problem is problem
    assert words in batch.findings[0].detail


def test_errors_in_an_answer_of_200_are_said():
    """HTTP 200 with errors occurs: the jobs count and the errors are told."""
    batch, roster = _collect(_server({**JOBS, "errors": [{"description": "one node is silent"}]}))
    assert len(roster.jobs) == 1
    assert any("one node is silent" in finding.detail for finding in batch.findings)


@pytest.mark.parametrize("content", [b"", b"two words", b"\xff\xfe"])
def test_token_files_that_hold_no_token(tmp_path, content):
    """Nothing odd is ever sent as a header; the file is named."""
    token = tmp_path / "token"
    token.write_bytes(content)
    batch, _ = _collect(_server(JOBS), token_file=token)
    assert f"the token file {token} holds no token" in batch.findings[0].detail
    token.unlink()
    assert "cannot read the token file" in _collect(_server(JOBS), token_file=token)[0].findings[0].detail


def test_a_password_in_the_address_is_never_shown():
    """The collector's name goes into findings, metrics and pages."""
    assert "secret" not in SlurmCollector(SlurmRest("http://eve:secret@slurm-01:6820")).name
