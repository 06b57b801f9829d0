"""This host's GPUs through NVML: the same page as dcgm-exporter's, whatever the driver refuses."""

from __future__ import annotations

import asyncio
import importlib
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from collectors.exposition import PageParser
from collectors.fields import FieldMapper
from collectors.nvml import NvmlCollector, page_app
from collectors.nvml_page import NvmlPage, load_library
from telemetry.errors import ConfigError, SourceUnreachable
from telemetry.samples import Problem, SampleBatch, Window, validate_batch
from tests.kit.fake_nvml import FakeNvml, NVMLError, card

NOW = Window(1000.0, 1000.0)


def values(batch: SampleBatch) -> dict[tuple[str, str], float]:
    validate_batch(batch)
    pairs = zip(batch.series.tolist(), batch.value.tolist(), strict=True)
    return {(batch.keys[i].metric, batch.keys[i].entity): v for i, v in pairs}


def problems(batch: SampleBatch) -> dict[Problem, str]:
    return {finding.problem: finding.detail for finding in batch.findings}


async def read(library: FakeNvml, **more: Any) -> SampleBatch:
    return await NvmlCollector("n1", library=library, **more).collect(NOW)


@pytest.mark.asyncio
async def test_a_card_in_our_words_and_units():
    """Milliwatts, millijoules, megahertz, percent and kibibytes come out in the catalogue's units."""
    found = {metric: value for (metric, _), value in values(await read(FakeNvml([card()]))).items()}
    assert found == {
        "gpu_util_ratio": 0.98,
        "gpu_mem_copy_util_ratio": 0.4,
        "gpu_enc_util_ratio": 0.0,
        "gpu_dec_util_ratio": 0.0,
        "gpu_memory_used_bytes": 8 * 2**20,
        "gpu_memory_free_bytes": 100 * 2**20,
        "gpu_memory_reserved_bytes": 2 * 2**20,
        "gpu_memory_total_bytes": 110 * 2**20,
        "gpu_power_watts": pytest.approx(642.118),
        "gpu_energy_joules_total": pytest.approx(126272101.025),
        "gpu_sm_clock_hertz": 1.98e9,
        "gpu_mem_clock_hertz": 2.619e9,
        "gpu_temperature_celsius": 61.0,
        "gpu_memory_temperature_celsius": 70.0,
        "gpu_pcie_replay_total": 0.0,
        "gpu_xid_last_code": 0.0,
        "gpu_nvlink_tx_bytes_total": 1000 * 1024.0,
        "gpu_nvlink_rx_bytes_total": 2000 * 1024.0,
        "gpu_pcie_tx_bytes_per_s": 3 * 1024.0,
        "gpu_pcie_rx_bytes_per_s": 4 * 1024.0,
    }


def test_the_page_is_one_that_dcgm_exporter_could_have_written():
    """Families, labels and their order are the exporter's; another host's parser needs nothing new."""
    text = NvmlPage(FakeNvml([card(name='H100 "x"')]), "n1").render(0.0).decode()
    (line,) = [line for line in text.splitlines() if line.startswith("DCGM_FI_DEV_POWER_USAGE{")]
    assert line == (
        'DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-1",pci_bus_id="00000000:1A:00.0",device="nvidia0",'
        'modelName="H100 \\"x\\"",hostname="n1"} 642.118000'
    )
    assert "# TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION counter\n" in text
    assert "DCGM_FI_DEV_FB_USED{" in text
    batch = FieldMapper("elsewhere").batch(PageParser().parse(text.encode()), 1.0)
    assert batch.findings == () or set(problems(batch)) == {Problem.OWNER_UNKNOWN}


@pytest.mark.asyncio
async def test_what_a_card_does_not_support_is_absent_and_asked_for_once():
    """NOT_SUPPORTED costs its own reading only, and is remembered."""
    library = FakeNvml([card(errors={"energy": 3, "memory_heat": 3, "nvlink_tx": 3})])
    collector = NvmlCollector("n1", library=library)
    for _ in range(2):
        found = {metric for metric, _ in values(await collector.collect(NOW))}
        assert "gpu_power_watts" in found
        assert not {"gpu_energy_joules_total", "gpu_memory_temperature_celsius", "gpu_nvlink_tx_bytes_total"} & found
    assert library.calls.count("energy") == 1
    assert library.calls.count("power") == 2


@pytest.mark.asyncio
async def test_a_lost_card_gives_nothing_and_the_others_stay():
    """GPU_IS_LOST is told by name; a card that comes back after a reset is read again."""
    cards = [card("GPU-1"), card("GPU-2")]
    library = FakeNvml(cards)
    collector = NvmlCollector("n1", library=library)
    assert len({entity for _, entity in values(await collector.collect(NOW))}) == 2
    cards[1]["errors"] = {"heat": 15}
    batch = await collector.collect(NOW)
    assert {entity for _, entity in values(batch)} == {"n1:GPU-1"}
    assert "GPU-2" in problems(batch)[Problem.PARTIAL]
    cards[1]["absent"] = True
    assert "GPU 1" in problems(await collector.collect(NOW))[Problem.PARTIAL]
    cards[1] |= {"absent": False, "errors": {}}
    await collector.collect(NOW)
    batch = await collector.collect(NOW)
    assert {entity for _, entity in values(batch)} == {"n1:GPU-1", "n1:GPU-2"}


@pytest.mark.asyncio
async def test_all_cards_lost_is_no_empty_host():
    batch = await read(FakeNvml([card(lost=15)]))
    assert len(batch) == 0
    assert "is lost" in problems(batch)[Problem.PARTIAL]


