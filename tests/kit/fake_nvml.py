# ruff: noqa: N802 the names are the library's
"""A pretend NVML: cards as dictionaries, errors where a test puts them."""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, ClassVar

from collectors.base import Collector
from collectors.nvml import NvmlCollector
from telemetry.samples import Window


class NVMLError(Exception):
    """As pynvml's: carries the code as ``value``."""

    def __init__(self, value: int) -> None:
        super().__init__({3: "Not Supported", 9: "Driver Not Loaded", 10: "Timeout", 15: "GPU is lost"}.get(value, "?"))
        self.value = value


class FakeNvml:
    """Speaks like the module ``pynvml`` as far as the collector listens.

    Args:
        cards: one dictionary per card: ``uuid`` and readings; a reading that is an int in ``errors`` raises it.
        count: what the driver says of the number of cards; theirs when None.
    """

    NVMLError = NVMLError
    NVML_ERROR_NOT_SUPPORTED, NVML_ERROR_TIMEOUT, NVML_ERROR_GPU_IS_LOST = 3, 10, 15
    NVML_ERROR_UNINITIALIZED, NVML_ERROR_RESET_REQUIRED, NVML_ERROR_GPU_NOT_FOUND = 1, 16, 28
    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0
    NVML_FI_DEV_MEMORY_TEMP = 82
    NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX = 138, 139
    NVML_PCIE_UTIL_TX_BYTES, NVML_PCIE_UTIL_RX_BYTES = 0, 1
    NVML_GPM_METRICS_GET_VERSION = 1
    nvmlEventTypeXidCriticalError = 8  # noqa: N815
    nvmlMemory_v2 = 0x02000028  # noqa: N815
    NVML_GPM_METRIC_GRAPHICS_UTIL, NVML_GPM_METRIC_SM_UTIL, NVML_GPM_METRIC_SM_OCCUPANCY = 1, 2, 3
    NVML_GPM_METRIC_INTEGER_UTIL, NVML_GPM_METRIC_ANY_TENSOR_UTIL, NVML_GPM_METRIC_DRAM_BW_UTIL = 4, 5, 10
    NVML_GPM_METRIC_FP64_UTIL, NVML_GPM_METRIC_FP32_UTIL, NVML_GPM_METRIC_FP16_UTIL = 11, 12, 13
    NVML_GPM_METRIC_PCIE_TX_PER_SEC, NVML_GPM_METRIC_PCIE_RX_PER_SEC = 20, 21
    NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC, NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC = 60, 61

    def __init__(self, cards: list[dict[str, Any]], *, count: int | None = None, init_error: int = 0) -> None:
        self.cards = cards
        self.count = len(cards) if count is None else count
        self.init_error = init_error
        self.events: list[tuple[int, int]] = []
        self.calls: list[str] = []
        self.slow_s = 0.0
        self.opened = 0
        self.snapshots = 0

    def _get(self, card: dict[str, Any], name: str) -> Any:
        self.calls.append(name)
        error = card.get("errors", {}).get(name) or card.get("lost")
        if error:
            raise NVMLError(error)
        if name not in card:
            raise NVMLError(self.NVML_ERROR_NOT_SUPPORTED)
        return card[name]

    def nvmlInit(self) -> None:
        time.sleep(self.slow_s)
        if self.init_error:
            raise NVMLError(self.init_error)
        self.opened += 1

    def nvmlShutdown(self) -> None:
        self.opened -= 1

    def nvmlDeviceGetCount(self) -> int:
        return self.count

    def nvmlDeviceGetHandleByIndex(self, index: int) -> dict[str, Any]:
        if self.cards[index].get("absent"):
            raise NVMLError(self.NVML_ERROR_GPU_IS_LOST)
        return self.cards[index]

    def nvmlDeviceGetUUID(self, card: dict[str, Any]) -> Any:
        return card["uuid"]

    def nvmlDeviceGetName(self, card: dict[str, Any]) -> Any:
        return card.get("name", "NVIDIA H100")

    def nvmlDeviceGetPciInfo(self, card: dict[str, Any]) -> SimpleNamespace:
        return SimpleNamespace(busId=b"00000000:1A:00.0")

    def nvmlDeviceGetUtilizationRates(self, card: dict[str, Any]) -> SimpleNamespace:
        gpu, memory = self._get(card, "util")
        return SimpleNamespace(gpu=gpu, memory=memory)

    def nvmlDeviceGetEncoderUtilization(self, card: dict[str, Any]) -> list[int]:
        return [self._get(card, "encoder"), 1000]

    def nvmlDeviceGetDecoderUtilization(self, card: dict[str, Any]) -> list[int]:
        return [self._get(card, "decoder"), 1000]

    def nvmlDeviceGetMemoryInfo(self, card: dict[str, Any], version: int | None = None) -> SimpleNamespace:
        if version is not None and card.get("old_driver"):
            raise NVMLError(25)
        used, free, reserved = self._get(card, "memory")
        return SimpleNamespace(used=used, free=free, reserved=reserved, total=used + free + reserved)

    def nvmlDeviceGetPowerUsage(self, card: dict[str, Any]) -> int:
        return self._get(card, "power")

    def nvmlDeviceGetTotalEnergyConsumption(self, card: dict[str, Any]) -> int:
        return self._get(card, "energy")

    def nvmlDeviceGetClockInfo(self, card: dict[str, Any], kind: int) -> int:
        return self._get(card, "sm_clock" if kind == self.NVML_CLOCK_SM else "mem_clock")

    def nvmlDeviceGetTemperature(self, card: dict[str, Any], sensor: int) -> int:
        return self._get(card, "heat")

    def nvmlDeviceGetPcieReplayCounter(self, card: dict[str, Any]) -> int:
        return self._get(card, "replays")

    def nvmlDeviceGetPcieThroughput(self, card: dict[str, Any], way: int) -> int:
        return self._get(card, "pcie")[way]

    def nvmlDeviceGetFieldValues(self, card: dict[str, Any], fields: list[Any]) -> list[SimpleNamespace]:
        names = {82: "memory_heat", 138: "nvlink_tx", 139: "nvlink_rx"}
        field = fields[0] if isinstance(fields[0], int) else fields[0][0]
        try:
            number = self._get(card, names[field])
        except NVMLError as error:
            return [SimpleNamespace(nvmlReturn=error.value, value=None)]
        return [SimpleNamespace(nvmlReturn=0, value=SimpleNamespace(uiVal=number, ullVal=number))]

    def nvmlDeviceGetMigMode(self, card: dict[str, Any]) -> tuple[int, int]:
        return (1, 1) if "slices" in card else (0, 0)

    def nvmlDeviceGetMaxMigDeviceCount(self, card: dict[str, Any]) -> int:
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, card: dict[str, Any], place: int) -> dict[str, Any]:
        if place >= len(card["slices"]):
            raise NVMLError(6)
        return card["slices"][place]

    def nvmlDeviceGetGpuInstanceId(self, part: dict[str, Any]) -> int:
        return part["id"]

    def nvmlEventSetCreate(self) -> object:
        return object()

    def nvmlDeviceRegisterEvents(self, card: dict[str, Any], kinds: int, events: object) -> None:
        self._get(card, "uuid")

    def nvmlEventSetWait_v2(self, events: object, wait_ms: int) -> SimpleNamespace:
        if not self.events:
            raise NVMLError(self.NVML_ERROR_TIMEOUT)
        card, xid = self.events.pop(0)
        return SimpleNamespace(device=self.cards[card], eventData=xid)

    def nvmlGpmQueryDeviceSupport(self, card: dict[str, Any]) -> SimpleNamespace:
        return SimpleNamespace(isSupportedDevice=int("gpm" in card))

    def nvmlGpmSampleAlloc(self) -> dict[str, Any]:
        self.snapshots += 1
        return {}

    def nvmlGpmSampleFree(self, sample: dict[str, Any]) -> None:
        self.snapshots -= 1

    def nvmlGpmSampleGet(self, card: dict[str, Any], sample: dict[str, Any]) -> None:
        sample["of"] = self._get(card, "gpm")

    def nvmlGpmMigSampleGet(self, card: dict[str, Any], instance: int, sample: dict[str, Any]) -> None:
        sample["of"] = next(part["gpm"] for part in card["slices"] if part["id"] == instance)

    def c_nvmlGpmMetricsGet_t(self) -> SimpleNamespace:
        metrics = [SimpleNamespace(metricId=0, nvmlReturn=0, value=0.0) for _ in range(200)]
        return SimpleNamespace(metrics=metrics, version=0, numMetrics=0, sample1=None, sample2=None)

    def nvmlGpmMetricsGet(self, question: SimpleNamespace) -> SimpleNamespace:
        for metric in question.metrics[: question.numMetrics]:
            number = question.sample2["of"].get(metric.metricId)
            metric.nvmlReturn, metric.value = (3, 0.0) if number is None else (0, number)
        return question


