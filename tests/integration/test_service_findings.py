"""What is sick reaches the API: from samples through the forecasting process to /v1/findings."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import numpy as np

from api.settings import load_settings
from api.wiring import build
from telemetry.ids import GpuId, JobId, SeriesKey
from telemetry.samples import SampleBatch, Sighting
from tests.kit.http_client import get

CARDS = tuple(GpuId("n1", f"GPU-{i}") for i in range(4))


def test_an_xid_reaches_the_api(tmp_path: Path) -> None:
    """A card falls off the bus under a job: one round later the card, its host and its job are told as sick."""
    built = build(load_settings(environment={}, port=0, store__folder=tmp_path / "store"))
    service = built.service
    now_s = service.now()
    keys = tuple(SeriesKey(metric, str(card)) for metric in ("gpu_xid_last_code", "gpu_power_watts") for card in CARDS)
    for second in range(60):
        at_s = now_s - 60 + second
        codes = np.where(np.arange(4) == 2, 79.0 if second >= 30 else 0.0, 0.0)
        value = np.concatenate([codes, 400.0 + 5.0 * np.sin(second + np.arange(4))])
        batch = SampleBatch(
            keys,
            np.arange(8, dtype=np.int32),
            np.full(8, at_s),
            value,
            np.zeros(8, np.uint8),
            tuple(Sighting(card, at_s, JobId("slurm", "7"), "", True, 1) for card in CARDS),
            received_s=at_s,
        )
        service._ring.append(replace(batch, source="test"))

    async def one_round() -> None:
        try:
            await service.forecast_once()
        finally:
            service.end_worker()

    asyncio.run(one_round())
    answer = get(built.app, "/v1/findings").json()
    (one,) = answer["items"]
    assert (one["kind"], one["detail"], one["entity"], one["jobs"]) == ("xid", "79", "n1:GPU-2", ["slurm:7"])
    assert {(each["thing"], each["entity"]) for each in answer["scores"]} == {
        ("gpu", "n1:GPU-2"),
        ("node", "n1"),
        ("job", "slurm:7"),
    }
    assert answer["seen"] == {"gpu": 4, "node": 1, "job": 1}
    assert {each["sign"] for each in answer["unknown"]} >= {"memory_errors", "port_errors", "straggling_rank"}