@pytest.mark.asyncio
async def test_gpm_figures_come_with_the_second_reading(monkeypatch):
    """Activity and rates are what happened between two snapshots; too close ones give the old figures."""
    clock = [0.0]
    monkeypatch.setattr("collectors.nvml.time", type("T", (), {"monotonic": staticmethod(lambda: clock[0])}))
    numbers = {2: 75.0, 5: 41.0, 10: 53.0, 61: 2.0, 20: 3.0}
    library = FakeNvml([card(gpm=numbers)])
    collector = NvmlCollector("n1", library=library)
    first = values(await collector.collect(NOW))
    assert ("gpu_sm_active_ratio", "n1:GPU-1") not in first
    assert ("gpu_nvlink_tx_bytes_total", "n1:GPU-1") not in first
    clock[0] = 1.0
    second = {metric: value for (metric, _), value in values(await collector.collect(NOW)).items()}
    assert second["gpu_sm_active_ratio"] == 0.75
    assert second["gpu_tensor_active_ratio"] == pytest.approx(0.41)
    assert second["gpu_dram_active_ratio"] == pytest.approx(0.53)
    assert second["gpu_nvlink_tx_bytes_per_s"] == 2 * 2**20
    assert second["gpu_pcie_tx_bytes_per_s"] == 3 * 2**20
    assert "gpu_fp64_active_ratio" not in second
    clock[0] = 1.05
    library.cards[0]["gpm"] = {2: 10.0}
    assert ("gpu_sm_active_ratio", "n1:GPU-1") in values(await collector.collect(NOW))
    assert library.snapshots == 2
    collector.close()
    assert (library.snapshots, library.opened) == (0, 0)


@pytest.mark.asyncio
async def test_slices_have_memory_of_their_own_and_the_card_its_power(monkeypatch):
    clock = iter([0.0, 1.0])
    monkeypatch.setattr("collectors.nvml.time", type("T", (), {"monotonic": staticmethod(lambda: next(clock))}))
    slices = [
        {"id": 7, "name": "NVIDIA A100 MIG 1g.10gb", "memory": (3 * 2**20, 2**20, 0), "gpm": {1: 95.0}},
        {"id": 7, "name": "NVIDIA A100 MIG 1g.10gb", "memory": (3 * 2**20, 2**20, 0), "gpm": {1: 95.0}},
        {"id": 9, "name": "NVIDIA A100 MIG 2g.20gb", "memory": (5 * 2**20, 2**20, 0), "gpm": {1: 40.0}},
    ]
    collector = NvmlCollector("n1", library=FakeNvml([card(slices=slices, gpm={1: 50.0})]))
    await collector.collect(NOW)
    found = values(await collector.collect(NOW))
    assert found[("gpu_memory_used_bytes", "n1:GPU-1~7")] == 3 * 2**20
    assert found[("gpu_memory_used_bytes", "n1:GPU-1~9")] == 5 * 2**20
    assert found[("gpu_gr_engine_active_ratio", "n1:GPU-1~7")] == 0.95
    assert found[("gpu_gr_engine_active_ratio", "n1:GPU-1~9")] == 0.40
    assert found[("gpu_power_watts", "n1:GPU-1")] == pytest.approx(642.118)
    assert ("gpu_util_ratio", "n1:GPU-1") not in found


@pytest.mark.asyncio
async def test_xid_errors_stick_like_the_exporters():
    library = FakeNvml([card("GPU-1"), card("GPU-2")])
    collector = NvmlCollector("n1", library=library)
    await collector.collect(NOW)
    library.events = [(1, 31), (1, 43)]
    found = values(await collector.collect(NOW))
    assert found[("gpu_xid_last_code", "n1:GPU-2")] == 43
    assert found[("gpu_xid_last_code", "n1:GPU-1")] == 0
    assert values(await collector.collect(NOW))[("gpu_xid_last_code", "n1:GPU-2")] == 43


@pytest.mark.asyncio
async def test_an_old_driver_tells_memory_without_what_it_holds():
    found = {metric for metric, _ in values(await read(FakeNvml([card(old_driver=True)])))}
    assert "gpu_memory_used_bytes" in found
    assert "gpu_memory_reserved_bytes" not in found


@pytest.mark.asyncio
async def test_a_driver_that_hangs_is_asked_once():
    library = FakeNvml([card()])
    library.slow_s = 0.4
    collector = NvmlCollector("n1", library=library, timeout_s=0.05)
    for _ in range(3):
        assert Problem.TIMEOUT in problems(await collector.collect(NOW))
    await asyncio.sleep(0.5)
    assert len(await collector.collect(NOW)) > 0
    assert library.opened == 1


def test_without_driver_or_library_the_mend_is_told(monkeypatch):
    with pytest.raises(SourceUnreachable, match="Driver Not Loaded"):
        NvmlPage(FakeNvml([], init_error=9), "n1").render(0.0)

    def absent(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", absent)
    with pytest.raises(ConfigError, match=r"gpucast\[nvml\]"):
        load_library()


@pytest.mark.asyncio
async def test_the_page_over_http():
    collector = NvmlCollector("n1", library=FakeNvml([card()]))
    async with TestClient(TestServer(page_app(collector))) as client:
        reply = await client.get("/metrics")
        assert (reply.status, reply.content_type) == (200, "text/plain")
        assert b"DCGM_FI_DEV_GPU_UTIL" in await reply.read()
    dead = NvmlCollector("n1", library=FakeNvml([], init_error=9))
    async with TestClient(TestServer(page_app(dead))) as client:
        reply = await client.get("/metrics")
        assert reply.status == 503
        assert "driver" in await reply.text()


def test_the_fake_raises_as_the_library_does():
    assert NVMLError(3).value == 3