def card(uuid: str = "GPU-1", **more: Any) -> dict[str, Any]:
    """A whole card that gives everything but GPM."""
    return {
        "uuid": uuid,
        "util": (98, 40),
        "encoder": 0,
        "decoder": 0,
        "memory": (8 * 2**20, 100 * 2**20, 2 * 2**20),
        "power": 642118,
        "energy": 126272101025,
        "sm_clock": 1980,
        "mem_clock": 2619,
        "heat": 61,
        "memory_heat": 70,
        "replays": 0,
        "pcie": (3, 4),
        "nvlink_tx": 1000,
        "nvlink_rx": 2000,
        **more,
    }


class NvmlStage:
    """A pretend driver."""

    window = Window(1000.0, 1000.0)
    drivers: ClassVar[dict[str, Callable[[], FakeNvml]]] = {
        "good": lambda: FakeNvml([card()]),
        "dead": lambda: FakeNvml([], init_error=9),
        "slow": lambda: FakeNvml([card()]),
        "huge": lambda: FakeNvml([], count=10**9),
        "torn": lambda: FakeNvml([card("GPU-1"), card("GPU-2", errors={"heat": 15})]),
        "empty": lambda: FakeNvml([]),
        "nan": lambda: FakeNvml([card(power=math.nan)]),
        "duplicate": lambda: FakeNvml([card(), card()]),
        "not_text": lambda: FakeNvml([card(b'\xff"\n\x00', name=b"\xfe")]),
    }

    @asynccontextmanager
    async def collector(self, condition: str) -> AsyncIterator[Collector]:
        library = self.drivers[condition]()
        library.slow_s = 1.0 if condition == "slow" else 0.0
        collector = NvmlCollector("n1", library=library, timeout_s=0.3)
        try:
            yield collector
        finally:
            collector.close()
