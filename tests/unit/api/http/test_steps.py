"""Steps over HTTP: what is accepted, what is known already, what is refused and why."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from api.http.app import create_app
from api.intake import Intake, IntakeBusy
from api.push import Push
from telemetry.errors import StoreFull
from telemetry.samples import SampleBatch
from tests.kit.fake_reads import FakeReads
from tests.kit.http_client import call

NOW = 1_796_074_200.0


class Kept(Intake):
    """An intake that keeps everything, or fails as told."""

    def __init__(self) -> None:
        self.batches: list[SampleBatch] = []
        self.trouble: Exception | None = None

    async def keep(self, batches: Sequence[SampleBatch]) -> None:
        """Keep or fail."""
        if self.trouble is not None:
            raise self.trouble
        self.batches += batches


@pytest.fixture
def kept() -> Kept:
    """What came through."""
    return Kept()


@pytest.fixture
def app(kept: Kept) -> Any:
    """The app with the doors."""
    return create_app(FakeReads(), push=Push(kept, lambda: NOW))


def step(number: int, **more: object) -> dict[str, object]:
    return {"job": "slurm:7", "step": number, "at_s": NOW - 100 + number, **more}


def post(app: Any, body: object) -> Any:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return call(app, "POST", "/v1/steps", content=content)


def test_reports_are_stored_and_counted(app, kept):
    """A second sending is a duplicate, not an error."""
    first = post(app, [step(1, loss=2.5), step(2)])
    assert (first.status_code, first.headers["cache-control"]) == (200, "no-store")
    assert first.json() == {"accepted": 2, "duplicates": 0, "other_ranks": 0, "rejected": 0, "faults": []}
    assert post(app, [step(1), step(2)]).json()["duplicates"] == 2
    assert sum(map(len, kept.batches)) == 3


def test_a_wrong_report_does_not_fail_the_others(app):
    told = post(
        app, b"\n".join(json.dumps(item).encode() for item in (step(1), {"job": "slurm:7", "at_s": 1.0}))
    ).json()
    assert (told["accepted"], told["rejected"]) == (1, 1)
    assert told["faults"] == ["report 2: has neither a step nor a checkpoint"]


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", [], [step(-1)], {"step": 1}])
def test_where_nothing_can_be_used_it_is_a_422(app, kept, body):
    """Except an empty list, which is nothing to do."""
    reply = post(app, body)
    expected = (200, None) if body == [] else (422, "urn:gpucast:problem:bad-steps")
    assert (reply.status_code, reply.json().get("type")) == expected
    assert kept.batches == []


@pytest.mark.parametrize(("trouble", "status"), [(IntakeBusy("x"), 429), (StoreFull("x"), 507)])
def test_what_cannot_be_stored_is_to_be_sent_again(app, kept, trouble, status):
    """And is then no duplicate of itself."""
    kept.trouble = trouble
    reply = post(app, step(1))
    assert (reply.status_code, int(reply.headers["retry-after"]) >= 1) == (status, True)
    kept.trouble = None
    assert post(app, step(1)).json()["accepted"] == 1
    assert len(kept.batches) == 1


def test_a_duplicate_is_acknowledged_only_with_its_original():
    """Its original may still be on its way to the disk, and may not get there."""

    class Slow(Kept):
        def __init__(self) -> None:
            super().__init__()
            self.gate = asyncio.Event()

        async def keep(self, batches: Sequence[SampleBatch]) -> None:
            """Wait, then keep or fail."""
            await self.gate.wait()
            await super().keep(batches)

    async def main() -> None:
        for trouble in (None, StoreFull("x")):
            intake = Slow()
            push = Push(intake, lambda: NOW)
            first = asyncio.create_task(push.steps(json.dumps(step(1)).encode()))
            await asyncio.sleep(0)
            again = asyncio.create_task(push.steps(json.dumps(step(1)).encode()))
            await asyncio.sleep(0.01)
            assert not again.done()
            intake.trouble = trouble
            intake.gate.set()
            told = await asyncio.gather(first, again, return_exceptions=True)
            assert [isinstance(one, StoreFull) for one in told] == [trouble is not None] * 2

    asyncio.run(main())


def test_the_description_of_a_report_is_what_is_read(app):
    """Every field that the service reads is described, and a full report is valid by the description."""
    body = app.openapi()["paths"]["/v1/steps"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    one = body["anyOf"][0]
    full = step(1, rank=0, step_s=2.0, loss="nan", tokens=10, checkpoint="begin", data_wait_s=0.1)
    full |= {"slurm_job_id": 7, "namespace": "n", "pod": "p"}
    Draft202012Validator(one).validate(full)
    assert post(app, full).json()["accepted"] == 1
    assert set(one["properties"]) == set(full)
